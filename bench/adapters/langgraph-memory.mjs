// LangGraph through createAgent of langchain, with its checkpoints in memory.

import { MemorySaver } from "@langchain/langgraph";
import { connectGraph } from "../harness/langgraph.mjs";

export const about = { name: "langgraph + memory", package: "@langchain/langgraph", keeps: "memory" };

export const connect = (options) => connectGraph(options, { saver: new MemorySaver() });

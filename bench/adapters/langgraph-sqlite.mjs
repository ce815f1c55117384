// LangGraph with the SQLite checkpointer it comes with, and its default durability.

import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { connectGraph } from "../harness/langgraph.mjs";

export const about = { name: "langgraph + sqlite", package: "@langchain/langgraph", keeps: "sqlite" };

export function connect(options) {
  const saver = SqliteSaver.fromConnString(`${options.dir}/checkpoints.db`);
  return connectGraph(options, { saver, close: () => saver.db.close() });
}

// The OpenAI Agents SDK with its session in memory.

import { MemorySession } from "@openai/agents";
import { connectAgents } from "../harness/openai-agents.mjs";

export const about = { name: "openai-agents + memory", package: "@openai/agents", keeps: "memory" };

export const connect = (options) =>
  connectAgents(options, { sessionOf: (id) => new MemorySession({ sessionId: id }) });

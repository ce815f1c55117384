// Mastra's durable agent, which stores the checkpoints of a run and takes up what was left unfinished.

import { connectMastra } from "../harness/mastra.mjs";

export const about = { name: "mastra durable + libsql", package: "@mastra/core", keeps: "libsql" };

export const connect = (options) => connectMastra(options, { isDurable: true });

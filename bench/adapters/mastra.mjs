// Mastra's agent with its memory on libSQL.

import { connectMastra } from "../harness/mastra.mjs";

export const about = { name: "mastra + libsql", package: "@mastra/core", keeps: "libsql" };

export const connect = (options) => connectMastra(options, { isDurable: false });

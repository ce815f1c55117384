// A process with a runtime on a file and a server. It is killed in the middle of a turn, after one call of the server.
//   node child.mjs <database> <own server> <log>

import { writeSync } from "node:fs";
import { createRuntime } from "../../../src/kernel/create-runtime.ts";
import { mcp } from "../../../src/mcp.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { callTool, type ScriptStep, scriptedModel } from "../../../src/testing/scripted-model.ts";

const [path = "", server = "", log = ""] = process.argv.slice(2);

const servers = mcp({
  servers: { own: { command: process.execPath, args: [server], env: { LOG: log }, approve: "always" } },
});
const runtime = createRuntime({
  model: scriptedModel([
    callTool("mcp__own__echo", { text: "1" }),
    () => {
      writeSync(1, "second round\n");
      return new Promise<ScriptStep>(() => setInterval(() => undefined, 1_000));
    },
  ]),
  store: sqliteStore({ path }),
  plugins: [servers.plugin],
});
const session = await runtime.session("s");
await session.turn("go", { key: "k" }).result;

// A process that has a turn whose tool never ends, under a lease of ten minutes. It is killed while the tool runs.
//   node leases-child.mjs <database>

import { writeSync } from "node:fs";
import { createRuntime, defineTool } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, scriptedModel } from "marling/testing";

const work = defineTool({
  name: "work",
  description: "Never ends.",
  input: { type: "object" },
  execute: () =>
    new Promise(() => {
      writeSync(1, "tool runs\n");
      setInterval(() => undefined, 1000);
    }),
});

const runtime = createRuntime({
  model: scriptedModel([callTool("work")]),
  store: sqliteStore({ path: process.argv[2] ?? "" }),
  leaseMs: 600_000,
  tools: [work],
});
const session = await runtime.session("s");
await session.turn("go").result;

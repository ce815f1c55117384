// A process whose tool ends it. Prints what became of the session in the life that comes to its end.
//   node poison.mjs <database>

import { createRuntime, defineTool } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { lastText } from "./scenarios/sample-tools.mjs";

const poison = defineTool({
  name: "poison",
  description: "Ends the process.",
  input: { type: "object" },
  replay: "safe",
  execute: () => process.kill(process.pid, "SIGKILL"),
});

const runtime = createRuntime({
  model: scriptedModel((request) => (lastText(request) === "go" ? callTool("poison") : say("fine again"))),
  store: sqliteStore({ path: process.argv[2] ?? "" }),
  tools: [poison],
});
await runtime.recover();
const session = await runtime.session("s");
for (const text of ["go", "go on"]) await session.turn(text, { key: text }).result;
const { messages, turnIndex } = session.read();
const said = messages.map(({ role, parts: [part] }) => [
  role,
  part !== undefined && "text" in part ? part.text : "",
]);
await runtime.close();
console.log(JSON.stringify({ said, turnIndex }));

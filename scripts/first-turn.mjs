// One turn with a tool, told by a scripted model: what `npm start` shows.

import { createRuntime, defineTool } from "marling";
import { callTool, say, scriptedModel } from "marling/testing";

const add = defineTool({
  name: "add",
  description: "Adds two numbers.",
  input: {
    type: "object",
    properties: { a: { type: "number" }, b: { type: "number" } },
    required: ["a", "b"],
    additionalProperties: false,
  },
  replay: "safe",
  execute: (/** @type {any} */ { a, b }) => a + b,
});

const model = scriptedModel([
  callTool("add", { a: 19, b: 23 }),
  say("19 and 23 make 42.", { chunks: ["19 and 23 ", "make 42."] }),
]);

const question = "What do 19 and 23 make?";

console.log("marling: one turn with one tool. The model is a script; nothing leaves this machine.\n");
console.log(`user    ${question}`);

const runtime = createRuntime({ model, tools: [add], instructions: "Answer briefly." });
try {
  const session = await runtime.session("first");
  const turn = session.turn(question);
  for await (const event of turn) {
    const { kind, ...fields } = event;
    console.log(`        ${kind.padEnd(14)}  ${JSON.stringify(fields)}`);
  }
  const report = await turn.result;
  console.log(`agent   ${report.text}\n`);
  console.log(
    `The turn ${report.outcome.kind} after ${model.requests.length} model calls and ${report.toolCalls.length} tool call; it is revision ${report.revision} of the session.`,
  );
} finally {
  await runtime.close();
}

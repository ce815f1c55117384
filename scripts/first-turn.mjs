// What `npm start` shows: two turns with a tool, a guard and a state, told by a scripted model.

import { createRuntime, definePlugin, defineTool, directive, toolFailure } from "marling";
import { callTool, callTools, say, scriptedModel } from "marling/testing";

const notes = definePlugin({
  id: "notes",
  build(ctx) {
    const denied = ctx.durable({ version: 1, initial: () => ({ count: 0 }) });
    const read = defineTool({
      name: "read_note",
      description: "Reads a note.",
      input: {
        type: "object",
        properties: { path: { type: "string" } },
        required: ["path"],
        additionalProperties: false,
      },
      replay: "safe",
      execute: (/** @type {any} */ { path }) => `(the text of ${path})`,
    });
    return {
      tools: [read],
      toolCalls: {
        before: ({ args }) => {
          const { path } = /** @type {{ path: string }} */ (args);
          if (path.startsWith("notes/")) return undefined;
          denied.update(({ count }) => ({ count: count + 1 }));
          return directive.shortCircuitTool(
            toolFailure({ code: "outside", message: `${path} is not a note.` }),
          );
        },
      },
      operations: { queries: { "notes.denied": { handler: () => denied.get().count } } },
    };
  },
});

const model = scriptedModel([
  callTools([
    ["read_note", { path: "notes/monday.md" }],
    ["read_note", { path: "/etc/passwd" }],
  ]),
  say("I could read Monday's note. The other file is not a note.", {
    chunks: ["I could read Monday's note. ", "The other file is not a note."],
  }),
  callTool("read_note", { path: "notes/tuesday.md" }),
  say("Tuesday's note is there, too.", { chunks: ["Tuesday's note ", "is there, too."] }),
]);

console.log("marling: two turns of one session. The model is a script; nothing leaves this machine.");

const runtime = createRuntime({ model, plugins: [notes()], instructions: "Answer briefly." });
try {
  const session = await runtime.session("first");
  for (const question of ["Read Monday's note and /etc/passwd.", "And Tuesday's?"])
    await show(session, question);
  const denied = await session.plugin(notes).query.denied?.({});
  const { revision, messages } = session.read();
  console.log(
    `\nThe session is at revision ${revision} with ${messages.length} messages; the guard denied ${denied} call.`,
  );
  console.log("Next: README.md, then examples/03-guard.ts, which is this plugin with types.");
} finally {
  await runtime.close();
}

/**
 * @param {import("marling").Session} session
 * @param {string} question
 */
async function show(session, question) {
  console.log(`\nuser   ${question}`);
  const turn = session.turn(question);
  let line = "";
  for await (const event of turn) {
    if (event.kind === "tool_started") console.log(`tool   ${event.name} ${JSON.stringify(event.args)}`);
    if (event.kind === "tool_finished") console.log(`       -> ${describe(event.record.output)}`);
    if (event.kind === "text_delta") line += event.text;
    if (event.kind === "committed")
      console.log(`agent  ${line}\n       committed as revision ${event.revision}`);
  }
}

/** @param {import("marling").ToolOutput} output */
function describe({ outcome }) {
  return outcome.kind === "success" ? JSON.stringify(outcome.value) : `${outcome.kind}: ${outcome.message}`;
}

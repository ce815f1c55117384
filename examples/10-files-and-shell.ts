import { createRuntime } from "marling";
import { callTool, callTools, say, scriptedModel } from "marling/testing";
import { fileTools, shell } from "marling/tools";

// #region files-and-shell
/** Files below one folder, and a shell that runs two commands and refuses every other one. */
export async function workIn(folder: string): Promise<readonly string[]> {
  const known = new Set(["ls", "wc -l notes.md"]);
  await using runtime = createRuntime({
    model,
    tools: fileTools({ root: folder }),
    plugins: [
      shell({
        cwd: folder,
        ask: ({ args }) => (known.has((args as { command: string }).command) ? "allow" : "deny"),
      }),
    ],
  });
  const session = await runtime.session("notes");
  const { report } = await session.run("Write a note and count its lines.");
  return report.toolCalls.map(({ name, output: { outcome } }) =>
    outcome.kind === "failure" ? `${name}: ${outcome.code}` : `${name}: done`,
  );
}
// #endregion

const model = scriptedModel([
  callTool("write_file", { path: "notes.md", content: "one\ntwo\n" }),
  callTools([
    ["shell", { command: "wc -l notes.md" }],
    ["shell", { command: "cat /etc/passwd" }],
    ["read_file", { path: "../secret.txt" }],
  ]),
  say("Two lines."),
]);

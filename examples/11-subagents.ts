import { createRuntime, type ModelRequest } from "marling";
import { subagents } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, say, scriptedModel } from "marling/testing";
import { fileTools } from "marling/tools";

// #region subagents
/** Two readers at once. Each has two tools, one folder and a budget, whatever the parent may do. */
export async function delegate(
  path: string,
  root: string,
): Promise<{ text: string; used: Record<string, number> }> {
  const reader = {
    description: "Reads the documentation and reports.",
    tools: ["read_file", "grep"],
    paths: ["docs"],
    tokens: 50_000,
    maxTurns: 8,
  };
  await using runtime = createRuntime({
    model,
    store: sqliteStore({ path }),
    tools: fileTools({ root }),
    plugins: [subagents({ capabilities: { reader }, maxDepth: 1 })],
  });
  const session = await runtime.session("lead");
  const { text, report } = await session.run("Compare the two guides.");
  // What they used is on the parent's bill, by kind of child and by model.
  const used = report.childUsage.map(({ source, usage }) => [source, usage.input + usage.output] as const);
  return { text, used: Object.fromEntries(used) };
}
// #endregion

const usage = { input: 10, output: 5 };
const model = scriptedModel(({ messages }: ModelRequest) => {
  const last = JSON.stringify(messages.at(-1)?.parts);
  if (last.includes("Compare"))
    return callTools([
      ["spawn", { task: "Read docs/a.md" }],
      ["spawn", { task: "Read secret.md" }],
    ]);
  if (last.includes("sessionId"))
    return say(
      JSON.stringify(messages)
        .match(/It says \w+|I may not/g)
        ?.join(", ") ?? "",
      { usage },
    );
  const [, path] = /Read ([a-z/.]+)/.exec(last) ?? [];
  if (path !== undefined) return callTool("read_file", { path }, { usage });
  return say(last.includes("out of reach") ? "I may not" : `It says ${/alpha|beta/.exec(last)}`, { usage });
});

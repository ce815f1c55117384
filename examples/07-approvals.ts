import { createRuntime, defineTool } from "marling";
import { approvals } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { z } from "zod";

const model = scriptedModel(({ messages }) =>
  messages.at(-1)?.role === "tool" ? say("The branch is gone.") : callTool("delete_branch", { name: "old" }),
);

// #region approvals
const deleteBranch = defineTool({
  name: "delete_branch",
  description: "Deletes a branch.",
  input: z.object({ name: z.string() }),
  execute: ({ name }) => `deleted ${name}`,
});

function open(path: string) {
  return createRuntime({
    model,
    tools: [deleteBranch],
    plugins: [approvals({ rules: { "read_*": "allow", delete_branch: "ask" } })],
    store: sqliteStore({ path }),
  });
}

/** The call waits for a decision: the turn sleeps, and this process may end. */
export async function ask(path: string): Promise<string> {
  await using runtime = open(path);
  const session = await runtime.session("repo");
  for await (const event of session.turn("Delete the old branch."))
    if (event.kind === "waiting") return event.name;
  return "nothing waited";
}

/** Another process, days later: whoever may decide does, and the turn goes on where it was. */
export async function decide(path: string): Promise<string> {
  await using runtime = open(path);
  for (const question of await runtime.approvals.list())
    await runtime.approvals.decide(question, { decision: "allow", actor: "ada" });
  await runtime.recover();
  const session = await runtime.session("repo");
  return (
    session
      .read()
      .messages.at(-1)
      ?.parts.map((part) => ("text" in part ? part.text : ""))
      .join("") ?? ""
  );
}
// #endregion

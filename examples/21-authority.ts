import { createRuntime, type ModelRequest } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { fileTools } from "marling/tools";

// #region authority
/** A guest reads the documentation and nothing else, until somebody gives it more and says why. */
export async function guest(path: string, root: string): Promise<{ texts: string[]; why: string[] }> {
  await using runtime = createRuntime({ model, store: sqliteStore({ path }), tools: fileTools({ root }) });
  const session = await runtime.session("guest", {
    authority: { tools: ["read_file", "grep"], paths: ["docs"], budget: { tokens: 20_000 } },
  });
  const refused = await session.run("Read notes/plan.md");
  await session.authorize(
    { paths: [...(session.authority.paths ?? []), "notes"] },
    { reason: "The agreement is signed.", actor: "ada" },
  );
  const allowed = await session.run("Read notes/plan.md");
  const changes = (await session.history()).filter((node) => node.kind === "authority_change");
  return {
    texts: [refused.text, allowed.text],
    why: changes.map(({ actor, reason, after }) => `${actor}: ${reason} ${after.paths?.join(", ")}`),
  };
}
// #endregion

const model = scriptedModel(({ messages }: ModelRequest) => {
  const last = JSON.stringify(messages.at(-1)?.parts);
  const [, path] = /Read ([a-z/.]+)/.exec(last) ?? [];
  if (path !== undefined) return callTool("read_file", { path });
  return say(last.includes("out of reach") ? "I may not." : "It says gamma.");
});

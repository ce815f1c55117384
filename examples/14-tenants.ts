import { createRuntime } from "marling";
import { sqliteStore } from "marling/sqlite";
import { say, scriptedModel } from "marling/testing";

// #region tenants
/** One process, one file, two customers: the same session id is two sessions. */
export async function twoCustomers(path: string): Promise<Record<string, readonly string[]>> {
  const model = scriptedModel(({ messages }) => say(`I know ${messages.length} messages.`));
  await using runtime = createRuntime({ model, store: sqliteStore({ path }) });
  const answers: Record<string, readonly string[]> = {};
  for (const tenant of ["acme", "initech"]) {
    const scoped = runtime.scope(tenant); // the tenant comes from whoever checked who is asking
    const session = await scoped.session("support");
    await session.run(`A secret of ${tenant}.`);
    const { text } = await session.run("What do you know?");
    const { items } = await scoped.sessions.list();
    answers[tenant] = [text, ...items.map(({ id }) => id)];
  }
  answers.nobody = (await runtime.sessions.list()).items.map(({ id }) => id); // its own, and not theirs
  return answers;
}
// #endregion

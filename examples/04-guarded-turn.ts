import { createRuntime } from "marling";
import { callTools, say, scriptedModel } from "marling/testing";
import { guard } from "./03-guard.ts";

// #region guarded
export async function guardedTurn(): Promise<{ text: string; denied: number }> {
  const model = scriptedModel([
    callTools([
      ["read_note", { path: "notes/today.md" }],
      ["read_note", { path: "/etc/passwd" }],
    ]),
    say("I could read one of the two."),
  ]);
  await using runtime = createRuntime({ model, plugins: [guard({ root: "notes" })] });
  const session = await runtime.session("notes");
  const { text } = await session.run("Read today's note and the password file.");
  return { text, denied: await session.plugin(guard).query.count({}) };
}
// #endregion

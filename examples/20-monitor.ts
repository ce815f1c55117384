import { createRuntime, definePlugin } from "marling";
import { say, scriptedModel } from "marling/testing";

// #region monitor
const builds = definePlugin({
  id: "builds",
  build: () => ({
    monitors: [{ id: "log", command: "echo 'build 7 failed'", armOn: "session_start", timeoutMs: 60_000 }],
  }),
});
// #endregion

/** A line that the command prints wakes the session; nobody pretends that the user wrote it. */
export async function watchBuilds(): Promise<{ role: string; answer: string }> {
  const model = scriptedModel(() => say("I will look at build 7."));
  await using runtime = createRuntime({ model, plugins: [builds()] });
  const session = await runtime.session("builds");
  const observed = session.observe(); // from here on
  await session.monitors.snapshot(); // starts what is armed
  for await (const { kind } of observed) if (kind === "committed") break;
  const [woken, answer] = session.read().messages;
  const said = answer?.parts.map((part) => ("text" in part ? part.text : "")).join("");
  return { role: woken?.role ?? "", answer: said ?? "" };
}

import { createRuntime, type ModelRequest } from "marling";
import { rollingHistory } from "marling/plugins";
import { say, scriptedModel } from "marling/testing";

const isSummary = ({ system }: ModelRequest): boolean => system.startsWith("You summarise");
const model = scriptedModel((request) =>
  isSummary(request) ? say("They spoke of boats.") : say("boat ".repeat(80)),
);

// #region compaction
export async function longTalk(): Promise<{ frames: readonly string[]; seen: number; kept: number }> {
  await using runtime = createRuntime({
    model: { model, contextWindow: 400 },
    plugins: [rollingHistory({ threshold: 0.75, keepTurns: 1 })],
  });
  const session = await runtime.session("boats");
  for (const question of ["Sloops?", "Ketches?", "Yawls?", "Cutters?"]) await session.run(question);
  await session.compact("Keep the names of the boats."); // on demand, between turns
  const { frames, messages } = session.read();
  return {
    frames: frames.map(({ reason }) => reason),
    seen: messages.length, // what the model sees from here on
    kept: (await session.history()).length, // nothing is deleted
  };
}
// #endregion

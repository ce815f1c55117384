import { createRuntime } from "marling";
import { modelFallback } from "marling/plugins";
import { failWith, say, scriptedModel } from "marling/testing";

const large = scriptedModel(() => failWith({ kind: "overloaded" }));
const small = scriptedModel(() => say("From the small one."));

// #region models
export async function whoAnswers(): Promise<{ models: readonly string[]; after: string }> {
  await using runtime = createRuntime({
    model: { model: large, contextWindow: 200_000, parameters: { temperature: 0 } },
    models: { small },
    plugins: [modelFallback({ models: ["small"], tries: 1 })],
  });
  const session = await runtime.session("chat");
  const { report } = await session.run("Hello?");
  const models = report.modelCalls.map(({ model, outcome }) => `${model}: ${outcome}`);
  await session.configure({ model: "small" }); // from the next turn on
  return { models, after: (await session.run("And now?")).text };
}
// #endregion

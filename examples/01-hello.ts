import { createRuntime } from "marling";
import { say, scriptedModel } from "marling/testing";

// #region hello
export async function hello(): Promise<string> {
  const model = scriptedModel([say("Hello, Ada.")]);
  await using runtime = createRuntime({ model, instructions: "Answer briefly." });
  const session = await runtime.session("chat-1");
  const { text } = await session.run("My name is Ada.");
  return text;
}
// #endregion

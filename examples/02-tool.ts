import { createRuntime, defineTool } from "marling";
import { callTool, say, scriptedModel } from "marling/testing";
import { z } from "zod";

// #region tool
const add = defineTool({
  name: "add",
  description: "Adds two numbers.",
  input: z.object({ a: z.number(), b: z.number() }),
  replay: "safe",
  execute: ({ a, b }) => a + b,
});
// #endregion

// #region watch
export async function watchATurn(): Promise<string[]> {
  const model = scriptedModel([callTool("add", { a: 17, b: 25 }), say("17 + 25 is 42.")]);
  await using runtime = createRuntime({ model, tools: [add] });
  const session = await runtime.session("sums");
  const turn = session.turn("What is 17 + 25?");
  const seen: string[] = [];
  for await (const event of turn) {
    if (event.kind === "tool_finished")
      seen.push(`${event.record.name} -> ${JSON.stringify(event.record.output.outcome)}`);
    if (event.kind === "text_delta") seen.push(event.text);
  }
  const report = await turn.result; // resolves after the commit; leaving the loop early would not have cancelled the turn
  seen.push(report.outcome.kind);
  return seen;
}
// #endregion

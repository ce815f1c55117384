import { createRuntime, defineTool, jsonlTrace, readTrace } from "marling";
import { otelTrace } from "marling/otel";
import { callTool, say, scriptedModel } from "marling/testing";
import { z } from "zod";

const add = defineTool({
  name: "add",
  description: "Adds two numbers.",
  input: z.object({ a: z.number(), b: z.number() }),
  replay: "safe",
  execute: ({ a, b }) => a + b,
});
const model = scriptedModel(({ messages }) =>
  messages.at(-1)?.role === "tool" ? say("42.") : callTool("add", { a: 17, b: 25 }),
);

// #region trace
export async function traced(file: string): Promise<readonly string[]> {
  await using trace = jsonlTrace(file); // closed after the runtime, since it was made before
  await using runtime = createRuntime({ model, tools: [add], trace });
  const session = await runtime.session("sums");
  await session.run("What is 17 + 25?");
  await trace.flush();

  const spans: string[] = [];
  for await (const { kind, payload } of readTrace(file)) {
    if (kind === "tool_call") spans.push(`${payload.name}: ${payload.outcome.kind}`);
    if (kind === "model_call") spans.push(`round ${payload.round}: ${payload.outcome}`);
    if (kind === "turn") spans.push(`${payload.outcome.kind} after ${payload.rounds} rounds`);
  }
  return spans;
}
// #endregion

// #region otel
export async function spans(): Promise<string> {
  const trace = otelTrace({ agentName: "sums" }); // the global tracer provider; `tracer` takes another one
  await using runtime = createRuntime({ model, tools: [add], trace });
  return (await (await runtime.session("sums")).run("What is 17 + 25?")).text;
}
// #endregion

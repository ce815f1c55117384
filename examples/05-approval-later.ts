import { createRuntime, defineTool } from "marling";
import { callTool, say, scriptedModel } from "marling/testing";
import { z } from "zod";

// #region later
/** A tool whose result comes later: a person, a webhook or another process completes it by its key. */
export async function orderLunch(
  answer: (key: string, complete: (value: unknown) => Promise<string>) => void,
): Promise<string> {
  const order = defineTool({
    name: "order",
    description: "Orders lunch; somebody has to confirm it.",
    input: z.object({ dish: z.string() }),
    execute: async (_input, ctx) => {
      const key = await ctx.completionKey();
      answer(key, (value) => runtime.resolve(key, { ok: value }));
      return ctx.pending({ deadlineMs: 60_000 });
    },
  });
  const model = scriptedModel([callTool("order", { dish: "soup" }), say("Lunch is on its way.")]);
  await using runtime = createRuntime({ model, tools: [order] });
  const session = await runtime.session("lunch");
  return (await session.run("Order soup.")).text;
}
// #endregion

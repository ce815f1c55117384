import { createRuntime, defineTool, toolFailure } from "marling";
import { callTool, say, scriptedModel } from "marling/testing";
import { z } from "zod";

const published: string[] = [];
const model = scriptedModel([callTool("publish", { path: "site/index.html" }), say("It is published.")]);

// #region publish
const publish = defineTool({
  name: "publish",
  description: "Publishes one file of the site.",
  input: z.object({ path: z.string().describe("Relative to the root, such as site/index.html.") }),
  output: z.object({ address: z.string() }),
  pathArgs: ["path"], // a session that may reach some paths only is held to them before this runs
  replay: "idempotent", // a crash in the middle runs it again, with the same ctx.idempotencyKey
  retry: { attempts: 3, delayMs: 10 }, // only failures that say it is safe are tried again
  execution: "serial", // never beside another call of the same answer
  execute: async ({ path }, ctx) => {
    ctx.progress(`attempt ${ctx.attempt} of ${ctx.maxAttempts}`);
    if (ctx.attempt === 1)
      return toolFailure({
        code: "site_busy",
        class: "execution",
        retry: { safe: true },
        message: "expected the site to be free, found another upload; wait and try again",
      });
    published.push(ctx.idempotencyKey);
    return { address: `https://example.com/${path}` };
  },
});
// #endregion

export async function publishOnce(): Promise<{ text: string; progress: readonly string[]; times: number }> {
  await using runtime = createRuntime({ model, tools: [publish] });
  const turn = (await runtime.session("site")).turn("Publish the front page.");
  const progress: string[] = [];
  for await (const event of turn) if (event.kind === "tool_progress") progress.push(event.message);
  return { text: (await turn.result).text, progress, times: published.length };
}

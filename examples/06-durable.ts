import { createRuntime, defineTool } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { z } from "zod";

const model = scriptedModel(({ messages }) =>
  messages.at(-1)?.role === "tool"
    ? say("The mail is sent.")
    : callTool("send_mail", { to: "ada@example.com" }),
);

// #region durable
const sendMail = defineTool({
  name: "send_mail",
  description: "Sends a mail.",
  input: z.object({ to: z.string() }),
  replay: "idempotent", // after a crash: run again, with the same ctx.idempotencyKey
  execute: ({ to }, ctx) => `sent to ${to} as ${ctx.idempotencyKey}`,
});

export async function answer(path: string, question: string, key: string): Promise<string> {
  await using runtime = createRuntime({ model, tools: [sendMail], store: sqliteStore({ path }) });
  await runtime.recover(); // finishes what an earlier process accepted and did not finish
  const session = await runtime.session("mail");
  const report = await session.turn(question, { key }).result; // the same key is the same turn
  return report.text;
}
// #endregion

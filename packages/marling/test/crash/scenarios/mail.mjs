// #region scenario
import { defineTool } from "marling";
import { callTool, defineCrashScenario, say } from "marling/testing";

const sendMail = defineTool({
  name: "send_mail",
  description: "Sends a mail.",
  input: { type: "object", properties: { to: { type: "string" } } },
  replay: "idempotent",
  execute: ({ to }) => `sent to ${to}`,
});

export const scenario = defineCrashScenario({
  // The model. It goes by the request, because a call may be made again after a crash.
  answer: ({ messages }) =>
    messages.at(-1)?.role === "tool" ? say("Sent.") : callTool("send_mail", { to: "ada@example.com" }),
  // The runtime, without its model and its store.
  options: () => ({ tools: [sendMail] }),
  // Everything that happens. It runs again after the crash, so the turn has a key.
  run: async (runtime) => {
    const session = await runtime.session("mail");
    const { text } = await session.turn("Mail Ada.", { key: "mail-1" }).result;
    return { text, messages: session.read().messages };
  },
});
// #endregion

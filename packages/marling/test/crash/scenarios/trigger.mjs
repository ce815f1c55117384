// Something occurs, is reserved for the subscriptions of a session, and becomes a turn of it for each of them.

import { definePlugin } from "marling";
import { callTool, defineCrashScenario, say } from "marling/testing";
import { endOf, results, tool } from "./sample-tools.mjs";

const SOURCE = "mail.received";

const mail = definePlugin({
  id: "mail",
  build: () => ({ triggers: [{ resourceType: "mailbox", alias: "mail", event: "received" }] }),
});

export const scenario = defineCrashScenario({
  answer: (request) => (results(request) === 0 ? callTool("read") : say("read it")),
  options: () => ({ plugins: [mail()], tools: [tool("read")] }),
  run: async (runtime) => {
    const session = await runtime.session("s");
    for (const name of ["first", "second"])
      await runtime.triggers.subscribe({ sessionId: "s", source: SOURCE, name, input: "Read it." });
    const event = { source: SOURCE, key: "m1", payload: { subject: "hello" }, at: 0 };
    const { occurrenceId } = await runtime.triggers.emit(event);
    await runtime.recover();
    return { occurrenceId, pending: await session.pending(), end: await endOf(session) };
  },
});

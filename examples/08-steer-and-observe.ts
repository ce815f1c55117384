import { createRuntime, defineTool } from "marling";
import { callTool, say, scriptedModel } from "marling/testing";
import { z } from "zod";

const model = scriptedModel(({ messages }) =>
  messages.some(({ role }) => role === "tool")
    ? say(`I read ${messages.filter(({ role }) => role === "user").length} messages.`)
    : callTool("search", { query: "boats" }),
);

// #region steer
export async function steer(): Promise<string[]> {
  const search = defineTool({
    name: "search",
    description: "Searches.",
    input: z.object({ query: z.string() }),
    execute: async () => {
      await session.enqueue("Only wooden ones."); // joins the turn that runs, at its next checkpoint
      return "three boats";
    },
  });
  await using runtime = createRuntime({ model, tools: [search] });
  const session = await runtime.session("boats");
  const seen: string[] = [];
  const watching = new AbortController();
  const watched = (async () => {
    for await (const observed of session.observe({ signal: watching.signal })) {
      if (observed.kind === "gap") seen.push(`missed something, now at revision ${observed.view.revision}`);
      if (observed.kind === "event" && observed.event.kind === "input_accepted") seen.push("steered");
      if (observed.kind === "event" && observed.event.kind === "text_delta") seen.push(observed.event.text);
      if (observed.kind === "committed") seen.push("committed"); // observed.cursor is where a reconnecting client goes on
    }
  })();
  await session.turn("Find me a boat.").result;
  watching.abort();
  await watched;
  return seen;
}
// #endregion

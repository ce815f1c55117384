// What the adapters of marling share: SQLite with its journal unless they say otherwise, one tool, and an observer per
// session.

import { createRuntime, defineTool, sqliteStore } from "./marling.mjs";
import { ADD, add, INSTRUCTIONS } from "./tool.mjs";

/** marling for any model. `replay` is what the tool says of itself; without it, what marling takes for granted. */
export function connectMarling({ dir, replay, isNamed, plugins = [], isStored = true }, model) {
  const tool = defineTool({
    name: ADD.name,
    description: ADD.description,
    input: ADD.schema,
    ...(replay === undefined ? {} : { replay }),
    execute: (args) => add(args),
  });
  const runtime = createRuntime({
    model,
    tools: [tool],
    plugins,
    instructions: INSTRUCTIONS,
    turnBudget: 1_000,
    ...(isStored ? { store: sqliteStore({ path: `${dir}/marling.db` }) } : {}),
  });
  const open = async (id) => observed(await runtime.session(id));
  const turn = async (watched, text, onDelta) => {
    watched.onDelta = onDelta;
    const settled = new Promise((resolve) => {
      watched.onCommitted = resolve;
    });
    const { text: answer } = await watched.session.run(text, isNamed ? { key: keyOf(text) } : {});
    await settled;
    return answer;
  };
  return { runtime, open, reopen: open, turn, resume, close: () => runtime.close() };
}

/** A session with one observer, which is where the deltas come from. */
function observed(session) {
  const watched = { session, onDelta: undefined, onCommitted: undefined };
  const observe = async () => {
    for await (const observation of session.observe()) {
      if (observation.kind === "event" && observation.event.kind === "text_delta")
        watched.onDelta?.(observation.event.text);
      else if (observation.kind === "committed" && observation.turnId !== undefined) watched.onCommitted?.();
    }
  };
  watched.observing = observe();
  return watched;
}

const keyOf = (text) => text.slice(0, text.indexOf(" "));

/** A turn that was accepted goes on by itself when its session is opened; the same key and text is the same turn. */
async function resume(watched, text, onDelta) {
  watched.onDelta = onDelta;
  return (await watched.session.run(text, { key: keyOf(text) })).text;
}

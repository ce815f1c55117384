// Handlers that are told of every part of a turn: the turn keeps its lease from its first part to its last.

import { definePlugin, type Plugin } from "marling";
import { sessionTitle } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, type ScriptFunction, say } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import type { ProtocolSession } from "../../src/plugin/protocol.ts";
import { BACKINGS, database, gate, gatedTool, live, movingTool, quickTool } from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";
import { claimAsStranger } from "./parked-support.ts";
import { protocol } from "./protocol-support.ts";

/** Answers from the conversation, so that a request of a plugin is answered beside it. */
const script: ScriptFunction = ({ messages }) => {
  const text = JSON.stringify(messages.filter(({ role }) => role === "user").at(-1)?.parts ?? []);
  const hasResult = messages.at(-1)?.role === "tool";
  if (text.includes("Hi")) return callTool("move");
  if (!text.includes("Go on there.")) return say("A title");
  return hasResult ? say("Here.") : callTool("look");
};

/** Leaves its first frame before the model is asked. */
const leavingFirst: ProtocolSession = {
  beforeLlmCall: ({ state }) =>
    state.frames.length > 1 ? undefined : { kind: "switch_frame", key: "next", task: "Go on there." },
};

/** Counts the parts that it was told of, in its state. */
const counting = definePlugin({
  id: "counting",
  build(ctx) {
    const seen = ctx.durable({ version: 1, initial: () => 0 });
    return {
      session: {
        onEvent: ({ kind }) => {
          if (kind === "turn_persisted") seen.update((count) => count + 1);
        },
      },
      operations: { queries: { "counting.seen": { session: "required", handler: () => seen.get() } } },
    };
  },
});

const HANDLERS: readonly (readonly [string, () => Plugin])[] = [
  ["a handler that does nothing", () => plugin("p", { session: { onEvent: () => undefined } })],
  [
    "a handler that takes its time",
    () => plugin("p", { session: { onEvent: () => new Promise<void>((resolve) => setImmediate(resolve)) } }),
  ],
  [
    "a handler that fails",
    () => plugin("p", { session: { onEvent: () => Promise.reject(new Error("broken")) } }),
  ],
  ["a handler that writes state", () => counting()],
  ["the stock plugin sessionTitle", () => sessionTitle()],
];

describe.each(BACKINGS)("on $name", ({ open }) => {
  test.each(HANDLERS)("[K59][AN4] a turn with %s goes on in another frame", async (_name, make) => {
    const { session } = await live({
      store: open()(),
      script,
      tools: [movingTool(), quickTool("look")],
      plugins: [make()],
    });
    const { outcome, toolCalls } = await session.turn("Hi").result;
    expect(outcome).toMatchObject({ kind: "finished", text: "Here." });
    expect(toolCalls.map(({ name }) => name)).toEqual(["move", "look"]);
    expect(transcript(session).at(-1)).toBe("assistant: Here.");
  });

  test.each(HANDLERS)("[K132] a protocol changes frames in a turn with %s", async (_name, make) => {
    const { session, model } = await live({
      store: open()(),
      script,
      tools: [quickTool("look")],
      plugins: [make(), protocol(leavingFirst)],
    });
    const { outcome } = await session.turn("Hi").result;
    expect(outcome).toMatchObject({ kind: "finished", text: "Here." });
    expect(transcript(session).at(-1)).toBe("assistant: Here.");
    expect(model.requests.filter(({ messages }) => JSON.stringify(messages).includes("look"))).not.toEqual(
      [],
    );
  });

  test("[K59][AN2] what a handler writes about each part of a turn is committed once", async () => {
    const reopen = open();
    const options = {
      script,
      tools: [movingTool(), quickTool("look")],
      plugins: [counting()],
    };
    const first = await live({ store: reopen(), ...options });
    await first.session.turn("Hi").result;
    expect(await first.session.query("counting.seen", {})).toBe(2);
    await first.session.turn("And?").result;
    expect(await first.session.query("counting.seen", {})).toBe(3);
    await first.session.close();
    expect(await (await first.runtime.session("s")).query("counting.seen", {})).toBe(3);
  });
});

test("[AN4] the lease is held from the first part of a turn to its last, and released then", async () => {
  const at = gate();
  const path = database();
  const { session } = await live({
    store: sqliteStore({ path }),
    script,
    tools: [movingTool(), gatedTool("look", at)],
    plugins: [counting()],
  });
  const store = sqliteStore({ path });
  onTestFinished(() => store.close());
  const turn = session.turn("Hi");
  await at.begun;
  expect((await claimAsStranger(store)).kind).toBe("held");
  at.open();
  await turn.result;
  expect(await claimAsStranger(store)).toMatchObject({ kind: "claimed", isTakeover: false });
});

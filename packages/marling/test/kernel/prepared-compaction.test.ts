// A context transform that asks for a compaction before the first round.

import { definePlugin, memoryStore, type Plugin } from "marling";
import type { PreparedContext } from "marling/plugin";
import { sqliteStore } from "marling/sqlite";
import { say } from "marling/testing";
import { expect, test } from "vitest";
import { textIn } from "../stock/stock-support.ts";
import { database, live } from "./durable-support.ts";

type Compact = NonNullable<PreparedContext["compact"]>;

/** Asks for a compaction in the turn with this text, and compacts to the instructions. */
function compacting(
  compact: Compact,
  make: (instructions: string | undefined) => string | undefined = (instructions) =>
    instructions ?? "nothing",
): Plugin {
  return definePlugin({
    id: "compacting",
    build: () => ({
      context: {
        prepareTurn: {
          transform: ({ state }, prepared) =>
            state.lastMessage !== undefined && textIn(state.lastMessage) === "two"
              ? { ...prepared, compact }
              : undefined,
        },
        compact: {
          compact: ({ instructions, state }) => {
            const made = make(instructions);
            const content = `${made} of ${state.messageCount}`;
            return made === undefined
              ? undefined
              : { initialNodes: [{ kind: "message", message: { role: "user", content } }] };
          },
        },
      },
    }),
  })();
}

test("the first round is shown the new frame and the input, and the commit opens it", async () => {
  const path = database();
  const plugins = [compacting({ instructions: "the names" })];
  const first = await live({ store: sqliteStore({ path }), plugins, script: [say("a"), say("b")] });
  await first.session.turn("one").result;
  await first.session.turn("two").result;
  const texts = ["the names of 3", "two", "b"];
  expect(first.model.requests[1]?.messages.map((message) => textIn(message as never))).toEqual(
    texts.slice(0, 2),
  );
  expect(first.session.read().messages.map(textIn)).toEqual(texts);
  expect(first.session.read().frames.map(({ reason }) => reason)).toEqual(["initial", "compaction"]);
  await first.runtime.close();
  const second = await live({ store: sqliteStore({ path }), plugins, script: [say("c")] });
  await second.session.turn("three").result;
  expect(second.session.read().messages.map(textIn)).toEqual([...texts, "three", "c"]);
});

test("where no compactor has anything to say, the messages stand", async () => {
  const plugins = [compacting({}, () => undefined)];
  const { session } = await live({ store: memoryStore(), plugins, script: [say("a"), say("b")] });
  await session.turn("one").result;
  const { issues } = await session.turn("two").result;
  expect(issues).toEqual([]);
  expect(session.read().messages.map(textIn)).toEqual(["one", "a", "two", "b"]);
  expect(session.read().frames).toHaveLength(1);
});

test("a compactor that fails is reported, and the turn goes on", async () => {
  const failing = (): never => {
    throw new Error("no model");
  };
  const plugins = [compacting({}, failing)];
  const { session } = await live({ store: memoryStore(), plugins, script: [say("a"), say("b")] });
  await session.turn("one").result;
  const { issues, outcome } = await session.turn("two").result;
  expect(outcome).toMatchObject({ kind: "finished", text: "b" });
  expect(issues).toMatchObject([{ code: "hook_failed", pluginId: "compacting" }]);
  expect(session.read().frames).toHaveLength(1);
});

test("a wish that is none names the plugin", async () => {
  const plugins = [compacting({ instructions: 1 as never })];
  const { session } = await live({ store: memoryStore(), plugins, script: [say("a"), say("b")] });
  await session.turn("one").result;
  const { outcome } = await session.turn("two").result;
  expect(outcome).toMatchObject({ kind: "stopped", reason: "runtime_error" });
  expect(JSON.stringify(outcome)).toContain("compact.instructions: expected a string");
});

// Inputs that were accepted or had joined when their process died: checkpoint.ts, rules CP1 and CP2, and E12.

import type { Store } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, type ScriptFunction, say } from "marling/testing";
import { expect, test } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import {
  database,
  gate,
  gatedStep,
  gatedTool,
  live,
  mortal,
  movingTool,
  quickTool,
  unevenCalls,
  userTexts,
} from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";

/** Calls one tool after the other, then answers. */
function oneByOne(names: readonly string[], answer: string): ScriptFunction {
  return ({ messages }) => {
    const calls = messages.flatMap(({ parts }) => parts.filter(({ kind }) => kind === "tool_call")).length;
    const name = names[calls];
    return name === undefined ? say(answer) : callTool(name);
  };
}

/** Puts an input into the inbox while no process works on the session. */
async function admit(store: Store, text: string): Promise<void> {
  const input = { input: { text } };
  await store.admit({ sessionId: "s" as SessionId, submitted: input, input, deliver: "active_turn" });
  await store.close();
}

test("[CP1] a turn that dies after an input joined has it exactly once when it is recovered", async () => {
  const path = database();
  const [first, second] = [gate(), gate()];
  const script = oneByOne(["first", "second"], "done");
  const before = await mortal({
    store: sqliteStore({ path }),
    script,
    tools: [gatedTool("first", first), gatedTool("second", second)],
  });
  const turn = before.session.turn("go", { key: "go" });
  await first.begun;
  await before.session.enqueue("note", { key: "note" });
  first.open();
  await second.begun;
  await before.die();
  expect(turn.id).toBe("s:turn:1");

  const ran: string[] = [];
  const { session, model } = await live({
    store: sqliteStore({ path }),
    script,
    tools: [quickTool("first", { ran }), quickTool("second", { ran })],
  });
  const report = await session.turn("go", { key: "go" }).result;
  expect(report).toMatchObject({ turnId: "s:turn:1", text: "done" });
  expect(await session.turn("note", { key: "note" }).result).toEqual(report);
  expect(ran).toEqual(["second"]);
  expect(model.requests.map(userTexts)).toEqual([["go", "note"]]);
  expect(transcript(session)).toEqual([
    "user: go",
    "assistant: call first",
    "tool: result first done",
    "user: note",
    "assistant: call second",
    "tool: result second done",
    "assistant: done",
  ]);
  expect(await session.pending()).toEqual([]);
});

test("[CP1] a checkpoint that took inputs takes the same ones again, and leaves what came since to the next", async () => {
  const path = database();
  const [at, asked] = [gate(), gate()];
  const before = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("first"), gatedStep(asked, say("never said"))],
    tools: [gatedTool("first", at)],
  });
  before.session.turn("go", { key: "go" });
  await at.begun;
  await before.session.enqueue("note");
  at.open();
  await asked.begun;
  await before.die();
  await admit(sqliteStore({ path }), "while you were away");

  const { session, model } = await live({
    store: sqliteStore({ path }),
    script: [say("one"), say("two")],
    tools: [quickTool("first")],
  });
  expect((await session.turn("go", { key: "go" }).result).text).toBe("two");
  expect(model.requests.map(userTexts)).toEqual([
    ["go", "note"],
    ["go", "note", "while you were away"],
  ]);
  expect(await session.pending()).toEqual([]);
});

test("[CP2] an input that came while nobody lived is put behind what was recorded, never before it", async () => {
  const path = database();
  const second = gate();
  const script = oneByOne(["first", "second"], "done");
  const before = await mortal({
    store: sqliteStore({ path }),
    script,
    tools: [quickTool("first"), gatedTool("second", second)],
  });
  before.session.turn("go", { key: "go" });
  await second.begun;
  await before.die();
  await admit(sqliteStore({ path }), "while you were away");

  const { session, model } = await live({
    store: sqliteStore({ path }),
    script,
    tools: [quickTool("first"), quickTool("second")],
  });
  const report = await session.turn("go", { key: "go" }).result;
  expect(report.outcome).toEqual({ kind: "finished", by: "message", text: "done" });
  expect(model.requests).toHaveLength(1);
  expect(transcript(session)).toEqual([
    "user: go",
    "assistant: call first",
    "tool: result first done",
    "assistant: call second",
    "tool: result second done",
    "user: while you were away",
    "assistant: done",
  ]);
  expect(unevenCalls(session.read().messages)).toEqual([]);
});

test("[E12] an input that was accepted and had joined nothing when its process died is not lost", async () => {
  const path = database();
  const asked = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    script: [gatedStep(asked, say("never said"))],
  });
  before.session.turn("go", { key: "go" });
  await asked.begun;
  await before.session.enqueue("note", { key: "note" });
  await before.session.enqueue("later", { key: "later", deliver: "next_turn" });
  await before.die();

  const { session, model } = await live({
    store: sqliteStore({ path }),
    script: [say("one"), say("two"), say("three")],
  });
  expect((await session.turn("later", { key: "later" }).result).text).toBe("three");
  expect(model.requests.map(userTexts)).toEqual([["go"], ["go", "note"], ["go", "note", "later"]]);
  expect(await session.turn("note", { key: "note" }).result).toMatchObject({
    turnId: "s:turn:1",
    text: "two",
  });
});

test("[CP1] an input that joined the first part of a turn is settled though its process died in the second", async () => {
  const path = database();
  const [at, there] = [gate(), gate()];
  const before = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("first"), callTool("move"), gatedStep(there, say("never said"))],
    tools: [gatedTool("first", at), movingTool()],
  });
  before.session.turn("go", { key: "go" });
  await at.begun;
  await before.session.enqueue("note", { key: "note" });
  at.open();
  await there.begun;
  await before.die();

  const { session, model } = await live({
    store: sqliteStore({ path }),
    script: [say("moved")],
    tools: [quickTool("first"), movingTool()],
  });
  const report = await session.turn("go", { key: "go" }).result;
  expect(report).toMatchObject({ turnId: "s:turn:1", text: "moved" });
  expect(await session.turn("note", { key: "note" }).result).toEqual(report);
  expect(model.requests).toHaveLength(1);
  expect(await session.pending()).toEqual([]);
  const notes = (await session.history()).filter(
    (node) =>
      node.kind === "message" && node.message.parts.some((part) => "text" in part && part.text === "note"),
  );
  expect(notes).toHaveLength(1);
});

test("[ST35] an input that joined before a crash cannot be taken back after it", async () => {
  const path = database();
  const [at, second] = [gate(), gate()];
  const script = oneByOne(["first", "second"], "done");
  const before = await mortal({
    store: sqliteStore({ path }),
    script,
    tools: [gatedTool("first", at), gatedTool("second", second)],
  });
  before.session.turn("go", { key: "go" });
  await at.begun;
  const { inputId } = await before.session.enqueue("note");
  at.open();
  await second.begun;
  await before.die();

  const again = gate();
  const { session } = await live({
    store: sqliteStore({ path }),
    script,
    tools: [quickTool("first"), gatedTool("second", again)],
  });
  expect(await session.cancelPending([inputId])).toEqual([{ inputId, status: "already_claimed" }]);
  again.open();
  expect((await session.turn("go", { key: "go" }).result).text).toBe("done");
  expect(await session.pending()).toEqual([]);
});

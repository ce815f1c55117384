// A deployment between a crash and the recovery: the turn ends with what it began with, the next one has what is new.
// E3 and environment.ts, rules EN2 and EN3.

import type { ModelRequest } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { expect, test } from "vitest";
import {
  database,
  gate,
  gatedStep,
  gatedTool,
  live,
  mortal,
  quickTool,
  unattended,
  unevenCalls,
  userTexts,
} from "./durable-support.ts";
import { plugin, resultsIn, transcript } from "./hooks-support.ts";

/** Which instructions a request has, and which tools of the test. */
function shown({ system, tools }: ModelRequest): readonly string[] {
  const words = ["old words", "new words"].filter((text) => system.includes(text));
  return [...words, ...tools.map(({ name }) => name).filter((name) => name !== "batch")];
}

test("[EN2] a turn that is recovered after a deployment has the prompt and the tools it began with, in every round", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    instructions: "old words",
    script: [callTool("first"), callTool("second")],
    tools: [quickTool("first"), gatedTool("second", at)],
  });
  before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();
  expect(before.model.requests.map(shown)).toEqual([
    ["old words", "first", "second"],
    ["old words", "first", "second"],
  ]);

  const { session, model } = await live({
    store: sqliteStore({ path }),
    instructions: "new words",
    script: [callTool("first"), say("done"), callTool("third"), say("again")],
    tools: [quickTool("first"), quickTool("second"), quickTool("third")],
  });
  expect((await session.turn("go", { key: "k" }).result).text).toBe("done");
  expect(model.requests.map(shown)).toEqual([
    ["old words", "first", "second"],
    ["old words", "first", "second"],
  ]);
  await session.run("again");
  expect(model.requests.slice(2).map(shown)).toEqual([
    ["new words", "first", "second", "third"],
    ["new words", "first", "second", "third"],
  ]);
});

test("[EN3] a turn of text only, too: what it was accepted with is what it is recovered with", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    instructions: "old words",
    script: [gatedStep(at, say("never said"))],
    tools: [quickTool("first")],
  });
  before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();

  const { session, model } = await live({
    store: sqliteStore({ path }),
    instructions: "new words",
    script: [say("one"), say("two")],
    tools: [quickTool("first"), quickTool("third")],
  });
  expect((await session.turn("go", { key: "k" }).result).text).toBe("one");
  expect((await session.run("again")).text).toBe("two");
  expect(model.requests.map(shown)).toEqual([
    ["old words", "first"],
    ["new words", "first", "third"],
  ]);
});

test("[EN2] what a plugin contributed to the prompt is what it was, though the plugin says something else now", async () => {
  const path = database();
  const at = gate();
  const speaking = (content: string) =>
    plugin("speaking", { prompt: () => [{ slot: "guidance", content }] as never });
  const before = await mortal({
    store: sqliteStore({ path }),
    plugins: [speaking("old words")],
    script: [gatedStep(at, say("never said"))],
  });
  before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();

  const { session, model } = await live({
    store: sqliteStore({ path }),
    plugins: [speaking("new words")],
    script: [say("one"), say("two")],
  });
  expect((await session.turn("go", { key: "k" }).result).text).toBe("one");
  await session.run("again");
  expect(model.requests.map(shown)).toEqual([["old words"], ["new words"]]);
});

test("[EN2] options that the session is opened with anew are the next turn's, too", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    instructions: "old words",
    script: [callTool("first"), callTool("second")],
    tools: [quickTool("first"), gatedTool("second", at)],
  });
  before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();

  const { runtime, model } = unattended({
    store: sqliteStore({ path }),
    script: [say("one"), say("two")],
    tools: [quickTool("first"), quickTool("second")],
  });
  const session = await runtime.session("s", { instructions: "new words" });
  expect((await session.turn("go", { key: "k" }).result).text).toBe("one");
  expect((await session.run("again")).text).toBe("two");
  expect(model.requests.map(shown)).toEqual([
    ["old words", "first", "second"],
    ["new words", "first", "second"],
  ]);
});

test("[E3] a session that is opened anew with another model finishes the turn that was interrupted", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("first"), callTool("second")],
    tools: [quickTool("first"), gatedTool("second", at)],
  });
  before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();

  const { runtime } = unattended({
    store: sqliteStore({ path }),
    script: [say("one")],
    models: { other: scriptedModel([say("two"), say("three")]) },
    tools: [quickTool("first"), quickTool("second")],
  });
  const session = await runtime.session("s", { model: "other" });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report.outcome.kind).toBe("finished");
  expect((await session.run("again")).text).toBe("three");
  expect(unevenCalls(session.read().messages)).toEqual([]);
});

test("[EN2] a turn that began with what another runtime had configured is recovered with that", async () => {
  const path = database();
  const at = gate();
  const one = await live({ store: sqliteStore({ path }), instructions: "old words", script: [say("hello")] });
  await one.session.run("hi");
  const other = await mortal({
    store: sqliteStore({ path }),
    instructions: "old words",
    script: [gatedStep(at, say("never said"))],
  });
  await one.session.configure({ instructions: "new words" });
  other.session.turn("go", { key: "k" });
  await at.begun;
  expect(other.model.requests.map(shown)).toEqual([["new words"]]);
  await other.die();

  const { session, model } = await live({
    store: sqliteStore({ path }),
    instructions: "old words",
    script: [say("one")],
  });
  expect((await session.turn("go", { key: "k" }).result).text).toBe("one");
  expect(model.requests.map(shown)).toEqual([["new words"]]);
});

test("the next message after a crash is asked with the finished results before it, one for each call", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("first"), callTool("second")],
    tools: [quickTool("first", { replay: "unsafe" }), gatedTool("second", at, { replay: "unsafe" })],
  });
  before.session.turn("go");
  await at.begun;
  await before.die();

  const ran: string[] = [];
  const { session, model } = await live({
    store: sqliteStore({ path }),
    script: [say("I am back"), say("answer")],
    tools: [quickTool("first", { ran, replay: "unsafe" }), quickTool("second", { ran, replay: "unsafe" })],
  });
  expect((await session.run("next message")).text).toBe("answer");
  expect(ran).toEqual([]);
  const [, last] = model.requests;
  expect(userTexts(last)).toEqual(["go", "next message"]);
  expect(resultsIn(last).map(({ name, text }) => [name, text])).toEqual([
    ["first", "first done"],
    ["second", expect.stringContaining("It may have taken effect")],
  ]);
  expect(unevenCalls(last?.messages ?? [])).toEqual([]);
  expect(transcript(session).slice(-3)).toEqual([
    "assistant: I am back",
    "user: next message",
    "assistant: answer",
  ]);
});

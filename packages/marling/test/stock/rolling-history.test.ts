// Rolling history: compaction before a turn, on overflow and on demand, with proof.

import {
  createRuntime,
  type HistoryNode,
  type JsonObject,
  type ModelRequest,
  memoryStore,
  type Plugin,
  type Session,
} from "marling";
import { type RollingHistoryOptions, rollingHistory } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, failWith, type ScriptFunction, say } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { estimateTokens, messagesTokens } from "../../src/stock/rolling-history/estimate-tokens.ts";
import { splitHistory } from "../../src/stock/rolling-history/split-history.ts";
import { database, live, quickTool } from "../kernel/durable-support.ts";
import { spoken } from "./stock-support.ts";

const LONG = "word ".repeat(80); // 400 characters, about 100 tokens
const isSummary = ({ system }: ModelRequest): boolean => system.startsWith("You summarise");
const lastUser = ({ messages }: ModelRequest): string => {
  const last = messages.findLast(({ role, parts }) => role === "user" && parts.length > 0);
  return last?.parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("") ?? "";
};

interface World {
  readonly session: Session;
  readonly asked: ModelRequest[];
}

async function world(
  options: RollingHistoryOptions,
  {
    summary = () => say("SUMMARY"),
    answer = () => say(LONG),
  }: { summary?: ScriptFunction; answer?: ScriptFunction } = {},
): Promise<World> {
  const asked: ModelRequest[] = [];
  const { session } = await live({
    store: memoryStore(),
    plugins: [rollingHistory(options)],
    tools: [quickTool("look")],
    script: (request) => {
      asked.push(request);
      return isSummary(request) ? summary(request) : answer(request);
    },
  });
  return { session, asked };
}

const proofs = (history: readonly HistoryNode[]): readonly unknown[] =>
  history.flatMap((node) =>
    node.kind === "plugin" && node.type === "rolling_history.compaction" ? [node.body] : [],
  );

test("[RH1] a turn whose prompt would pass the threshold begins with a summary in the place of the older turns", async () => {
  const { session, asked } = await world({ contextTokens: 400, threshold: 0.75, keepTurns: 1 });
  for (const text of ["one", "two"]) await session.turn(text).result;
  expect(session.read().frames).toHaveLength(1);
  await session.turn("three").result;
  await session.turn("four").result;
  const last = asked.at(-1);
  expect(asked.filter(isSummary)).toHaveLength(1);
  expect(spoken(last).map((line) => line.slice(0, 90))).toEqual([
    "user: Runtime event: The conversation before this point, in summary:\nSUMMARY",
    "user: three",
    `assistant: ${LONG.slice(0, 79)}`,
    "user: four",
  ]);
  expect(session.read().frames.map(({ reason }) => reason)).toEqual(["initial", "compaction"]);
});

test("[RH2] what takes the place is smaller by the same estimate, and the numbers are in the history", async () => {
  const { session } = await world({ contextTokens: 400, keepTurns: 1 });
  for (const text of ["one", "two", "three", "four"]) await session.turn(text).result;
  // Each turn: 4 + 1 for the input, 4 + 100 for the answer; the summary: 4 + ceil(55 / 4).
  expect(proofs(await session.history())).toEqual([{ before: 218, after: 18, messages: 4, kept: 2 }]);
  expect(await session.query("history.status", {})).toMatchObject({
    compactions: 1,
    last: { before: 218, after: 18 },
  });
});

test("[RH3] a summary that is not smaller is asked for twice, refused, and not again before the history has grown", async () => {
  const { session, asked } = await world(
    { contextTokens: 1_200, keepTurns: 1 },
    { summary: () => say(LONG.repeat(20)) },
  );
  for (let turn = 1; turn <= 10; turn += 1) await session.turn("again").result;
  // Eight older turns of 110 tokens each are two pieces of at most 720, and there are two tries.
  const summaries = asked.filter(isSummary);
  expect(summaries).toHaveLength(4);
  expect(summaries.map((request) => /Use at most \d+ words\.$/.test(lastUser(request)))).toEqual([
    false,
    false,
    true,
    true,
  ]);
  expect(session.read().frames).toHaveLength(1);
  expect(await session.query("history.status", {})).toMatchObject({
    compactions: 0,
    refused: { tokens: 880, messages: 18, reason: "the summary was not smaller" },
  });
  await session.turn("again").result; // 21 messages
  expect(asked.filter(isSummary)).toHaveLength(4);
  await session.turn("again").result; // 23 messages: more than a quarter more than 18
  expect(asked.filter(isSummary)).toHaveLength(8);
});

test("[RH3] an empty summary is refused", async () => {
  const { session } = await world({ contextTokens: 400, keepTurns: 0 }, { summary: () => say("") });
  await session.turn("one").result;
  expect(await session.compact()).toBe(false);
  expect(session.read().frames).toHaveLength(1);
});

test("[RH1] session.compact works between turns, and the instructions reach the summary", async () => {
  const { session, asked } = await world({ keepTurns: 1 });
  for (const text of ["one", "two"]) await session.turn(text).result;
  expect(await session.compact("the names")).toBe(true);
  expect(lastUser(asked.find(isSummary) as ModelRequest)).toContain("Keep in mind: the names");
  expect(session.read().messages.map(({ role }) => role)).toEqual(["event", "user", "assistant"]);
  expect(await session.compact()).toBe(false); // only the summary is older now, and another is not smaller
  await session.turn("three").result;
  expect(session.read().messages.map(({ role }) => role)).toEqual([
    "event",
    "user",
    "assistant",
    "user",
    "assistant",
  ]);
});

test("[RH4] with nothing older than the turns that stay, nothing is compacted and no model is asked", async () => {
  const { session, asked } = await world({ keepTurns: 2 });
  for (const text of ["one", "two"]) await session.turn(text).result;
  expect(await session.compact()).toBe(false);
  expect(asked.filter(isSummary)).toHaveLength(0);
});

test("[RH1] an overflow that the provider reports is met by a compaction inside the turn", async () => {
  let overflows = 1;
  const { session, asked } = await world(
    { keepTurns: 1 },
    {
      answer: (request) => {
        if (lastUser(request) === "three" && overflows-- > 0) return failWith({ kind: "context_overflow" });
        return say(`answer to ${lastUser(request)}`);
      },
    },
  );
  for (const text of ["one ".repeat(60), "two"]) await session.turn(text).result;
  const { outcome } = await session.turn("three").result;
  expect(outcome).toMatchObject({ kind: "finished", text: "answer to three" });
  expect(spoken(asked.at(-1)).map((line) => line.replace(/^user: Runtime.*\n/, "user: "))).toEqual([
    "user: SUMMARY",
    "user: two",
    "assistant: answer to two",
    "user: three",
  ]);
  expect(session.read().frames).toHaveLength(2);
});

test("[RH3] an overflow that a compaction does not cure ends the turn, after at most two summaries", async () => {
  const { session, asked } = await world(
    { keepTurns: 1, contextTokens: 400 },
    {
      summary: () => say(LONG.repeat(9)),
      answer: ({ messages }) => (messages.length > 4 ? failWith({ kind: "context_overflow" }) : say(LONG)),
    },
  );
  for (const text of ["one", "two"]) await session.turn(text).result;
  const { outcome } = await session.turn("three").result;
  expect(outcome).toMatchObject({ kind: "stopped", reason: "provider_error" });
  expect(asked.filter(isSummary)).toHaveLength(2);
});

test("a summary that fails leaves the turn alone, and fails a compaction that a host asked for", async () => {
  const { session } = await world(
    { contextTokens: 400, keepTurns: 1 },
    { summary: () => failWith({ kind: "auth" }) },
  );
  for (const text of ["one", "two"]) await session.turn(text).result;
  expect((await session.turn("three").result).outcome).toMatchObject({ kind: "finished" });
  await expect(session.compact()).rejects.toMatchObject({
    code: "hook_failed",
    cause: expect.objectContaining({ code: "direct_completion_failed" }),
  });
  expect(await session.query("history.status", {})).toMatchObject({ compactions: 0 });
});

test("[RH3] where the summary after an overflow fails, the overflow is what ends the turn", async () => {
  const { session } = await world(
    { keepTurns: 0 },
    {
      summary: () => failWith({ kind: "auth" }),
      answer: ({ messages }) => (messages.length > 2 ? failWith({ kind: "context_overflow" }) : say(LONG)),
    },
  );
  await session.turn("one").result;
  const { outcome } = await session.turn("two").result;
  expect(outcome).toMatchObject({ kind: "stopped", reason: "provider_error", code: "context_overflow" });
});

test("[RH1] what the provider counted holds, until a compaction has made it out of date", async () => {
  const { session, asked } = await world(
    { contextTokens: 400, keepTurns: 1 },
    { answer: () => say("short", { usage: { input: 250, cacheRead: 40 } }) },
  );
  await session.turn(LONG).result;
  await session.turn("two").result;
  expect(asked.filter(isSummary)).toHaveLength(0); // 290 and the input are less than 300
  expect(await session.compact()).toBe(true);
  await session.turn(LONG.slice(0, 60)).result; // 290 and 19 would be more, but that was before
  expect(asked.filter(isSummary)).toHaveLength(1);
  await session.turn(LONG.slice(0, 60)).result;
  expect(asked.filter(isSummary)).toHaveLength(2);
});

test("[RH4] a call and its result stay together", async () => {
  const { session } = await world(
    { contextTokens: 500, keepTurns: 1 },
    {
      answer: ({ messages }) =>
        messages.at(-1)?.role === "tool" ? say(LONG) : callTool("look", { at: LONG.slice(0, 100) }),
    },
  );
  for (const text of ["one", "two", "three", "four", "five"]) await session.turn(text).result;
  expect(session.read().frames.length).toBeGreaterThan(1);
  const roles = session.read().messages.map(({ role }) => role);
  expect(roles[0]).toBe("event");
  const turns = roles
    .slice(1)
    .join(" ")
    .split(/ ?user /)
    .slice(1);
  expect(turns.map((turn) => turn.trim())).toEqual(turns.map(() => "assistant tool assistant"));
  expect(turns.length).toBeGreaterThan(1);
});

test("[RH4] a cut that would part a call from its result is made one turn earlier", () => {
  const message = (role: "user" | "assistant" | "tool", part: JsonObject) =>
    ({ id: role, role, parts: [part] }) as never;
  const call = message("assistant", { kind: "tool_call", callId: "c", name: "look", args: {} });
  const result = message("tool", { kind: "tool_result", callId: "c", name: "look", text: "" });
  const user = message("user", { kind: "text", text: "go" });
  expect(splitHistory([user, user, call, user, result, user], 2)).toEqual({
    older: [user],
    kept: [user, call, user, result, user],
  });
  expect(splitHistory([user, call, result, user], 1).older).toHaveLength(3);
  expect(splitHistory([user, call, result], 0).kept).toEqual([]);
  expect(splitHistory([user], 2).older).toEqual([]);
});

test("estimates count four letters of ASCII as a token, and other letters one by one", () => {
  expect(estimateTokens("abcdefgh")).toBe(2);
  expect(estimateTokens("日本語")).toBe(3);
  expect(messagesTokens([{ parts: [{ kind: "text", text: "abcd" }] }], estimateTokens)).toBe(5);
});

test("[RH5] a compacted session goes on after a restart, on SQLite, and its fork has the same view", async () => {
  const path = database();
  const plugins: readonly Plugin[] = [rollingHistory({ contextTokens: 400, keepTurns: 1 })];
  const script: ScriptFunction = (request) => (isSummary(request) ? say("SUMMARY") : say(LONG));
  const first = await live({ store: sqliteStore({ path }), plugins, script });
  for (const text of ["one", "two", "three", "four"]) await first.session.turn(text).result;
  const before = first.session.read();
  await first.runtime.close();
  const second = await live({ store: sqliteStore({ path }), plugins, script });
  expect(second.session.read().messages).toEqual(before.messages);
  expect(await second.session.query("history.status", {})).toMatchObject({ compactions: 1 });
  const fork = await second.runtime.sessions.fork("s", { as: "fork" });
  expect(fork.read().messages).toEqual(before.messages);
});

test("summaries are written by the model that the options name, and counted under their own source", async () => {
  const usage = { input: 10, output: 5 };
  const { scriptedModel } = await import("marling/testing");
  const small = scriptedModel(() => say("SMALL", { usage }));
  const runtime = createRuntime({
    model: scriptedModel(() => say(LONG)),
    models: { small },
    plugins: [rollingHistory({ keepTurns: 0, model: "small" })],
  });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  await session.turn("one").result;
  expect(await session.compact()).toBe(true);
  expect(session.usage().entries).toContainEqual(
    expect.objectContaining({ source: "compaction", model: "small" }),
  );
});

test.each<[Record<string, unknown>, string]>([
  [{ contextTokens: 0 }, "contextTokens: expected a whole number from 1, found 0"],
  [{ threshold: 2 }, "threshold: expected a number above 0 and at most 1, found 2"],
  [{ estimate: 4 }, "estimate: expected a function, found 4"],
  [
    { keep: 1 },
    "keep: expected one of the options contextTokens, threshold, keepTurns, maxTries, model, estimate",
  ],
])("options %j are refused by name", (options, message) => {
  expect(() => rollingHistory(options as RollingHistoryOptions)).toThrow(
    expect.objectContaining({ code: "invalid_plugin_options", message: expect.stringContaining(message) }),
  );
});

// A turn that can only wait sleeps in the store, and goes on wherever its value is noticed.

import { defineTool } from "marling";
import { callTool, callTools, ManualClock, type ScriptStep, say } from "marling/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import { deferred } from "../../src/base/deferred.ts";
import { sha256 } from "../../src/base/digest.ts";
import type { SessionId, TurnId } from "../../src/model/ids.ts";
import {
  asking,
  claimAsStranger,
  database,
  desk,
  parked,
  transcript,
  until,
  worker,
} from "./parked-support.ts";
import { failureOf, successOf } from "./tools-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };
const TOLD = ["user: go", "assistant calls ask call_1", "tool call_1: yes", "assistant: Done."];

test("[E10] a turn that waits has no lease: somebody else can have it at once", async () => {
  const { tool, keys } = asking();
  const { store, runtime, session } = await desk(database(), { tools: [tool], answers: ASK });
  const turn = session.turn("go");
  await parked(session);
  expect(await session.pending()).toEqual([
    {
      inputId: (await turn.accepted).inputId,
      turnId: "s:turn:1",
      input: { text: "go" },
      deliver: "next_turn",
      status: "parked",
    },
  ]);
  expect(await claimAsStranger(store)).toMatchObject({ kind: "claimed", isTakeover: false });
  expect(await runtime.resolve(keys[0] ?? "", { ok: "yes" })).toBe("resolved");
  const report = await turn.result;
  expect(report.outcome).toEqual({ kind: "finished", by: "message", text: "Done." });
  expect(successOf(report.toolCalls[0]?.output)).toBe("yes");
  expect(await transcript(session)).toEqual(TOLD);
  expect(await session.pending()).toEqual([]);
  expect(keys).toHaveLength(1);
});

test("[SW2] turns that sleep have no timers of their own: only the poll of their runtime and its sweep are left", async () => {
  const clock = new ManualClock({ startsAt: 1_000_000 });
  const { tool } = asking();
  const { runtime, session } = await desk(database(), { tools: [tool], answers: ASK, clock });
  const sessions = [session, ...(await Promise.all(["a", "b", "c"].map((id) => runtime.session(id))))];
  for (const each of sessions) each.turn("go");
  for (const each of sessions) await parked(each);
  await until(() => clock.pending === 2);
  await runtime.close();
  expect(clock.pending).toBe(0);
});

test("[SW2] a runtime that nobody has asked for the session leaves a turn that sleeps alone", async () => {
  const path = database();
  const { tool } = asking();
  const first = await desk(path, { tools: [tool], answers: ASK });
  first.session.turn("go");
  await parked(first.session);
  await first.runtime.close();
  const clock = new ManualClock({ startsAt: Date.now() });
  const { runtime, model } = worker(path, { tools: [tool], answers: ASK, clock });
  expect(await runtime.recover()).toEqual({ resumed: [], resumedWork: [], skipped: [] });
  expect(clock.pending).toBe(1);
  expect(model.requests).toEqual([]);
});

test("[E10] a value wakes the turn in any runtime on the file, and whoever awaits it has the same report", async () => {
  const path = database();
  const { tool, keys } = asking();
  const first = await desk(path, { tools: [tool], answers: ASK });
  const turn = first.session.turn("go", { key: "k" });
  await parked(first.session);
  const second = await desk(path, { tools: [tool], answers: ASK });
  const attached = second.session.turn("go", { key: "k" });
  expect(await second.runtime.resolve(keys[0] ?? "", { ok: "yes" })).toBe("resolved");
  const report = await turn.result;
  expect(report.text).toBe("Done.");
  expect(await attached.result).toEqual(report);
  expect(first.model.requests.length + second.model.requests.length).toBe(2);
  expect(keys).toHaveLength(1);
});

test("[TQ4] a turn that ended in another runtime is in the view of the session when its result is there", async () => {
  const path = database();
  const { tool, keys } = asking();
  // The first runtime cannot go on with the turn by itself: its clock, and with it its poll, stands still.
  const clock = new ManualClock({ startsAt: Date.now() });
  const first = await desk(path, { tools: [tool], answers: ASK, clock });
  const turn = first.session.turn("go");
  await parked(first.session);
  const second = await desk(path, { tools: [tool], answers: ASK });
  await parked(second.session);
  await second.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  await until(async () => (await second.session.pending()).length === 0);
  expect(first.session.read().turnIndex).toBe(0);
  clock.advance(100);
  const report = await turn.result;
  expect(first.model.requests).toHaveLength(1);
  expect(first.session.read().revision).toBe(report.revision);
  expect(await transcript(first.session)).toEqual(TOLD);
  expect((await first.session.turn("next").result).text).toBe("Answer to next.");
  expect(first.model.requests.at(-1)?.messages.map(({ role }) => role)).toEqual([
    "user",
    "assistant",
    "tool",
    "assistant",
    "user",
  ]);
});

test("[TQ4] it is there too when the other runtime is busy with the next turn", async () => {
  const path = database();
  const { tool, keys } = asking();
  const blocked = deferred<ScriptStep>();
  const clock = new ManualClock({ startsAt: Date.now() });
  const first = await desk(path, { tools: [tool], answers: ASK, clock });
  const turn = first.session.turn("go");
  await parked(first.session);
  const second = await desk(path, { tools: [tool], answers: { ...ASK, next: [blocked.promise] } });
  const next = second.session.turn("next");
  await second.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  await until(() => second.model.requests.length === 2);
  clock.advance(100);
  const report = await turn.result;
  expect(first.session.read().revision).toBe(report.revision);
  expect(await transcript(first.session)).toEqual(TOLD);
  blocked.resolve(say("Next."));
  expect((await next.result).text).toBe("Next.");
});

test("[E10] a value that comes after the first runtime was closed wakes the turn in the next one", async () => {
  const path = database();
  const { tool, keys } = asking();
  const first = await desk(path, { tools: [tool], answers: ASK });
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  const second = worker(path, { tools: [tool], answers: ASK });
  expect(await second.runtime.resolve(keys[0] ?? "", { ok: "yes" })).toBe("resolved");
  const session = await second.runtime.session("s");
  expect((await session.turn("go", { key: "k" }).result).text).toBe("Done.");
  expect(second.model.requests).toHaveLength(1);
  expect(await transcript(session)).toEqual(TOLD);
});

test("[RC1] a value that was brought by somebody without the tools is found by the next runtime, unasked", async () => {
  const path = database();
  const { tool, keys } = asking();
  const first = await desk(path, { tools: [tool], answers: ASK });
  first.session.turn("go");
  await parked(first.session);
  await first.runtime.close();
  const { store, ...bringer } = await desk(path, { session: "another" });
  const { status } = await store.waits.resolve(sha256(keys[0] ?? ""), "completion", { ok: "yes" });
  expect(status).toBe("resolved");
  await bringer.runtime.close();
  const second = worker(path, { tools: [tool], answers: ASK });
  const isDone = async (): Promise<boolean> =>
    (await second.runtime.sessions.list({ prefix: "s" })).items[0]?.turnIndex === 1;
  await until(isDone);
  expect((await second.runtime.recover()).resumed).toEqual([{ sessionId: "s", turnId: "s:turn:1" }]);
});

test("[W1] a value that comes before the wait is kept: the turn goes on without sleeping", async () => {
  const path = database();
  const second = worker(path);
  const statuses: string[] = [];
  const early = defineTool({
    name: "ask",
    description: "Is answered before it waits.",
    input: { type: "object" },
    execute: async (_input, context) => {
      const key = await context.completionKey();
      expect(await context.completionKey()).toBe(key);
      statuses.push(await second.runtime.resolve(key, { ok: "yes" }));
      statuses.push(await second.runtime.resolve(key, { ok: "no" }));
      return context.pending();
    },
  });
  const { session, model } = await desk(path, { tools: [early], answers: ASK });
  expect((await session.turn("go").result).text).toBe("Done.");
  expect(statuses).toEqual(["resolved", "already_resolved"]);
  expect(await transcript(session)).toEqual(TOLD);
  expect(model.requests).toHaveLength(2);
});

test("[W1] of two runtimes that bring a value at once, one is first, and its value is the result", async () => {
  const path = database();
  const { tool, keys } = asking();
  const { session } = await desk(path, { tools: [tool], answers: ASK });
  const turn = session.turn("go");
  await parked(session);
  const values = ["a", "b", "c", "d"];
  const statuses = await Promise.all(
    values.map((value) => worker(path).runtime.resolve(keys[0] ?? "", { ok: value })),
  );
  expect(statuses.toSorted()).toEqual([
    "already_resolved",
    "already_resolved",
    "already_resolved",
    "resolved",
  ]);
  const report = await turn.result;
  expect(successOf(report.toolCalls[0]?.output)).toBe(values[statuses.indexOf("resolved")]);
});

test("[CO2] a value is checked against the output schema of the tool, by whoever goes on", async () => {
  const path = database();
  const { tool, keys } = asking({ output: z.object({ n: z.number() }) });
  const answers = {
    go: [
      callTools([
        ["ask", {}],
        ["ask", {}],
      ]),
      say("Done."),
    ],
  };
  const first = await desk(path, { tools: [tool], answers });
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  const second = worker(path, { tools: [tool], answers });
  await second.runtime.resolve(keys[0] ?? "", { ok: { n: "one" } });
  await second.runtime.resolve(keys[1] ?? "", { ok: { n: 1 } });
  const session = await second.runtime.session("s");
  const { toolCalls, outcome } = await session.turn("go", { key: "k" }).result;
  expect(outcome.kind).toBe("finished");
  expect(failureOf(toolCalls[0]?.output).code).toBe("invalid_tool_output");
  expect(successOf(toolCalls[1]?.output)).toEqual({ n: 1 });
});

test("[CO2] an error that is brought fails the call with its code and message, and the turn goes on", async () => {
  const { tool, keys } = asking();
  const { runtime, session } = await desk(database(), { tools: [tool], answers: ASK });
  const turn = session.turn("go");
  await parked(session);
  await runtime.resolve(keys[0] ?? "", { error: { code: "rejected", message: "Not today." } });
  const { toolCalls, text } = await turn.result;
  expect(failureOf(toolCalls[0]?.output)).toMatchObject({
    class: "execution",
    source: "tool",
    code: "rejected",
    message: "Not today.",
  });
  expect(text).toBe("Done.");
});

test("[W2] a key of another kind is unknown, and so is a key that nobody made", async () => {
  const { store, runtime, session } = await desk(database());
  const sessionId = session.id as SessionId;
  const wait = { sessionId, turnId: "t" as TurnId, name: "call_1", keyHash: sha256("wait_approval") };
  await store.waits.create({ ...wait, kind: "approval" });
  expect(await runtime.resolve("wait_approval", { ok: true })).toBe("unknown");
  expect(await runtime.resolve("wait_AAAAAAAAAAAAAAAAAAAAAA", { ok: true })).toBe("unknown");
  expect(await store.waits.read(sessionId, "t" as TurnId)).toEqual([
    { sessionId, turnId: "t", name: "call_1", kind: "approval", isOver: false },
  ]);
  expect((await store.waits.resolve(sha256("wait_approval"), "approval", { ok: true })).status).toBe(
    "resolved",
  );
});

test("[W3] a key is over with its turn: what comes late is too late, in every runtime", async () => {
  const path = database();
  const { tool, keys } = asking();
  const { runtime, session } = await desk(path, { tools: [tool], answers: ASK });
  const turn = session.turn("go");
  await parked(session);
  await runtime.resolve(keys[0] ?? "", { ok: "yes" });
  await turn.result;
  expect(await runtime.resolve(keys[0] ?? "", { ok: "no" })).toBe("already_resolved");
  expect(await worker(path).runtime.resolve(keys[0] ?? "", { ok: "no" })).toBe("already_resolved");
});

test.each([[{}], [{ error: { code: "x" } }], ["ok"], [undefined]])(
  "[CO2] a resolution %j is refused and leaves the turn asleep",
  async (raw) => {
    const { tool, keys } = asking();
    const { runtime, session } = await desk(database(), { tools: [tool], answers: ASK });
    const turn = session.turn("go");
    await parked(session);
    await expect(runtime.resolve(keys[0] ?? "", raw as { ok: unknown })).rejects.toMatchObject({
      name: "MarlingError",
    });
    expect((await session.pending())[0]?.status).toBe("parked");
    expect(await runtime.resolve(keys[0] ?? "", { ok: "yes" })).toBe("resolved");
    expect((await turn.result).text).toBe("Done.");
  },
);

// What is behind a turn that sleeps, and what becomes of both when a new input comes or everybody leaves.

import { callTool, ManualClock, say } from "marling/testing";
import { expect, test } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import {
  asking,
  claimAsStranger,
  database,
  desk,
  parked,
  rejectionOf,
  transcript,
  until,
  worker,
} from "./parked-support.ts";
import { successOf } from "./tools-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };
const TOLD = ["user: go", "assistant calls ask call_1", "tool call_1: yes", "assistant: Done."];

test("[TQ5] turns behind one that sleeps wait for it and run in order afterwards", async () => {
  const { tool, keys } = asking();
  const { runtime, session, model } = await desk(database(), { tools: [tool], answers: ASK });
  const turn = session.turn("go");
  await parked(session);
  const next = ["one", "two", "three"].map((text) => session.turn(text, { onParked: "queue" }));
  await Promise.all(next.map(({ accepted }) => accepted));
  expect((await session.pending()).map(({ status }) => status)).toEqual([
    "parked",
    "queued",
    "queued",
    "queued",
  ]);
  expect(model.requests).toHaveLength(1);
  await runtime.resolve(keys[0] ?? "", { ok: "yes" });
  const reports = await Promise.all([turn, ...next].map(({ result }) => result));
  expect(reports.map(({ text }) => text)).toEqual([
    "Done.",
    "Answer to one.",
    "Answer to two.",
    "Answer to three.",
  ]);
  expect(reports.map(({ revision }) => revision)).toEqual([2, 3, 4, 5]);
  expect((await transcript(session)).filter((line) => line.startsWith("user"))).toEqual([
    "user: go",
    "user: one",
    "user: two",
    "user: three",
  ]);
});

test("[LE4] what is behind a turn that sleeps takes no lease either, here or in another runtime", async () => {
  const path = database();
  const { tool, keys } = asking();
  // Opened before there is a turn, so that it learns of it only by its own input.
  const second = await desk(path, {
    tools: [tool],
    answers: ASK,
    clock: new ManualClock({ startsAt: Date.now() }),
  });
  const first = await desk(path, { tools: [tool], answers: ASK });
  first.session.turn("go");
  await parked(first.session);
  const here = first.session.turn("here");
  await here.accepted;
  expect(await claimAsStranger(first.store)).toMatchObject({ kind: "claimed" });
  const there = second.session.turn("there");
  await there.accepted;
  await until(async () => (await claimAsStranger(first.store)).kind === "claimed");
  await second.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  expect((await here.result).text).toBe("Answer to here.");
  expect((await there.result).text).toBe("Answer to there.");
  await until(async () => (await claimAsStranger(first.store)).kind === "claimed");
});

test("[LE4] an input that is accepted while a turn goes to sleep leaves no lease behind", async () => {
  const { tool } = asking();
  for (let ticks = 0; ticks < 12; ticks += 1) {
    const { store, session, runtime } = await desk(database(), { tools: [tool], answers: ASK });
    const turn = session.turn("go");
    await turn.accepted;
    for (let tick = 0; tick < ticks; tick += 1) await new Promise((resolve) => setImmediate(resolve));
    const next = session.turn("next");
    await next.accepted;
    await parked(session);
    await until(async () => (await claimAsStranger(store)).kind === "claimed");
    await runtime.close();
  }
});

test("[TQ3] what two runtimes accepted behind a turn that sleeps runs in the order it was accepted in", async () => {
  const path = database();
  const { tool, keys } = asking();
  const [first, second] = [
    await desk(path, { tools: [tool], answers: ASK }),
    await desk(path, { tools: [tool], answers: ASK }),
  ];
  first.session.turn("go");
  await parked(first.session);
  const turns = [];
  for (const [index, text] of ["one", "two", "three", "four"].entries()) {
    const turn = (index % 2 === 0 ? second : first).session.turn(text);
    await turn.accepted;
    turns.push(turn);
  }
  await second.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  const reports = await Promise.all(turns.map(({ result }) => result));
  expect(reports.map(({ revision }) => revision)).toEqual([3, 4, 5, 6]);
  const third = await desk(path, { tools: [tool], answers: ASK });
  expect((await transcript(third.session)).filter((line) => line.startsWith("user"))).toEqual([
    "user: go",
    "user: one",
    "user: two",
    "user: three",
    "user: four",
  ]);
});

test("[E10] it takes the place of a turn that was put to sleep by another runtime", async () => {
  const path = database();
  const { tool } = asking();
  const first = await desk(path, { tools: [tool], answers: ASK });
  const turn = first.session.turn("go");
  await parked(first.session);
  const second = await desk(path, { tools: [tool], answers: ASK });
  const next = second.session.turn("instead", { onParked: "cancel" });
  expect((await turn.result).outcome).toMatchObject({ reason: "cancelled" });
  expect((await next.result).text).toBe("Answer to instead.");
});

test.each([
  ["session", "session_closed"],
  ["runtime", "runtime_closed"],
] as const)(
  "[TQ5] closing the %s leaves a turn that sleeps, and what is behind it, to the store",
  async (what, code) => {
    const path = database();
    const { tool, keys } = asking();
    const first = await desk(path, { tools: [tool], answers: ASK });
    const turn = first.session.turn("go", { key: "k" });
    await parked(first.session);
    const next = first.session.turn("next", { key: "n" });
    await next.accepted;
    await (what === "session" ? first.session : first.runtime).close();
    expect(await rejectionOf(turn.result)).toMatchObject({ name: "MarlingError", code });
    expect(await rejectionOf(next.result)).toMatchObject({ name: "MarlingError", code });
    const seen: string[] = [];
    for await (const event of turn) seen.push(event.kind);
    expect(seen.at(-1)).toBe("waiting");
    expect(first.model.requests).toHaveLength(1);
    const second = await desk(path, { tools: [tool], answers: ASK });
    expect((await second.session.pending()).map(({ status }) => status)).toEqual(["parked", "queued"]);
    expect(second.session.read().turnIndex).toBe(0);
    await second.runtime.resolve(keys[0] ?? "", { ok: "yes" });
    expect((await second.session.turn("go", { key: "k" }).result).text).toBe("Done.");
    expect((await second.session.turn("next", { key: "n" }).result).text).toBe("Answer to next.");
    expect((await transcript(second.session)).slice(0, 4)).toEqual(TOLD);
  },
);

test("[TQ5] a session that was closed over a turn that sleeps is opened again by the same runtime, and goes on", async () => {
  const { tool, keys } = asking();
  const { runtime, session } = await desk(database(), { tools: [tool], answers: ASK });
  session.turn("go", { key: "k" });
  await parked(session);
  await session.close();
  const again = await runtime.session("s");
  expect(again).not.toBe(session);
  expect((await again.pending())[0]?.status).toBe("parked");
  await runtime.resolve(keys[0] ?? "", { ok: "yes" });
  expect((await again.turn("go", { key: "k" }).result).text).toBe("Done.");
});

test("[RC1] a value wakes a turn whose session the runtime has closed: it is opened for that, and let go", async () => {
  const { tool, keys } = asking();
  const { runtime, session, store } = await desk(database(), { tools: [tool], answers: ASK });
  session.turn("go", { key: "k" });
  await parked(session);
  await session.close();
  await runtime.resolve(keys[0] ?? "", { ok: "yes" });
  await until(async () => (await store.pending("s" as SessionId)).length === 0);
  expect(await transcript(await runtime.session("s"))).toEqual(TOLD);
});

test("[RV2] a turn that sleeps survives any number of openings and crashes", async () => {
  const path = database();
  const { tool, keys } = asking();
  const answers = { go: [callTool("ask", {}), callTool("ask", {}), say("Done.")] };
  const first = await desk(path, { tools: [tool], answers });
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  for (const _opening of [1, 2, 3, 4, 5]) {
    const { runtime, session } = await desk(path, { tools: [tool], answers });
    await runtime.recover();
    expect((await session.pending())[0]?.status).toBe("parked");
    await runtime.close();
  }
  for (const _crash of [1, 2, 3, 4, 5]) {
    const { session, crash } = await desk(path, { tools: [tool], answers });
    session.turn("go", { key: "k" });
    await parked(session);
    await crash();
  }
  const last = await desk(path, { tools: [tool], answers });
  await last.runtime.resolve(keys[0] ?? "", { ok: 1 });
  await until(() => keys.length === 2);
  await parked(last.session);
  await last.runtime.resolve(keys[1] ?? "", { ok: 2 });
  const { outcome, toolCalls } = await last.session.turn("go", { key: "k" }).result;
  expect(outcome.kind).toBe("finished");
  expect(toolCalls.map(({ output }) => successOf(output))).toEqual([1, 2]);
});

test("[RV2] a turn that is woken in one new process after the other, more often than it may be recovered, is not ended", async () => {
  const path = database();
  const { tool, keys } = asking();
  const rounds = 6;
  const answers = { go: [...Array.from({ length: rounds }, () => callTool("ask", {})), say("Done.")] };
  const first = await desk(path, { tools: [tool], answers });
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  for (let round = 1; round <= rounds; round += 1) {
    const { runtime } = worker(path, { tools: [tool], answers });
    await runtime.resolve(keys.at(-1) ?? "", { ok: round });
    await runtime.recover();
    await runtime.close();
  }
  const { session } = await desk(path, { tools: [tool], answers });
  const { outcome, toolCalls } = await session.turn("go", { key: "k" }).result;
  expect(outcome.kind).toBe("finished");
  expect(toolCalls.map(({ output }) => successOf(output))).toEqual([1, 2, 3, 4, 5, 6]);
});

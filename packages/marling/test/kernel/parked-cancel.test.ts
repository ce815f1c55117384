// A turn that sleeps can be asked to end, from anywhere: what it came to is kept, and every call has a result.

import { defineTool } from "marling";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import type { SessionId, TurnId } from "../../src/model/ids.ts";
import {
  asking,
  database,
  desk,
  expectAnswered,
  parked,
  rejectionOf,
  transcript,
  worker,
} from "./parked-support.ts";

const ran: string[] = [];
const beside = defineTool({
  name: "beside",
  description: "Answers at once.",
  input: { type: "object" },
  execute: (_input, { callId, turnId }) => {
    ran.push(`${turnId} ${callId}`);
    return `beside ${callId}`;
  },
});
const SECOND = callTools(
  [
    ["beside", {}],
    ["ask", {}],
    ["beside", {}],
  ],
  { text: "Let me ask." },
);
const ANSWERS = { go: [callTool("beside", {}), SECOND, say("Done.")] };
const TOLD = [
  "user: go",
  "assistant calls beside call_1",
  "tool call_1: beside call_1",
  "assistant: Let me ask.",
  "assistant calls beside call_2",
  "assistant calls ask call_3",
  "assistant calls beside call_4",
  "tool call_2: beside call_2",
  "tool call_3: [tool cancelled]\nThe turn was cancelled while the call was waiting.",
  "tool call_4: beside call_4",
];

test("[E10] a turn that sleeps is cancelled in its runtime: the transcript stays, and every call has a result", async () => {
  const { tool, keys } = asking();
  const { runtime, session, model } = await desk(database(), { tools: [tool, beside], answers: ANSWERS });
  ran.length = 0;
  const turn = session.turn("go");
  await parked(session);
  expect(await session.cancel(turn.id, "changed my mind")).toBe("requested");
  expect(["already_requested", "completed"]).toContain(await session.cancel(turn.id, "again"));
  const { outcome, toolCalls } = await turn.result;
  expect(outcome).toEqual({
    kind: "stopped",
    reason: "cancelled",
    code: "cancelled",
    message: "changed my mind",
  });
  expect(toolCalls.map(({ output }) => output.outcome)).toEqual([
    { kind: "success", value: "beside call_1" },
    { kind: "success", value: "beside call_2" },
    {
      kind: "cancelled",
      source: "cancellation",
      message: "The turn was cancelled while the call was waiting.",
    },
    { kind: "success", value: "beside call_4" },
  ]);
  expect(await transcript(session)).toEqual(TOLD);
  await expectAnswered(session);
  expect(ran).toEqual(["s:turn:1 call_1", "s:turn:1 call_2", "s:turn:1 call_4"]);
  expect(model.requests).toHaveLength(2);
  expect(await session.cancel(turn.id)).toBe("completed");
  expect(await runtime.resolve(keys[0] ?? "", { ok: 1 })).toBe("already_resolved");
  expect(await session.pending()).toEqual([]);
});

test("[E10] it is cancelled from another runtime on the file, and whoever awaits it is told", async () => {
  const path = database();
  const { tool, keys } = asking();
  const first = await desk(path, { tools: [tool, beside], answers: ANSWERS });
  const turn = first.session.turn("go");
  await parked(first.session);
  const second = await desk(path, { tools: [tool, beside], answers: ANSWERS });
  await parked(second.session);
  expect(await second.session.cancel("s:turn:1", "from elsewhere")).toBe("requested");
  const { outcome } = await turn.result;
  expect(outcome).toMatchObject({ kind: "stopped", reason: "cancelled", message: "from elsewhere" });
  expect(await transcript(first.session)).toEqual(TOLD);
  expect(await first.runtime.resolve(keys[0] ?? "", { ok: 1 })).toBe("already_resolved");
});

test("[E10] it is cancelled while no process has it open, by whoever comes next", async () => {
  const path = database();
  const { tool, keys } = asking();
  const first = await desk(path, { tools: [tool, beside], answers: ANSWERS });
  const turn = first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  expect(await rejectionOf(turn.result)).toMatchObject({ code: "runtime_closed" });
  const other = await desk(path, { session: "another" });
  const request = { sessionId: "s" as SessionId, turnId: "s:turn:1" as TurnId, reason: "nobody was there" };
  expect(await other.store.cancel(request)).toBe("requested");
  await other.runtime.close();
  const second = worker(path, { tools: [tool, beside], answers: ANSWERS });
  expect((await second.runtime.recover()).resumed).toEqual([{ sessionId: "s", turnId: "s:turn:1" }]);
  const session = await second.runtime.session("s");
  expect((await session.turn("go", { key: "k" }).result).outcome).toMatchObject({
    reason: "cancelled",
    message: "nobody was there",
  });
  expect(await transcript(session)).toEqual(TOLD);
  expect(second.model.requests).toEqual([]);
  expect(await second.runtime.resolve(keys[0] ?? "", { ok: 1 })).toBe("already_resolved");
});

test("[E10] it is cancelled by its signal", async () => {
  const { tool } = asking();
  const { session } = await desk(database(), { tools: [tool, beside], answers: ANSWERS });
  const controller = new AbortController();
  const turn = session.turn("go", { signal: controller.signal });
  await parked(session);
  controller.abort(new Error("closed the tab"));
  expect((await turn.result).outcome).toMatchObject({ reason: "cancelled", message: "closed the tab" });
  expect(await transcript(session)).toEqual(TOLD);
});

test("[W1] a value that came before the turn was asked to end is the result of its call; the turn is cancelled all the same", async () => {
  const path = database();
  const { tool, keys } = asking();
  const first = await desk(path, { tools: [tool, beside], answers: ANSWERS });
  first.session.turn("go", { key: "k" });
  await parked(first.session);
  await first.runtime.close();
  const other = await desk(path, { session: "another" });
  const request = { sessionId: "s" as SessionId, turnId: "s:turn:1" as TurnId, reason: "too late" };
  expect(await other.store.cancel(request)).toBe("requested");
  expect(await other.runtime.resolve(keys[0] ?? "", { ok: "yes" })).toBe("resolved");
  await other.runtime.close();
  const { session, model } = await desk(path, { tools: [tool, beside], answers: ANSWERS });
  const { outcome } = await session.turn("go", { key: "k" }).result;
  expect(outcome).toMatchObject({ reason: "cancelled", message: "too late" });
  expect(await transcript(session)).toEqual(TOLD.with(8, "tool call_3: yes"));
  expect(model.requests).toEqual([]);
});

test("[E10] a turn that waits in several calls is cancelled in all of them, and keeps what came to the others", async () => {
  const { tool, keys } = asking();
  const answers = {
    go: [
      callTools([
        ["ask", {}],
        ["ask", {}],
        ["ask", {}],
      ]),
      say("Done."),
    ],
  };
  const { runtime, session } = await desk(database(), { tools: [tool], answers });
  const turn = session.turn("go");
  await parked(session);
  await runtime.resolve(keys[1] ?? "", { ok: "second" });
  await session.cancel(turn.id);
  const { toolCalls } = await turn.result;
  expect(toolCalls.map(({ output }) => output.outcome.kind)).toEqual(["cancelled", "success", "cancelled"]);
  await expectAnswered(session);
  for (const key of keys) expect(await runtime.resolve(key, { ok: 1 })).toBe("already_resolved");
});

test("[E10] a batch that sleeps is cancelled with a result", async () => {
  const { tool } = asking();
  const answers = {
    go: [callTool("batch", { calls: [{ tool: "beside" }, { tool: "ask" }] }), say("Done.")],
  };
  const { session } = await desk(database(), { tools: [tool, beside], answers });
  const turn = session.turn("go");
  await parked(session);
  await session.cancel(turn.id);
  const { outcome, toolCalls } = await turn.result;
  expect(outcome).toMatchObject({ reason: "cancelled" });
  expect(toolCalls).toHaveLength(1);
  await expectAnswered(session);
});

test("[ST35] an input whose turn sleeps cannot be taken back: it is cancelled, not withdrawn", async () => {
  const { tool, keys } = asking();
  const { runtime, session } = await desk(database(), { tools: [tool, beside], answers: ANSWERS });
  const turn = session.turn("go");
  const { inputId } = await turn.accepted;
  await parked(session);
  expect(await session.cancelPending([inputId])).toEqual([{ inputId, status: "already_claimed" }]);
  await runtime.resolve(keys[0] ?? "", { ok: "yes" });
  expect((await turn.result).text).toBe("Done.");
});

test("[E10] wherever a cancel meets a turn that wakes up, nothing that it came to before is lost", async () => {
  const { tool, keys } = asking();
  const { runtime, session } = await desk(database(), { tools: [tool, beside], answers: ANSWERS });
  for (let ticks = 0; ticks < 24; ticks += 1) {
    const turn = session.turn("go");
    await parked(session);
    await runtime.resolve(keys.at(-1) ?? "", { ok: "yes" });
    for (let tick = 0; tick < ticks; tick += 1) await new Promise((resolve) => setImmediate(resolve));
    await session.cancel(turn.id);
    const { toolCalls } = await turn.result;
    expect(toolCalls.map(({ name }) => name)).toEqual(["beside", "beside", "ask", "beside"]);
    await expectAnswered(session);
  }
  expect(keys).toHaveLength(24);
});

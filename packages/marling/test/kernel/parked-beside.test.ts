// What happens to a session beside a turn that sleeps, and what is never told of it.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createRuntime, memoryStore, type TraceRecord, type TurnEvent } from "marling";
import { callTool, callTools, ManualClock, say, scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { SessionId, TurnId } from "../../src/model/ids.ts";
import {
  answering,
  asking,
  database,
  desk,
  parked,
  rejectionOf,
  transcript,
  until,
} from "./parked-support.ts";
import { failureOf, plugin, successOf } from "./tools-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };
const TOLD = ["user: go", "assistant calls ask call_1", "tool call_1: yes", "assistant: Done."];

const note = (text: string) => [{ kind: "message", message: { role: "user", content: text } }] as const;

test("[E16] what is appended while a turn sleeps lands at once, and the turn commits on top of it", async () => {
  const path = database();
  const { tool, keys } = asking();
  const first = await desk(path, { tools: [tool], answers: ASK });
  const turn = first.session.turn("go");
  await parked(first.session);
  expect((await first.session.appendNodes(note("from here"))).status).toBe("appended");
  const second = await desk(path, { tools: [tool], answers: ASK });
  expect((await second.session.appendNodes(note("from there"))).status).toBe("appended");
  expect((await first.session.appendNodes(note("from here again"))).status).toBe("appended");
  const appended = ["user: from here", "user: from there", "user: from here again"];
  expect(await transcript(first.session)).toEqual(appended);
  expect((await first.session.pending())[0]?.status).toBe("parked");
  await first.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  expect((await turn.result).revision).toBe(5);
  const third = await desk(path, { tools: [tool], answers: ASK });
  expect(await transcript(third.session)).toEqual([...appended, ...TOLD]);
});

test("[E16] it lands though another turn waits behind the one that sleeps, in whichever runtime", async () => {
  const path = database();
  const { tool, keys } = asking();
  const first = await desk(path, { tools: [tool], answers: ASK });
  const turn = first.session.turn("go");
  await parked(first.session);
  const next = first.session.turn("next");
  await next.accepted;
  const second = await desk(path, { tools: [tool], answers: ASK });
  expect((await second.session.appendNodes(note("from there"))).status).toBe("appended");
  expect((await first.session.appendNodes(note("from here"))).status).toBe("appended");
  await first.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  await turn.result;
  await next.result;
  const third = await desk(path, { tools: [tool], answers: ASK });
  expect(await transcript(third.session)).toEqual([
    "user: from there",
    "user: from here",
    ...TOLD,
    "user: next",
    "assistant: Answer to next.",
  ]);
});

test("[E16] commands, changes of the policy and compaction wait until the turn that sleeps is over; queries do not", async () => {
  const { tool, keys } = asking();
  const order: string[] = [];
  const notes = plugin("notes", {
    operations: {
      commands: {
        "notes.add": {
          handler: () => {
            order.push("command");
            return { output: "noted" };
          },
        },
      },
      queries: { "notes.read": { handler: () => "seen" } },
    },
    context: {
      compact: {
        compact: () => {
          order.push("compaction");
          return { initialNodes: [{ kind: "message", message: { role: "user", content: "Before: go." } }] };
        },
      },
    },
  });
  const { runtime, session } = await desk(database(), { tools: [tool], answers: ASK, plugins: [notes] });
  const turn = session.turn("go");
  await parked(session);
  const command = session.command("notes.add", {});
  const configured = session.configure({ instructions: "Be brief." }).then(() => order.push("configure"));
  const compacted = session.compact();
  expect(await session.query("notes.read", {})).toBe("seen");
  expect((await session.pending())[0]?.status).toBe("parked");
  expect(order).toEqual([]);
  await runtime.resolve(keys[0] ?? "", { ok: "yes" });
  const { revision } = await turn.result;
  expect(revision).toBe(2);
  expect((await command).output).toBe("noted");
  await configured;
  expect(await compacted).toBe(true);
  expect(order).toEqual(["command", "configure", "compaction"]);
  expect(session.read().messages).toHaveLength(1);
});

test("[TQ5] a command behind a turn that sleeps is done before the session is closed", async () => {
  const path = database();
  const { tool } = asking();
  const notes = plugin("notes", (ctx) => {
    const count = ctx.durable({ version: 1, initial: () => 0 });
    return {
      operations: {
        commands: {
          "notes.add": { handler: () => ({ output: count.update((n) => n + 1) as unknown as number }) },
        },
        queries: { "notes.count": { handler: () => count.get() } },
      },
    };
  });
  const options = { tools: [tool], answers: ASK, plugins: [notes] };
  const first = await desk(path, options);
  first.session.turn("go");
  await parked(first.session);
  const command = first.session.command("notes.add", {});
  await first.runtime.close();
  await command;
  const second = await desk(path, options);
  expect(await second.session.query("notes.count", {})).toBe(1);
  expect((await second.session.pending())[0]?.status).toBe("parked");
});

test("[E10] an input that is to join the active turn joins the one that sleeps, when that wakes up", async () => {
  const { tool, keys } = asking();
  const { runtime, session } = await desk(database(), { tools: [tool], answers: ASK });
  const turn = session.turn("go");
  await parked(session);
  const { inputId } = await session.enqueue("and this");
  expect((await session.pending()).map(({ status }) => status)).toEqual(["parked", "queued"]);
  const events: TurnEvent[] = [];
  const watching = (async () => {
    for await (const event of turn) events.push(event);
  })();
  await runtime.resolve(keys[0] ?? "", { ok: "yes" });
  await turn.result;
  await watching;
  expect(await session.pending()).toEqual([]);
  expect(events.filter(({ kind }) => kind === "input_accepted")).toMatchObject([{ inputIds: [inputId] }]);
  expect((await transcript(session)).filter((line) => line === "user: and this")).toHaveLength(1);
});

test("[E10] a watcher of a turn that slept sees everything once", async () => {
  const { tool, keys } = asking();
  const calls = callTools(
    [
      ["ask", {}],
      ["batch", { calls: [{ tool: "ask" }] }],
    ],
    { text: "Let me ask." },
  );
  const answers = { go: [calls, callTool("ask", {}), say("Done.", { chunks: ["Do", "ne."] })] };
  const { runtime, session } = await desk(database(), { tools: [tool], answers });
  const turn = session.turn("go");
  const events: TurnEvent[] = [];
  const watching = (async () => {
    for await (const event of turn) events.push(event);
  })();
  for (const [index, value] of ["a", "b", "c"].entries()) {
    await until(() => keys.length > index);
    await parked(session);
    await runtime.resolve(keys[index] ?? "", { ok: value });
    await until(async () => (await session.pending())[0]?.status !== "parked" || keys.length > index + 1);
  }
  await turn.result;
  await watching;
  const told = events.map((event) => JSON.stringify(event));
  expect(new Set(told).size).toBe(told.length);
  expect(events.filter(({ kind }) => kind === "waiting")).toHaveLength(3);
  expect(events.filter(({ kind }) => kind === "turn_started")).toHaveLength(1);
  expect(events.flatMap((event) => (event.kind === "text_delta" ? [event.text] : []))).toEqual([
    "Let me ask.",
    "Do",
    "ne.",
  ]);
  const ofCalls = (kind: "tool_started" | "tool_finished") =>
    events.filter((event) => event.kind === kind).length;
  expect([ofCalls("tool_started"), ofCalls("tool_finished")]).toEqual([4, 4]);
});

test("[W2] a key is told to its tool only: it is in no request, trace, record or file", async () => {
  const path = database();
  const { tool, keys } = asking();
  const traces: TraceRecord[] = [];
  const trace = { record: (record: TraceRecord) => void traces.push(record) };
  const { store, runtime, session, model } = await desk(path, { tools: [tool], answers: ASK, trace });
  const turn = session.turn("go");
  const events: TurnEvent[] = [];
  const watching = (async () => {
    for await (const event of turn) events.push(event);
  })();
  await parked(session);
  const key = keys[0] ?? "";
  expect(key).toMatch(/^wait_[A-Za-z0-9_-]{22}$/);
  const said = async (): Promise<string> => {
    const [sessionId, turnId] = ["s" as SessionId, "s:turn:1" as TurnId];
    const told = [
      model.requests,
      traces,
      events,
      await store.journal?.read(sessionId, turnId),
      await store.waits.read(sessionId, turnId),
      await store.pending(sessionId),
      await session.history(),
      session.read(),
    ];
    const folder = dirname(path);
    const files = readdirSync(folder).map((name) => readFileSync(join(folder, name), "latin1"));
    return JSON.stringify(told) + files.join("");
  };
  const asleep = await said();
  expect(asleep).toContain("call_1");
  expect(asleep).not.toContain(key.slice("wait_".length));
  await runtime.resolve(key, { ok: "yes" });
  const report = await turn.result;
  await watching;
  expect((await said()) + JSON.stringify(report)).not.toContain(key.slice("wait_".length));
});

test("[CO4] without a journal a turn waits in memory, and behaves the same", async () => {
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
  const runtime = createRuntime({
    model: scriptedModel(answering(answers)),
    store: memoryStore(),
    tools: [tool],
  });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const turn = session.turn("go");
  await until(() => keys.length === 2);
  await parked(session);
  const rejecting = session.turn("now", { onParked: "reject" });
  expect(await rejectionOf(rejecting.accepted)).toMatchObject({ code: "turn_parked" });
  expect(await runtime.resolve(keys[0] ?? "", { ok: { n: 1 } })).toBe("resolved");
  expect(await runtime.resolve(keys[0] ?? "", { ok: { n: 2 } })).toBe("already_resolved");
  expect(await runtime.resolve(keys[1] ?? "", { ok: { n: "two" } })).toBe("resolved");
  const { toolCalls, text } = await turn.result;
  expect(successOf(toolCalls[0]?.output)).toEqual({ n: 1 });
  expect(failureOf(toolCalls[1]?.output).code).toBe("invalid_tool_output");
  expect(text).toBe("Done.");
  expect((await session.turn("now", { onParked: "reject" }).result).text).toBe("Answer to now.");
});

test("[CO4] without a journal deadlines and cancellation end a wait in memory, and closing waits for it", async () => {
  const clock = new ManualClock({ startsAt: 1_000_000 });
  const { tool, keys } = asking({ deadlineMs: 2_000 });
  const runtime = createRuntime({ model: scriptedModel(answering(ASK)), tools: [tool], clock });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const cancelled = session.turn("go");
  await until(() => keys.length === 1);
  expect(await session.cancel("s:turn:1")).toBe("requested");
  expect((await cancelled.result).outcome).toMatchObject({ reason: "cancelled" });
  expect(await runtime.resolve(keys[0] ?? "", { ok: 1 })).toBe("already_resolved");
  const turn = session.turn("go");
  const events: string[] = [];
  const watching = (async () => {
    for await (const event of turn) events.push(event.kind);
  })();
  await until(() => events.includes("waiting") && clock.pending > 0);
  const closed = runtime.close();
  clock.advance(2_000);
  expect(failureOf((await turn.result).toolCalls[0]?.output).code).toBe("tool_completion_timeout");
  await closed;
  await watching;
});

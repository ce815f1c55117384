// What the trace is told of turns that sleep, are taken up again or start others, and what it is told only on request.
// trace/SPEC.md, TC10-TC15.

import { createRuntime, defineTool, type RuntimeOptions } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { subagents } from "../../src/stock/subagents/subagents.ts";
import { database, gate, gatedStep, live, mortal, quickTool, unattended } from "../kernel/durable-support.ts";
import { plugin } from "../kernel/hooks-support.ts";
import { keptTrace, ofKind } from "./trace-support.ts";

describe("content", () => {
  const secret = "swordfish";
  const talk = async (options: { readonly wantsContent: boolean }): Promise<string> => {
    const trace = keptTrace(options);
    const tell = defineTool({
      name: "tell",
      description: "Tells.",
      input: z.object({ what: z.string() }),
      execute: () => `result ${secret}`,
    });
    const runtime = createRuntime({
      trace,
      tools: [tell],
      instructions: `instruction ${secret}`,
      model: scriptedModel([callTool("tell", { what: `argument ${secret}` }), say(`answer ${secret}`)]),
      plugins: [
        plugin("headers", { model: { request: () => ({ headers: { authorization: "sesame" } }) } }),
        plugin("broken", {
          session: {
            onEvent: () => {
              throw new Error("listener");
            },
          },
        }),
      ],
    });
    onTestFinished(() => runtime.close());
    await (await runtime.session("s")).turn(`input ${secret}`).result;
    return JSON.stringify(trace.records.filter(({ kind }) => kind !== "custom"));
  };

  test("[TC10] no text, argument or result is in any record unless the sink wants content", async () => {
    const told = await talk({ wantsContent: false });
    expect(told).not.toContain(secret);
    expect(told).not.toContain("content");
  });

  test("[TC10] a sink that wants content is told what was asked, called and answered, and no value of a header", async () => {
    const told = await talk({ wantsContent: true });
    for (const what of ["input", "instruction", "argument", "result", "answer"])
      expect(told).toContain(`${what} ${secret}`);
    expect(told).not.toContain("sesame");
  });
});

test("[TC10] records of a tenant say whose they are, and a sink that wants content is told it there too", async () => {
  const trace = keptTrace({ wantsContent: true });
  const runtime = createRuntime({ trace, model: scriptedModel([say("Hi.")]) });
  onTestFinished(() => runtime.close());
  await (await runtime.scope("acme").session("s")).turn("Hello").result;
  expect(new Set(trace.records.map(({ tenant }) => tenant))).toEqual(new Set(["acme"]));
  expect(ofKind(trace, "turn")[0]?.payload.content).toEqual({ text: "Hi." });
});

describe("turns that go on", () => {
  test("[TC11] a turn that sleeps is told as parked; its next run marks what the journal answered", async () => {
    const trace = keptTrace();
    let key = "";
    const ask = defineTool({
      name: "ask",
      description: "Asks somebody.",
      input: z.object({}),
      execute: async (_input, ctx) => {
        key = await ctx.completionKey();
        return ctx.pending();
      },
    });
    const { runtime, session } = await live({
      store: sqliteStore({ path: database() }),
      trace,
      tools: [ask, quickTool("quick")],
      script: [callTool("quick"), callTool("ask"), say("Done.")],
    });
    const { result } = session.turn("Go", { id: "t" });
    await expect.poll(() => ofKind(trace, "turn").length).toBe(1);
    await runtime.resolve(key, { ok: "yes" });
    await result;
    const [asleep, ended] = ofKind(trace, "turn").map(({ payload }) => payload);
    expect(asleep).toMatchObject({ outcome: { kind: "parked", waits: [{ name: "call_2" }] }, replays: 0 });
    expect(ended).toMatchObject({ outcome: { kind: "finished" }, rounds: 3 });
    expect(ended?.replays).toBeGreaterThan(3);
    expect(ofKind(trace, "model_call").map(({ payload }) => payload.replayed)).toEqual([
      false,
      false,
      true,
      true,
      false,
    ]);
    expect(ofKind(trace, "tool_attempt").map(({ payload }) => [payload.name, payload.replayed])).toEqual([
      ["quick", false],
      ["ask", false],
      ["quick", true],
      ["ask", true],
    ]);
    expect(ofKind(trace, "model_attempt")).toHaveLength(3);
    const waits = ofKind(trace, "effect").filter(({ payload }) => payload.effect === "wait");
    expect(waits.map(({ payload }) => payload.outcome)).toEqual(["parked", "done"]);
    expect(JSON.stringify(trace.records)).not.toContain(key);
  });

  test("[TC12] a turn of a process that died is told as recovered, with the number of the try and the attempt that was cut", async () => {
    const path = database();
    const at = gate();
    const never = defineTool({
      name: "never",
      description: "Never ends.",
      input: z.object({}),
      execute: () => at.pass().then(() => "too late"),
    });
    const before = await mortal({
      store: sqliteStore({ path }),
      tools: [never],
      script: [callTool("never")],
    });
    before.session.turn("Go", { key: "k" });
    await at.begun;
    await before.die();
    const trace = keptTrace();
    const { runtime } = unattended({
      store: sqliteStore({ path }),
      tools: [never],
      trace,
      script: [say("Well.")],
    });
    await runtime.recover();
    expect(ofKind(trace, "turn_started")).toMatchObject([{ payload: { isRecovery: true } }]);
    expect(ofKind(trace, "recovery")).toMatchObject([{ payload: { kind: "resumed", attempt: 1 } }]);
    expect(ofKind(trace, "tool_attempt")).toMatchObject([
      { payload: { isCut: true, replayed: false, outcome: { kind: "failure", code: "unknown_outcome" } } },
    ]);
  });

  test("[TC12] a session that nobody here can open is told once, by its code", async () => {
    const path = database();
    const at = gate();
    const special = { special: scriptedModel([gatedStep(at, say("never said"))]) };
    const before = await mortal({ store: sqliteStore({ path }), models: special });
    (await before.runtime.session("s", { model: "special" })).turn("go", { key: "k" });
    await at.begun;
    await before.die();
    const trace = keptTrace();
    const { runtime } = unattended({ store: sqliteStore({ path }), trace });
    await runtime.recover();
    await runtime.recover();
    expect(ofKind(trace, "recovery")).toMatchObject([
      { sessionId: "s", payload: { kind: "skipped", code: "needs_binding" } },
    ]);
  });

  test("[TC13] a turn of a session below is part of the call that started it", async () => {
    const trace = keptTrace();
    const options: RuntimeOptions = {
      trace,
      plugins: [subagents()],
      model: scriptedModel([callTool("spawn", { task: "Look" }), say("Seen."), say("Done.")]),
    };
    const runtime = createRuntime(options);
    onTestFinished(() => runtime.close());
    await (await runtime.session("s")).turn("Go").result;
    const [parent, child] = ofKind(trace, "turn_started");
    const [call] = ofKind(trace, "tool_call");
    expect(parent?.parentId).toBeUndefined();
    expect(child?.parentId).toBe(call?.spanId);
    const childSessionId = child?.sessionId;
    expect(ofKind(trace, "session_created")).toMatchObject([{ sessionId: "s", payload: { childSessionId } }]);
    expect(ofKind(trace, "child_turn")).toMatchObject([
      { sessionId: "s", parentId: call?.spanId, payload: { childSessionId, childTurnId: child?.turnId } },
    ]);
  });

  test("[TC14] a model call that a tool makes for itself is below the tool, with its source", async () => {
    const trace = keptTrace();
    const think = defineTool({
      name: "think",
      description: "Asks a model.",
      input: z.object({}),
      execute: async (_input, ctx) => (await ctx.directCompletion({ messages: "Why?" })).text,
    });
    const runtime = createRuntime({
      trace,
      tools: [think],
      model: scriptedModel([callTool("think"), say("Because.", { usage: { output: 5 } }), say("Done.")]),
    });
    onTestFinished(() => runtime.close());
    await (await runtime.session("s")).turn("Go").result;
    const [call] = ofKind(trace, "tool_call");
    const [direct] = ofKind(trace, "model_call").filter(({ payload }) => payload.source !== undefined);
    expect(direct).toMatchObject({
      parentId: call?.spanId,
      payload: { source: "think", usage: { output: 5 }, attempts: 1 },
    });
    expect(ofKind(trace, "model_attempt").filter(({ parentId }) => parentId === direct?.spanId)).toHaveLength(
      1,
    );
  });

  test("[TC15] a turn that ends badly says why, and a call that failed says how", async () => {
    const trace = keptTrace();
    const runtime = createRuntime({
      trace,
      model: scriptedModel([failWith({ kind: "auth", retryable: false })]),
    });
    onTestFinished(() => runtime.close());
    await (await runtime.session("s")).turn("Go").result;
    expect(ofKind(trace, "model_call")).toMatchObject([
      { payload: { outcome: "failed", failure: { kind: "auth" } } },
    ]);
    expect(ofKind(trace, "turn")).toMatchObject([
      { payload: { outcome: { kind: "stopped", reason: "provider_error" } } },
    ]);
  });
});

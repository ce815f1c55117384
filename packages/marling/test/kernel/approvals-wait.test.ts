// Calls that somebody has to allow: how they wait, who may decide, and what a decision is good for.

import type { ApprovalQuestion, Json, Plugin } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { JournalRecord } from "../../src/model/journal.ts";
import type { CallStore } from "../../src/testing/faulty-store.ts";
import { asks, naming, policy, question, questions } from "./approvals-support.ts";
import { echoTool } from "./approvals-tools.ts";
import {
  BACKINGS,
  database,
  type LifeOptions,
  live,
  mortal,
  movingTool,
  unattended,
} from "./durable-support.ts";
import { asking, parked } from "./parked-support.ts";
import { answering } from "./services-support.ts";
import { failureOf, outputsOf, play, rejectionOf, TestClock, until } from "./tools-support.ts";

const SCRIPT = answering({
  Go: [callTool("echo", { text: "x" }), say("Done.")],
  Both: [
    callTools([
      ["echo", { text: "a" }],
      ["echo", { text: "b" }],
      ["other", { text: "c" }],
    ]),
    say("Done."),
  ],
  Batch: [
    callTool("batch", {
      calls: [
        { tool: "echo", args: { text: "a" } },
        { tool: "other", args: { text: "b" } },
      ],
    }),
    say("Done."),
  ],
});
const ADA = { actor: "ada" } as const;

function options(ran: string[], plugins: readonly Plugin[] = [asks]): Omit<LifeOptions, "store"> {
  return { plugins, tools: ["echo", "other"].map((name) => echoTool(name, ran)), script: SCRIPT };
}

describe.each(BACKINGS)("on $name", ({ open, name }) => {
  test("[AP4] a call that is asked about waits, is listed, and runs when it was allowed", async () => {
    const ran: string[] = [];
    const { session, runtime } = await live({ store: open()(), ...options(ran) });
    const turn = session.turn("Go", { id: "t" });
    const asked = await question(runtime);
    expect(asked).toEqual({
      sessionId: "s",
      turnId: "t",
      callId: "call_1",
      toolName: "echo",
      args: { text: "x" },
      pluginId: "asks",
      reason: "It is important.",
      askedAt: expect.any(Number),
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    if (name === "sqlite") await parked(session);
    expect(ran).toEqual([]);
    expect(await runtime.approvals.decide(asked, { decision: "allow", ...ADA })).toBe("decided");
    const { report, events } = await play(turn);
    expect(ran).toEqual(["x"]);
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(report.toolCalls[0]?.output.outcome).toEqual({ kind: "success", value: "echo x" });
    expect(events).toContainEqual({ kind: "waiting", callId: "call_1", name: "echo" });
    expect(await runtime.approvals.list()).toEqual([]);
  });

  test("[AP3] a call that was denied does not run, the model is told why, and the report has it", async () => {
    const ran: string[] = [];
    const { session, runtime } = await live({ store: open()(), ...options(ran) });
    const turn = session.turn("Go");
    const verdict = { decision: "deny", reason: "Not today.", ...ADA } as const;
    expect(await runtime.approvals.decide(await question(runtime), verdict)).toBe("decided");
    const { toolCalls, outcome } = await turn.result;
    expect(ran).toEqual([]);
    expect(outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(toolCalls.map(({ output }) => failureOf(output))).toEqual([
      expect.objectContaining({ code: "approval_denied", message: "Not today." }),
    ]);
  });

  test("[AP3] the first decision counts; later ones, and ones about nothing, are told so", async () => {
    const ran: string[] = [];
    const { session, runtime } = await live({ store: open()(), ...options(ran) });
    const turn = session.turn("Go");
    const asked = await question(runtime);
    const decisions = await Promise.all(
      (["deny", "allow", "allow"] as const).map((decision) =>
        runtime.approvals.decide(asked, { decision, ...ADA }),
      ),
    );
    expect(decisions).toEqual(["decided", "already_decided", "already_decided"]);
    expect(await runtime.approvals.decide({ digest: "0".repeat(64) }, { decision: "allow", ...ADA })).toBe(
      "unknown",
    );
    const { toolCalls } = await turn.result;
    expect(failureOf(toolCalls[0]?.output).code).toBe("approval_denied");
    expect(ran).toEqual([]);
  });

  test("[AP2] who has what a question shows cannot answer it as the result of a call", async () => {
    const ran: string[] = [];
    const { session, runtime } = await live({ store: open()(), ...options(ran) });
    const turn = session.turn("Go");
    const asked = await question(runtime);
    const ok = { ok: { decision: "allow", actor: "mallory", at: 0 } };
    for (const key of [asked.digest, asked.callId, `approval:${asked.callId}`, "wait_x", ""])
      expect([key, await runtime.resolve(key, ok)]).toEqual([key, "unknown"]);
    await runtime.approvals.decide(asked, { decision: "deny", ...ADA });
    await turn.result;
    expect(ran).toEqual([]);
  });

  test("[AP2] a completion of another call that is named like an approval decides nothing", async () => {
    const { tool, keys } = asking({ name: "later" });
    const ran: string[] = [];
    const pickyOnEcho = policy("picky", ({ toolName }) => ({
      decision: toolName === "echo" ? "ask" : "allow",
    }));
    const { session, runtime } = await live({
      store: open()(),
      model: naming([["approval:x", "later", {}]], [["x", "echo", { text: "secret" }]]),
      plugins: [pickyOnEcho],
      tools: [tool as never, echoTool("echo", ran)],
    });
    const turn = session.turn("Go");
    await until(() => keys.length > 0);
    const ok = { decision: "allow", actor: "mallory", at: 0 };
    expect(await runtime.resolve(keys[0] ?? "", { ok })).toBe("resolved");
    const { toolCalls } = await turn.result;
    expect(failureOf(toolCalls[1]?.output).code).toBe("approval_stale");
    expect(ran).toEqual([]);
  });

  test("[AP4] several calls of one response wait beside each other and are decided one by one", async () => {
    const ran: string[] = [];
    const plugins = [
      policy("most", ({ toolName }) => ({ decision: toolName === "other" ? "allow" : "ask" })),
    ];
    const { session, runtime } = await live({ store: open()(), ...options(ran, plugins) });
    const turn = session.turn("Both");
    const [a, b] = await questions(runtime, 2);
    expect([a?.args, b?.args]).toEqual([{ text: "a" }, { text: "b" }]);
    await until(() => ran.length === 1);
    expect(ran).toEqual(["c"]);
    await runtime.approvals.decide(b as never, { decision: "allow", ...ADA });
    expect((await questions(runtime, 1)).map(({ callId }) => callId)).toEqual(["call_1"]);
    await runtime.approvals.decide(a as never, { decision: "deny", ...ADA });
    const { toolCalls } = await turn.result;
    expect(toolCalls.map(({ output }) => output.outcome.kind)).toEqual(["failure", "success", "success"]);
    expect([...ran].sort()).toEqual(["b", "c"]);
  });

  test("[AP4] calls inside a batch wait as well", async () => {
    const ran: string[] = [];
    const plugins = [
      policy("inner", ({ toolName }) => ({ decision: toolName === "batch" ? "allow" : "ask" })),
    ];
    const { session, runtime } = await live({ store: open()(), ...options(ran, plugins) });
    const turn = session.turn("Batch");
    const both = await questions(runtime, 2);
    if (name === "sqlite") await parked(session);
    for (const asked of both) await runtime.approvals.decide(asked, { decision: "allow", ...ADA });
    const result = await play(turn);
    expect([...ran].sort()).toEqual(["a", "b"]);
    expect(outputsOf(result, "echo").at(-1)?.outcome.kind).toBe("success");
  });

  test("[AP3] a turn that is cancelled while it asks ends, and a decision that comes then is too late", async () => {
    const ran: string[] = [];
    const { session, runtime } = await live({ store: open()(), ...options(ran) });
    const turn = session.turn("Go", { id: "t" });
    const asked = await question(runtime);
    if (name === "sqlite") await parked(session);
    await session.cancel("t", "enough");
    const { outcome, toolCalls } = await turn.result;
    expect(outcome).toMatchObject({ kind: "stopped", reason: "cancelled" });
    expect(toolCalls.map(({ output }) => output.outcome.kind)).not.toContain("success");
    expect(["already_decided", "unknown"]).toContain(
      await runtime.approvals.decide(asked, { decision: "allow", ...ADA }),
    );
    expect(ran).toEqual([]);
    expect(await runtime.approvals.list()).toEqual([]);
  });

  test("[AP3] a question that nobody answers in time is denied", async () => {
    const ran: string[] = [];
    const clock = new TestClock();
    const plugins = [policy("hasty", () => ({ decision: "ask", expiresMs: 2000 }))];
    const { session, runtime } = await live({ store: open()(), clock, ...options(ran, plugins) });
    const turn = session.turn("Go");
    const asked = await question(runtime);
    expect(asked.expiresAt).toBe(asked.askedAt + 2000);
    if (name === "sqlite") await parked(session);
    await settled();
    clock.advance(2000);
    const { toolCalls } = await turn.result;
    expect(failureOf(toolCalls[0]?.output).code).toBe("approval_expired");
    expect(ran).toEqual([]);
    expect(["already_decided", "unknown"]).toContain(
      await runtime.approvals.decide(asked, { decision: "allow", ...ADA }),
    );
  });

  test("[AP4] questions are listed for all sessions or for one", async () => {
    const ran: string[] = [];
    const { session, runtime } = await live({ store: open()(), ...options(ran) });
    const second = await runtime.session("s2");
    const turns = [session.turn("Go"), second.turn("Go")];
    const both = await questions(runtime, 2);
    expect(both.map(({ sessionId }) => sessionId).sort()).toEqual(["s", "s2"]);
    expect((await runtime.approvals.list({ sessionId: "s2" })).map(({ sessionId }) => sessionId)).toEqual([
      "s2",
    ]);
    expect(await runtime.approvals.list({ sessionId: "nobody" })).toEqual([]);
    expect(new Set(both.map(({ digest }) => digest)).size).toBe(2);
    for (const asked of both) await runtime.approvals.decide(asked, { decision: "allow", ...ADA });
    await Promise.all(turns.map(({ result }) => result));
    expect(ran).toEqual(["x", "x"]);
  });

  test("[AP2] the same call in another turn is asked about again", async () => {
    const ran: string[] = [];
    const { session, runtime } = await live({ store: open()(), ...options(ran) });
    const digests: string[] = [];
    for (const _turn of [1, 2]) {
      const turn = session.turn("Go");
      const asked = await question(runtime);
      digests.push(asked.digest);
      await runtime.approvals.decide(asked, { decision: "allow", ...ADA });
      await turn.result;
    }
    expect(new Set(digests).size).toBe(2);
    expect(ran).toEqual(["x", "x"]);
  });

  test("[AP4] after a switch of frames calls are asked about, listed and decided as before it", async () => {
    const ran: string[] = [];
    const onlyEcho = policy("only", ({ toolName }) => ({ decision: toolName === "echo" ? "ask" : "allow" }));
    const { session, runtime } = await live({
      store: open()(),
      plugins: [onlyEcho],
      tools: [movingTool(), echoTool("echo", ran)],
      script: answering({
        Go: [callTool("move")],
        "Go on there.": [callTool("echo", { text: "there" }), say("Done.")],
      }),
    });
    const turn = session.turn("Go", { id: "t" });
    const asked = await question(runtime);
    expect(asked).toMatchObject({ turnId: "t", args: { text: "there" } });
    if (name === "sqlite") await parked(session);
    await runtime.approvals.decide(asked, { decision: "allow", ...ADA });
    expect((await turn.result).outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(ran).toEqual(["there"]);
  });

  test.each([
    ["no decision", { decision: "maybe", actor: "ada" }],
    ["nobody", { decision: "allow", actor: " " }],
  ])("[AP3] a verdict that has %s is refused", async (_what, verdict) => {
    const { runtime } = await live({ store: open()(), ...options([]) });
    const error = await rejectionOf(runtime.approvals.decide({ digest: "x" }, verdict as never));
    expect(error.code).toBe("invalid_input");
  });
});

describe("over restarts and between runtimes", () => {
  test("[AP4] a question outlives the process that asked, and is decided where nobody has the session open", async () => {
    const path = database();
    const ran: string[] = [];
    const first = await mortal({ store: sqliteStore({ path }), ...options(ran) });
    first.session.turn("Go", { id: "t" });
    const asked = await question(first.runtime);
    await parked(first.session);
    await first.die();
    const { runtime, model } = unattended({ store: sqliteStore({ path }), ...options(ran) });
    expect(await question(runtime)).toEqual(asked);
    expect(await runtime.approvals.decide(asked, { decision: "allow", ...ADA })).toBe("decided");
    const report = await (await runtime.session("s")).turn("Go", { id: "t" }).result;
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(ran).toEqual(["x"]);
    expect(model.requests).toHaveLength(1);
  });

  test("[AP4] a decision of another runtime wakes the turn", async () => {
    const path = database();
    const ran: string[] = [];
    const { session, runtime } = await live({ store: sqliteStore({ path }), ...options(ran) });
    const turn = session.turn("Go", { id: "t" });
    const asked = await question(runtime);
    await parked(session);
    const other = unattended({ store: sqliteStore({ path }), ...options(ran) });
    expect(await other.runtime.approvals.list()).toEqual([asked]);
    expect(await other.runtime.approvals.decide(asked, { decision: "allow", ...ADA })).toBe("decided");
    expect(await runtime.approvals.decide(asked, { decision: "deny", ...ADA })).toBe("already_decided");
    expect((await turn.result).outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(ran).toEqual(["x"]);
  });

  test("[AP3] a decision that was given after the question expired does not count, whoever was there", async () => {
    const path = database();
    const ran: string[] = [];
    const clock = new TestClock();
    const plugins = [policy("hasty", () => ({ decision: "ask", expiresMs: 60_000 }))];
    const first = await mortal({ store: sqliteStore({ path }), clock, ...options(ran, plugins) });
    first.session.turn("Go", { id: "t" });
    const asked = await question(first.runtime);
    await parked(first.session);
    await first.die();
    clock.advance(60_000);
    await decideBetween(path, asked, clock.now());
    const { session } = await live({ store: sqliteStore({ path }), clock, ...options(ran, plugins) });
    const { toolCalls } = await session.turn("Go", { id: "t" }).result;
    expect(failureOf(toolCalls[0]?.output).code).toBe("approval_expired");
    expect(ran).toEqual([]);
  });

  test("[AP2] a tool that became another one meanwhile does not run by an old decision", async () => {
    const path = database();
    const ran: string[] = [];
    const first = await mortal({ store: sqliteStore({ path }), ...options(ran) });
    first.session.turn("Go", { id: "t" });
    const asked = await question(first.runtime);
    await parked(first.session);
    await first.die();
    await decideBetween(path, asked, Date.now());
    const changed = echoTool("echo", ran, { force: { type: "boolean" } });
    const { session } = await live({
      store: sqliteStore({ path }),
      ...options(ran),
      tools: [changed, echoTool("other", ran)],
    });
    const { toolCalls, outcome } = await session.turn("Go", { id: "t" }).result;
    expect(failureOf(toolCalls[0]?.output).code).toBe("approval_stale");
    expect(outcome).toMatchObject({ kind: "finished", text: "Done." });
    expect(ran).toEqual([]);
  });

  test("[AP2] arguments that became others meanwhile do not run by an old decision", async () => {
    const path = database();
    const ran: string[] = [];
    const first = await mortal({ store: sqliteStore({ path }), ...options(ran) });
    first.session.turn("Go", { id: "t" });
    const asked = await question(first.runtime);
    await parked(first.session);
    await first.die();
    await decideBetween(path, asked, Date.now());
    const { session } = await live({ store: sqliteStore({ path }), ...options(ran), around: otherArguments });
    const { toolCalls } = await session.turn("Go", { id: "t" }).result;
    expect(failureOf(toolCalls[0]?.output).code).toBe("approval_stale");
    expect(ran).toEqual([]);
  });

  test("[AP4] a question that was decided is not shown because its id is the end of another one's", async () => {
    const ran: string[] = [];
    const numbers = Array.from({ length: 11 }, (_none, index) => `${index + 1}`);
    const { session, runtime } = await live({
      store: sqliteStore({ path: database() }),
      ...options(ran),
      model: naming(numbers.map((text) => [text, "echo", { text }])),
    });
    const turn = session.turn("Go");
    const all = await questions(runtime, 11);
    const one = all.find(({ callId }) => callId === "1");
    await runtime.approvals.decide(one as never, { decision: "allow", ...ADA });
    expect((await questions(runtime, 10)).map(({ callId }) => callId)).not.toContain("1");
    for (const asked of await runtime.approvals.list())
      await runtime.approvals.decide(asked, { decision: "deny", ...ADA });
    await turn.result;
    expect(ran).toEqual(["1"]);
  });
});

/** A store that remembers other arguments of the call than those that the question showed. */
const otherArguments: CallStore = async (method, call) => {
  const answer = await call();
  if (method !== "journal.read") return answer;
  const rows = answer as readonly JournalRecord[];
  const changed = rows.map((row): JournalRecord => {
    if (row.key !== "0.model_call") return row;
    const text = JSON.stringify(row.outcome).replace(String.raw`\"x\"`, String.raw`\"other\"`);
    return { ...row, outcome: JSON.parse(text) as Json };
  });
  return changed as typeof answer;
};

/** Allows a call as `runtime.approvals` does it, while no runtime is there. */
async function decideBetween(path: string, { digest }: ApprovalQuestion, at: number): Promise<void> {
  const store = sqliteStore({ path });
  const ok = { decision: "allow", at, ...ADA };
  expect(await store.waits.resolve(digest, "approval", { ok })).toMatchObject({ status: "resolved" });
  await store.close();
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

// What a session may use, with those below it: counted while it is used, narrowed for children, and the end of a turn.

import type { Plugin } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { HostServices } from "../../src/plugin/host-services.ts";
import {
  BACKINGS,
  database,
  gate,
  gatedStep,
  type Life,
  live,
  mortal,
  quickTool,
} from "./durable-support.ts";
import { asking, parked } from "./parked-support.ts";
import { act, acting, answering, codeOf, hostTool, ledger } from "./services-support.ts";
import { rejectionOf } from "./tools-support.ts";

const tokens = (input: number) => ({ usage: { input, output: 0 } });

/** Makes a session below one, with a budget if it has one. */
const creating: Plugin = acting({
  "do.create": (host, request) => host.createSession(request as object),
});

const outcomeOf = (life: Life, id: string, input: string) =>
  life.runtime.session(id).then(async (session) => (await session.turn(input).result).outcome);

/** A tool that gives tasks to sessions below, one after the other or at once. */
const spread = hostTool("spread", async (host: HostServices, args) => {
  const { tasks, budget, atOnce } = args as {
    readonly tasks: readonly string[];
    readonly budget?: number;
    readonly atOnce?: boolean;
  };
  const one = async (task: string): Promise<string> => {
    const request = budget === undefined ? {} : { budget: { tokens: budget } };
    const { sessionId } = await host.createSession(request);
    const { outcome } = await host.startTurn(sessionId, task, { key: sessionId });
    return outcome.kind === "finished" ? outcome.text : `${outcome.code}`;
  };
  if (atOnce === true) return (await Promise.all(tasks.map(one))) as never;
  const done: string[] = [];
  for (const task of tasks) done.push(await one(task));
  return done as never;
});

const ANSWERS = {
  Long: [callTool("quick", {}, tokens(40)), callTool("quick", {}, tokens(40)), say("Long done.", tokens(40))],
  Short: [say("Short done.", tokens(30))],
};

describe.each(BACKINGS)("on $name", ({ open }) => {
  const start = (answers: Parameters<typeof answering>[0] = {}): Promise<Life> =>
    live({
      store: open()(),
      plugins: [creating],
      tools: [quickTool("quick"), spread],
      script: answering({ ...ANSWERS, ...answers }),
    });

  test("[AU4] a turn of a session that has used what it may ends before its next model call", async () => {
    const life = await start();
    await act(life.session, "do.create", { sessionId: "c", budget: { tokens: 80 } });
    expect(await outcomeOf(life, "c", "Long")).toEqual({
      kind: "stopped",
      reason: "incomplete",
      code: "budget_exhausted",
      message: "session c: expected at most 80 tokens, found 80 used",
    });
    const child = await life.runtime.session("c");
    expect(ledger(child)).toEqual(["child default 80+0"]);
    expect(child.read().messages.map(({ role }) => role)).toEqual([
      "user",
      "assistant",
      "tool",
      "assistant",
      "tool",
    ]);
    expect(await outcomeOf(life, "c", "Short")).toMatchObject({ code: "budget_exhausted" });
    expect(life.model.requests).toHaveLength(2);
    await child.close();
    expect(await outcomeOf(life, "c", "Short")).toMatchObject({ code: "budget_exhausted" });
    expect(life.model.requests).toHaveLength(2);
  });

  test("[AU4] without anything to use nothing is asked, and enough is enough", async () => {
    const life = await start();
    await act(life.session, "do.create", { sessionId: "none", budget: { tokens: 0 } });
    await act(life.session, "do.create", { sessionId: "enough", budget: { tokens: 81 } });
    expect(await outcomeOf(life, "none", "Short")).toMatchObject({ code: "budget_exhausted" });
    expect(life.model.requests).toEqual([]);
    expect(await outcomeOf(life, "enough", "Long")).toMatchObject({ kind: "finished" });
  });

  test.each([
    ["more", 1000],
    ["nothing", undefined],
  ])("[AU4] a grandchild that asks for %s has no more than its grandparent", async (_what, wanted) => {
    const life = await start({
      Middle: [callTool("spread", { tasks: ["Long"], ...(wanted === undefined ? {} : { budget: wanted }) })],
    });
    await act(life.session, "do.create", { sessionId: "c", budget: { tokens: 70 } });
    const report = await (await life.runtime.session("c")).turn("Middle").result;
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({ value: ["budget_exhausted"] });
    const inherited = (await life.runtime.sessions.list({ prefix: "c:" })).items.map(({ id }) => id);
    expect(inherited).toHaveLength(1);
    const frame = (await life.runtime.session(inherited[0] ?? "")).read().frames[0];
    expect(frame?.assignment.authority.budget).toEqual({ tokens: 70 });
  });

  test("[AU4] a child that asks for less has less, and whoever gave it goes on when it is used up", async () => {
    const life = await start({
      Middle: [callTool("spread", { tasks: ["Long"], budget: 30 }), say("Going on.", tokens(10))],
    });
    await act(life.session, "do.create", { sessionId: "c", budget: { tokens: 1000 } });
    const report = await (await life.runtime.session("c")).turn("Middle").result;
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({ value: ["budget_exhausted"] });
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Going on." });
  });

  test("[SP1] children share what is left of their parent's, one after the other", async () => {
    const life = await start({
      Middle: [callTool("spread", { tasks: ["Short", "Long", "Short"] }, tokens(10)), say("Never.")],
    });
    await act(life.session, "do.create", { sessionId: "c", budget: { tokens: 100 } });
    const child = await life.runtime.session("c");
    const report = await child.turn("Middle").result;
    // 10 + 30, then 40 + 40 of the second, which is cut; the third has nothing left, and neither has the parent.
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({
      value: ["Short done.", "budget_exhausted", "budget_exhausted"],
    });
    expect(report.outcome).toMatchObject({ kind: "stopped", code: "budget_exhausted" });
    expect(ledger(child)).toEqual(["child default 120+0"]);
    expect(life.model.requests).toHaveLength(4);
  });

  test("[SP1] children that run at once stop when together they used it up", async () => {
    const life = await start({
      Middle: [callTool("spread", { tasks: ["Long", "Long", "Long", "Long"], atOnce: true }), say("Never.")],
    });
    await act(life.session, "do.create", { sessionId: "c", budget: { tokens: 200 } });
    const child = await life.runtime.session("c");
    const report = await child.turn("Middle").result;
    expect(report.outcome).toMatchObject({ kind: "stopped", code: "budget_exhausted" });
    const used = child.usage().entries.reduce((sum, { usage }) => sum + usage.input, 0);
    // Without sharing it would be 480. Calls that were on their way when the last token went are still paid for.
    expect(used).toBeGreaterThanOrEqual(200);
    expect(used).toBeLessThanOrEqual(320);
    expect(used).toBe((life.model.requests.length - 1) * 40);
  });

  test("[DC4] model calls of tools count, and are refused when nothing is left", async () => {
    const ask = hostTool("ask", async (host) => {
      const first = await codeOf(
        host.directCompletion({ messages: "Short" }, "tool").then(({ text }) => text),
      );
      const second = await rejectionOf(host.directCompletion({ messages: "Short" }, "tool"));
      return [first, second.code, second.details.code] as never;
    });
    const life = await live({
      store: open()(),
      plugins: [creating],
      tools: [ask],
      script: answering({ ...ANSWERS, Go: [callTool("ask", {}, tokens(10)), say("Never.")] }),
    });
    await act(life.session, "do.create", { sessionId: "c", budget: { tokens: 40 } });
    const child = await life.runtime.session("c");
    const report = await child.turn("Go").result;
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({
      value: ["Short done.", "direct_completion_failed", "budget_exhausted"],
    });
    expect(report.outcome).toMatchObject({ kind: "stopped", code: "budget_exhausted" });
    expect(ledger(child)).toEqual(["child default 10+0", "tool default 30+0"]);
  });

  test("[AU4] a budget that is none is refused", async () => {
    const life = await start();
    for (const wrong of [-1, 1.5, "many"])
      expect(await codeOf(act(life.session, "do.create", { budget: { tokens: wrong } } as never))).toMatch(
        /invalid_directive|budget/,
      );
  });
});

test.each([0, 1, 2])(
  "[SP2] a crash in model call %i of a child changes nothing about what may be used",
  async (cut) => {
    const path = database();
    const at = gate();
    const middle = [callTool("spread", { tasks: ["Short", "Long"] }, tokens(10)), say("Never.")];
    const options = { plugins: [creating], tools: [quickTool("quick"), spread] };
    const long = ANSWERS.Long.map((step, index) => (index === cut ? gatedStep(at, step) : step));
    const first = await mortal({
      store: sqliteStore({ path }),
      ...options,
      script: answering({ ...ANSWERS, Long: long, Middle: middle }),
    });
    await act(first.session, "do.create", { sessionId: "c", budget: { tokens: 100 } });
    (await first.runtime.session("c")).turn("Middle", { id: "t" });
    // 10 + 30 + 40 leave room for one more call of 40; the third is refused, so nothing is there to be cut.
    if (cut < 2) await at.begun;
    else await expect.poll(async () => (await first.runtime.session("c")).read().turnIndex).toBe(1);
    await first.die();
    const life = await live({
      store: sqliteStore({ path }),
      ...options,
      script: answering({ ...ANSWERS, Middle: middle }),
    });
    const child = await life.runtime.session("c");
    const report = await child.turn("Middle", { id: "t" }).result;
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({ value: ["Short done.", "budget_exhausted"] });
    expect(report.outcome).toMatchObject({ kind: "stopped", code: "budget_exhausted" });
    expect(ledger(child)).toEqual(["child default 120+0"]);
  },
);

test("[SP2] what a turn used before it slept counts once, for it and for whoever waits for it", async () => {
  const { tool, keys } = asking();
  const life = await live({
    store: sqliteStore({ path: database() }),
    plugins: [creating],
    tools: [tool as never, quickTool("quick"), spread],
    script: answering({
      Middle: [callTool("spread", { tasks: ["Wait"] }), say("Never.")],
      Wait: [callTool("ask", {}, tokens(40)), callTool("quick", {}, tokens(40)), say("Waited.", tokens(40))],
    }),
  });
  await act(life.session, "do.create", { sessionId: "c", budget: { tokens: 100 } });
  const child = await life.runtime.session("c");
  const turn = child.turn("Middle");
  await expect.poll(() => keys.length, { timeout: 10_000 }).toBe(1);
  const [below] = (await life.runtime.sessions.list({ prefix: "c:" })).items;
  await parked(await life.runtime.session(below?.id ?? ""));
  await life.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  // 40 and 40 leave room for one more call.
  expect((await turn.result).toolCalls[0]?.output.outcome).toMatchObject({ value: ["Waited."] });
  expect(ledger(child)).toEqual(["child default 120+0"]);
});

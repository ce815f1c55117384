// Closing a runtime ends in bounded time, whatever its turns wait for, and loses nothing that a store keeps.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createRuntime, defineTool, type ToolContext, type ToolDefinition } from "marling";
import { approvals } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { answering, asking, database, desk, worker } from "./parked-support.ts";
import { plugin, rejectionOf, stage, until } from "./tools-support.ts";

const never = (): Promise<never> => new Promise(() => undefined);
const GO = { go: [callTool("work", { n: 1 }), say("Done.")] };

function tool(execute: (context: ToolContext) => unknown, replay?: "safe"): ToolDefinition {
  return defineTool({
    name: "work",
    description: "Works.",
    input: { type: "object" },
    ...(replay === undefined ? {} : { replay }),
    execute: (_input: unknown, context: ToolContext) => execute(context),
  }) as ToolDefinition;
}

describe("in memory", () => {
  test("[TQ6] a turn that waits for an approval is cancelled at once: nobody can decide any more", async () => {
    const { session, runtime } = await stage({
      tools: [tool(() => "ran")],
      plugins: [approvals({ rules: { work: "ask" } })],
      script: [callTool("work", {})],
    });
    const turn = session.turn("go");
    await expect.poll(async () => (await runtime.approvals.list()).length).toBe(1);
    await runtime.close({ graceMs: 600_000 });
    expect((await turn.result).outcome).toMatchObject({
      kind: "stopped",
      reason: "cancelled",
      message: "the runtime was closed",
    });
  });

  test("[TQ6] a turn that waits for a value is cancelled at once, and one that begins to wait later too", async () => {
    const { tool: ask, keys } = asking();
    const model = scriptedModel(answering({ go: [callTool("ask", {})], on: [callTool("ask", {})] }));
    const runtime = createRuntime({ model, tools: [ask] });
    const session = await runtime.session("s");
    const turns = [session.turn("go"), session.turn("on")];
    await until(() => keys.length === 1);
    await runtime.close({ graceMs: 600_000 });
    for (const turn of turns) expect((await turn.result).outcome).toMatchObject({ reason: "cancelled" });
  });

  test("[TQ6] a tool that never ends is told after the grace, and its turn is cancelled", async () => {
    const signals: AbortSignal[] = [];
    const { session, runtime } = await stage({
      tools: [
        tool(({ signal }) => {
          signals.push(signal);
          return never();
        }),
      ],
      script: [callTool("work", {})],
    });
    const turn = session.turn("go");
    await until(() => signals.length === 1);
    await runtime.close({ graceMs: 1 });
    expect(signals[0]?.aborted).toBe(true);
    expect((await turn.result).outcome).toMatchObject({ reason: "cancelled" });
  });

  test("[TQ6] a model that never answers does not hold it up either", async () => {
    const { session, runtime, model } = await stage({ script: () => never() });
    const turn = session.turn("go");
    await until(() => model.requests.length === 1);
    await runtime.close({ graceMs: 1 });
    expect((await turn.result).outcome).toMatchObject({ reason: "cancelled" });
  });

  test("[TQ6] a session that is being closed and waits for its turn is closed with the runtime", async () => {
    let isStuck = false;
    const stuck = plugin("stuck", {
      turn: {
        before: () => {
          isStuck = true;
          return never();
        },
      },
    });
    const { session, runtime } = await stage({ plugins: [stuck], hookTimeoutMs: 600_000 });
    session.turn("go").result.catch(() => undefined);
    await until(() => isStuck);
    const closing = session.close();
    await runtime.close({ graceMs: 1 });
    await closing;
  });

  test("a turn that ends within the grace ends as it would have", async () => {
    let open: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    let hasBegun = false;
    const { session, runtime } = await stage({
      tools: [
        tool(() => {
          hasBegun = true;
          return gate.then(() => "ran");
        }),
      ],
      script: [callTool("work", {}), say("Done.")],
    });
    const turn = session.turn("go");
    await until(() => hasBegun);
    const closed = runtime.close({ graceMs: 60_000 });
    open();
    await closed;
    expect((await turn.result).text).toBe("Done.");
  });

  test("a second close waits for the first; a grace that is no time is refused", async () => {
    const order: string[] = [];
    const { runtime } = await stage({
      plugins: [plugin("slow", { dispose: async () => void order.push("disposed") })],
    });
    expect((await rejectionOf(runtime.close({ graceMs: -1 }))).code).toBe("invalid_options");
    await Promise.all([runtime.close(), runtime.close().then(() => order.push("second"))]);
    expect(order).toEqual(["disposed", "second"]);
  });

  test("a plugin whose `dispose` never settles has the time of a hook", async () => {
    const { runtime } = await stage({ hookTimeoutMs: 5, plugins: [plugin("stuck", { dispose: never })] });
    await runtime.close();
  });
});

describe("on a file", () => {
  test("[TQ6] a turn that waits for an approval is left to the store at once, and the next runtime goes on with it", async () => {
    const path = database();
    const parts = {
      tools: [tool(() => "ran")],
      plugins: [approvals({ rules: { work: "ask" } })],
      answers: GO,
    };
    const first = await desk(path, parts);
    const turn = first.session.turn("go", { key: "k" });
    await expect.poll(async () => (await first.runtime.approvals.list()).length).toBe(1);
    await first.runtime.close();
    expect((await rejectionOf(turn.result)).code).toBe("runtime_closed");
    const next = await desk(path, parts);
    const again = next.session.turn("go", { key: "k" });
    await expect.poll(async () => (await next.runtime.approvals.list()).length).toBe(1);
    for (const question of await next.runtime.approvals.list())
      await next.runtime.approvals.decide(question, { decision: "allow", actor: "host" });
    expect((await again.result).text).toBe("Done.");
  });

  test("[TQ6] a tool that never ends is told after the grace; its turn is as a crash leaves it, and is recovered", async () => {
    const path = database();
    const mark = join(dirname(path), "runs");
    const told: AbortSignal[] = [];
    const work = tool(async ({ signal }) => {
      const runs = existsSync(mark) ? Number(readFileSync(mark, "utf8")) : 0;
      writeFileSync(mark, String(runs + 1));
      if (runs > 0) return "ran";
      told.push(signal);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      throw signal.reason;
    }, "safe");
    const first = await desk(path, { tools: [work], answers: GO });
    const turn = first.session.turn("go");
    await until(() => told.length === 1);
    await first.runtime.close({ graceMs: 1 });
    expect((await rejectionOf(turn.result)).code).toBe("runtime_closed");
    expect(told[0]?.aborted).toBe(true);
    const { runtime } = worker(path, { tools: [work], answers: GO });
    const { resumed } = await runtime.recover();
    expect(resumed).toEqual([{ sessionId: "s", turnId: "s:turn:1" }]);
    const session = await runtime.session("s");
    expect(
      session
        .read()
        .messages.flatMap(({ parts }) => parts)
        .at(-1),
    ).toMatchObject({ text: "Done." });
    expect(readFileSync(mark, "utf8")).toBe("2");
  });

  test("[TQ6] one that ignores its signal, and turns behind it, do not hold it up; the lease is let go", async () => {
    const path = database();
    let runs = 0;
    const work = tool(() => {
      runs += 1;
      return runs === 1 ? never() : "ran";
    }, "safe");
    const first = await desk(path, { tools: [work], answers: GO, leaseMs: 600_000 });
    const turns = [first.session.turn("go"), first.session.turn("more")];
    await until(() => runs === 1);
    await first.runtime.close({ graceMs: 1 });
    for (const turn of turns) expect((await rejectionOf(turn.result)).code).toBe("runtime_closed");
    const { runtime } = worker(path, { tools: [work], answers: GO });
    expect((await runtime.recover()).resumed.map(({ turnId }) => turnId)).toEqual(["s:turn:1", "s:turn:2"]);
    expect(runs).toBe(2);
  });

  test("[TQ6] what nothing can end, such as a hook that never settles, is left behind with its lease let go", async () => {
    const path = database();
    let isStuck = true;
    const stuck = plugin("stuck", { turn: { before: () => (isStuck ? never() : undefined) } });
    const parts = { plugins: [stuck], hookTimeoutMs: 600_000, leaseMs: 600_000 };
    const first = await desk(path, { ...parts, owner: "first" });
    const turn = first.session.turn("go");
    turn.result.catch(() => undefined);
    await expect.poll(async () => (await first.session.pending()).length).toBe(1);
    await first.runtime.close({ graceMs: 1 });
    isStuck = false;
    const { runtime } = worker(path, { ...parts, owner: "second" });
    expect((await runtime.recover()).resumed.map(({ turnId }) => turnId)).toEqual(["s:turn:1"]);
  });

  test("[TQ6] a tenant's turns are bounded by the same grace", async () => {
    const path = database();
    let hasBegun = false;
    const work = tool(() => {
      hasBegun = true;
      return never();
    });
    const model = scriptedModel(answering(GO));
    const runtime = createRuntime({ model, tools: [work], store: sqliteStore({ path }) });
    const session = await runtime.scope("acme").session("s");
    const turn = session.turn("go");
    await until(() => hasBegun);
    await runtime.close({ graceMs: 1 });
    expect((await rejectionOf(turn.result)).code).toBe("runtime_closed");
  });
});

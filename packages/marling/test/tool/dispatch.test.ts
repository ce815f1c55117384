// The mechanics of calls: rules TP1 to TP5.

import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type Deferred, deferred } from "../../src/base/deferred.ts";
import {
  type PendingResult,
  pendingResult,
  type ToolOutput,
  toolCancelled,
  toolFailure,
  toolSuccess,
} from "../../src/model/tool-output.ts";
import type { RetryPolicy } from "../../src/tool/contract.ts";
import { defineTool, toolProvider } from "../../src/tool/define-tool.ts";
import {
  grantLookup,
  retryDelay,
  runAttempts,
  toolIdempotencyKey,
  validateCall,
} from "../../src/tool/dispatch.ts";
import { ToolRegistry } from "../../src/tool/registry.ts";
import { runConcurrently } from "../../src/tool/run-concurrently.ts";
import { ManualClock, settle } from "./manual-clock.ts";
import { manifest, provider } from "./sample-tools.ts";

describe("arguments", () => {
  const add = defineTool({
    name: "add",
    description: "Adds.",
    input: z.object({ a: z.number(), by: z.object({ n: z.number() }) }),
    execute: () => 0,
  });
  const plain = defineTool({
    name: "plain",
    description: "Plain.",
    input: {
      type: "object",
      required: ["a"],
      properties: { a: { type: "number" }, list: { items: { type: "string" } } },
    },
    execute: () => 0,
  });
  const registry = new ToolRegistry({
    sources: [{ id: "plugins", providers: [toolProvider([add, plain])] }],
  });
  const refusal = (message: string): object => ({
    kind: "refused",
    output: {
      outcome: {
        kind: "failure",
        class: "invalid_request",
        code: "invalid_tool_args",
        message,
        retry: { kind: "never" },
      },
    },
  });

  const rows: readonly [string, string, unknown, string][] = [
    ["a missing property", "plain", {}, 'missing required property "a"'],
    [
      "a wrong type, with its path",
      "plain",
      { a: 1, list: ["x", 2] },
      "/list/1: expected a string, found the number 2",
    ],
    [
      "a nested path of a Standard Schema",
      "add",
      { a: 1, by: { n: "x" } },
      "/by/n: Invalid input: expected number, received string",
    ],
    ["no object", "plain", [1], "expected an object of arguments"],
  ];
  test.each(rows)("[K97] %s is refused", async (_name, name, args, message) => {
    expect(await validateCall(registry, { name, args: args as never })).toMatchObject(refusal(message));
  });

  test("[K97] arguments that fit reach the tool as its schema made them", async () => {
    expect(
      await validateCall(registry, { name: "add", args: { a: 1, by: { n: 2 }, extra: true } }),
    ).toMatchObject({
      kind: "valid",
      input: { a: 1, by: { n: 2 } },
      contract: add.contract(),
    });
  });

  test("[TP1] malformed JSON is refused, never taken for an empty object", async () => {
    const open = defineTool({ name: "open", description: "Open.", input: {}, execute: () => 0 });
    const tools = new ToolRegistry({ sources: [{ id: "plugins", providers: [toolProvider([open])] }] });
    const asked = { name: "open", args: {}, malformed: "Unexpected end of JSON input" };
    expect(await validateCall(tools, asked)).toMatchObject(
      refusal("expected arguments in JSON: Unexpected end of JSON input"),
    );
  });

  test("[TP1] without a contract nothing can be checked", async () => {
    expect(await validateCall(registry, { name: "nope", args: {} })).toMatchObject({
      kind: "refused",
      output: { outcome: { class: "unavailable", code: "tool_contract_unavailable" } },
    });
  });

  test("[TP1] the contract is resolved once, or not at all when it is given", async () => {
    const tools = provider("p", "a");
    const lookup = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    await validateCall(lookup, { name: "a", args: {} });
    expect(tools.contractsAsked).toEqual(["a"]);
    const given = { contract: { inputSchema: { required: ["x"] } } };
    expect(await validateCall(lookup, { name: "a", args: {} }, given)).toMatchObject(
      refusal('missing required property "x"'),
    );
    expect(tools.contractsAsked).toEqual(["a"]);
  });

  test("[TP1] a contract with a bad schema is a failed call", async () => {
    const tools = Object.assign(provider("p", "a"), { contract: () => ({ inputSchema: { type: "bag" } }) });
    const lookup = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    expect(await validateCall(lookup, { name: "a", args: {} })).toMatchObject({
      kind: "refused",
      output: {
        outcome: { class: "internal", message: expect.stringContaining("tool a: input schema#/type") },
      },
    });
  });

  test("[TR15] a granted call is checked against the contract of the grant", async () => {
    const grant = {
      manifest: manifest("add"),
      contract: { inputSchema: { required: ["key"] } },
      binding: null,
    };
    expect(await validateCall(grantLookup(grant), { name: "add", args: { a: 1 } })).toMatchObject(
      refusal('missing required property "key"'),
    );
  });
});

describe("attempts", () => {
  const safe = (afterMs?: number): ToolOutput =>
    toolFailure({ message: "Busy.", retry: { safe: true, ...(afterMs === undefined ? {} : { afterMs }) } });

  async function run(
    results: readonly (ToolOutput | PendingResult)[],
    policy: RetryPolicy | undefined,
    options: { readonly signal?: AbortSignal; readonly onSleep?: () => void } = {},
  ): Promise<{ readonly log: readonly string[]; readonly result: unknown; readonly attempts: number }> {
    const log: string[] = [];
    const { result, attempts } = await runAttempts({
      policy,
      signal: options.signal ?? new AbortController().signal,
      attempt: async (n) => {
        log.push(`attempt ${n}`);
        return results[n - 1] ?? expect.fail("no such attempt");
      },
      sleep: async (ms, next) => {
        log.push(`sleep ${ms} before ${next}`);
        options.onSleep?.();
      },
    });
    return { log, result, attempts };
  }

  test("[K101] a safe failure is tried again until it succeeds, with doubled delays", async () => {
    const { log, result, attempts } = await run([safe(), safe(), toolSuccess(1)], {
      attempts: 5,
      delayMs: 100,
    });
    expect(log).toEqual(["attempt 1", "sleep 100 before 2", "attempt 2", "sleep 200 before 3", "attempt 3"]);
    expect(result).toEqual(toolSuccess(1));
    expect(attempts).toBe(3);
  });

  test("[K101] the last failure is exhausted", async () => {
    const { log, result } = await run([safe(), safe()], { attempts: 2 });
    expect(log).toEqual(["attempt 1", "attempt 2"]);
    expect(result).toMatchObject({
      outcome: { kind: "failure", message: "Busy.", retry: { kind: "exhausted", attempts: 2 } },
    });
  });

  test.each([
    ["a failure that is not marked safe", toolFailure("No.")],
    ["a success", toolSuccess(1)],
    ["a cancellation", toolCancelled("Stopped.")],
    ["a pending result", pendingResult()],
  ])("[K101] %s ends it", async (_name, result) => {
    expect(await run([result], { attempts: 3 })).toEqual({ log: ["attempt 1"], result, attempts: 1 });
  });

  test("[K101] without a policy there is one attempt, and the failure stays as it is", async () => {
    expect(await run([safe(10)], undefined)).toEqual({ log: ["attempt 1"], result: safe(10), attempts: 1 });
  });

  test("[K101] delays: what the failure asks for, else the policy's, doubled up to its limit", () => {
    const policy = { attempts: 9, delayMs: 100, maxDelayMs: 350 };
    const advice = { kind: "safe" } as const;
    expect([0, 1, 2, 3].map((index) => retryDelay(policy, advice, index))).toEqual([100, 200, 350, 350]);
    expect(retryDelay(policy, { kind: "safe", afterMs: 9_000 }, 0)).toBe(9_000);
    expect(retryDelay(policy, { kind: "safe", afterMs: 0 }, 3)).toBe(0);
    expect(retryDelay({ attempts: 2 }, advice, 1)).toBe(0);
    expect(retryDelay({ attempts: 2, delayMs: 100 }, advice, 5_000)).toBe(Number.MAX_SAFE_INTEGER);
  });

  test("[K101] a cancellation while waiting ends it as cancelled", async () => {
    const controller = new AbortController();
    const { log, result } = await run(
      [safe(50)],
      { attempts: 3 },
      { signal: controller.signal, onSleep: () => controller.abort() },
    );
    expect(log).toEqual(["attempt 1", "sleep 50 before 2"]);
    expect(result).toMatchObject({
      outcome: { kind: "cancelled", message: "Cancelled while waiting to try again after: Busy." },
    });
  });

  test("[K101] a cancellation during an attempt leaves no wait", async () => {
    const controller = new AbortController();
    controller.abort();
    const { log, result } = await run([safe(50)], { attempts: 3 }, { signal: controller.signal });
    expect(log).toEqual(["attempt 1"]);
    expect(result).toMatchObject({ outcome: { kind: "cancelled" } });
  });

  test("[TP2] a wait that is aborted by the signal is a cancellation, any other fault is passed on", async () => {
    const controller = new AbortController();
    const aborting = (): void => {
      controller.abort();
      controller.signal.throwIfAborted();
    };
    const cancelled = await run(
      [safe(50)],
      { attempts: 3 },
      { signal: controller.signal, onSleep: aborting },
    );
    expect(cancelled.result).toMatchObject({ outcome: { kind: "cancelled" } });
    const faulty = (): void => {
      throw new Error("lease lost");
    };
    await expect(run([safe(50)], { attempts: 3 }, { onSleep: faulty })).rejects.toThrowError("lease lost");
  });

  test("[TP2] what an attempt throws is passed on and not tried again", async () => {
    let attempts = 0;
    const plan = {
      policy: { attempts: 3 },
      signal: new AbortController().signal,
      attempt: async () => {
        attempts += 1;
        throw new Error("disk full");
      },
      sleep: async () => {},
    };
    await expect(runAttempts(plan)).rejects.toThrowError("disk full");
    expect(attempts).toBe(1);
  });

  test("[K101] [TP5] the idempotency key names session, turn, call and tool without ambiguity", () => {
    const key = { sessionId: "chat-42", turnId: "t1", callId: "call_1", toolId: "add" };
    expect(toolIdempotencyKey(key)).toBe("marling-tool:chat-42:t1:call_1:add");
    expect(toolIdempotencyKey({ ...key, sessionId: "a:b", turnId: "c%" })).toBe(
      "marling-tool:a%3Ab:c%25:call_1:add",
    );
  });
});

describe("calls at once", () => {
  interface Running {
    readonly begun: string[];
    readonly answers: Map<string, Deferred<string>>;
    readonly clock: ManualClock;
    readonly controller: AbortController;
    readonly results: Promise<readonly string[]>;
  }

  function start(
    items: readonly string[],
    options: { readonly cap?: number; readonly serial?: readonly string[] } = {},
  ): Running {
    const begun: string[] = [];
    const answers = new Map(items.map((item) => [item, deferred<string>()]));
    const clock = new ManualClock();
    const controller = new AbortController();
    const run = (item: string): Promise<string> => {
      begun.push(item);
      return answers.get(item)?.promise ?? expect.fail("no such item");
    };
    const results = runConcurrently(items, run, {
      cap: options.cap ?? 8,
      signal: controller.signal,
      clock,
      isSerial: (item) => options.serial?.includes(item) ?? false,
      cancelled: (item, phase) => `${item} cancelled while ${phase}`,
    });
    results.catch(() => {}); // Tests that expect a rejection await it themselves.
    return { begun, answers, clock, controller, results };
  }

  test("[K99] all begin at once and answer in their order, whoever is first", async () => {
    const { begun, answers, results } = start(["a", "b", "c"]);
    expect(begun).toEqual(["a", "b", "c"]);
    answers.get("c")?.resolve("3");
    await settle();
    answers.get("b")?.resolve("2");
    answers.get("a")?.resolve("1");
    expect(await results).toEqual(["1", "2", "3"]);
  });

  test("[K99] serial ones follow the parallel ones, one by one in their order", async () => {
    const { begun, answers, results } = start(["s1", "p1", "s2", "p2"], { serial: ["s1", "s2"] });
    expect(begun).toEqual(["p1", "p2"]);
    answers.get("p1")?.resolve("P1");
    await settle();
    expect(begun).toEqual(["p1", "p2"]);
    answers.get("p2")?.resolve("P2");
    await settle();
    expect(begun).toEqual(["p1", "p2", "s1"]);
    answers.get("s1")?.resolve("S1");
    await settle();
    expect(begun).toEqual(["p1", "p2", "s1", "s2"]);
    answers.get("s2")?.resolve("S2");
    expect(await results).toEqual(["S1", "P1", "S2", "P2"]);
  });

  test("[TP3] no more than the cap run at once", async () => {
    const { begun, answers, results } = start(["a", "b", "c"], { cap: 2 });
    expect(begun).toEqual(["a", "b"]);
    answers.get("b")?.resolve("2");
    await settle();
    expect(begun).toEqual(["a", "b", "c"]);
    answers.get("a")?.resolve("1");
    answers.get("c")?.resolve("3");
    expect(await results).toEqual(["1", "2", "3"]);
  });

  test("[TP3] no items have no results", async () => {
    expect(await start([]).results).toEqual([]);
  });

  test("[K100] a cancelled call has 50 ms to answer, then it is answered for", async () => {
    const { answers, clock, controller, results } = start(["quick", "slow"]);
    controller.abort();
    clock.advance(49);
    answers.get("quick")?.resolve("made it");
    await settle();
    expect(clock.pending).toBe(1);
    clock.advance(1);
    expect(await results).toEqual(["made it", "slow cancelled while running"]);
    answers.get("slow")?.resolve("too late");
    await settle();
    expect(clock.pending).toBe(0);
  });

  test("[K100] what has not begun never begins", async () => {
    const { begun, clock, controller, results } = start(["a", "b", "s"], { cap: 1, serial: ["s"] });
    controller.abort();
    clock.advance(50);
    expect(await results).toEqual([
      "a cancelled while running",
      "b cancelled while waiting",
      "s cancelled while waiting",
    ]);
    expect(begun).toEqual(["a"]);
  });

  test("[K100] an answer in time leaves no timer, and a late rejection harms nobody", async () => {
    const { answers, clock, controller, results } = start(["a", "b"]);
    controller.abort();
    answers.get("a")?.resolve("1");
    await settle();
    expect(clock.pending).toBe(1);
    clock.advance(50);
    expect(await results).toEqual(["1", "b cancelled while running"]);
    answers.get("b")?.reject(new Error("too late"));
    await settle();
  });

  test("[TP4] nothing listens to the signal after all have answered", async () => {
    const { answers, controller, results } = start(["a", "b"]);
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(1);
    answers.get("a")?.resolve("1");
    answers.get("b")?.resolve("2");
    await results;
    await settle();
    expect(getEventListeners(controller.signal, "abort")).toEqual([]);
  });

  test("[TP4] a cancellation before the start begins nothing", async () => {
    const controller = new AbortController();
    controller.abort();
    const results = await runConcurrently(["a"], async () => expect.fail("it began"), {
      cap: 1,
      signal: controller.signal,
      clock: new ManualClock(),
      cancelled: (item, phase) => `${item} ${phase}`,
    });
    expect(results).toEqual(["a waiting"]);
  });

  test("[TP2] a fault is passed on after what runs has settled, and nothing more begins", async () => {
    const { begun, answers, results } = start(["a", "b", "c"], { cap: 2 });
    answers.get("a")?.reject(new Error("lease lost"));
    await settle();
    let isSettled = false;
    results.catch(() => {
      isSettled = true;
    });
    await settle();
    expect(isSettled).toBe(false);
    answers.get("b")?.resolve("2");
    await expect(results).rejects.toThrowError("lease lost");
    expect(begun).toEqual(["a", "b"]);
  });
});

// What one answer of a model may have, whichever port gives it: bytes, tool calls and time.

import {
  createRuntime,
  defineTool,
  MarlingError,
  type ModelPort,
  type ResponsePart,
  type RuntimeOptions,
} from "marling";
import { callTool, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { KernelClock, open, plugin, port, quiet, responseOf, usage, watch } from "./model-support.ts";
import { act, acting } from "./services-support.ts";

const STOPPED = { kind: "stopped", reason: "provider_error", code: "answer_limit" };
const KIB = "x".repeat(1024);

const calls = (count: number): readonly ResponsePart[] =>
  Array.from({ length: count }, (_, n) => ({ kind: "tool_call", callId: `c${n}`, name: "pay", args: "{}" }));

/** A tool that must not run, and what it was called with. */
function watchedTool(): { readonly tools: NonNullable<RuntimeOptions["tools"]>; runs(): number } {
  let count = 0;
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    input: z.object({}),
    execute: () => {
      count += 1;
      return count;
    },
  });
  return { tools: [pay], runs: () => count };
}

/** A port that streams for ever and heeds its signal. `sent` is how many pieces it was asked to take back. */
function endless(
  kind: "text_delta" | "reasoning_delta",
): ModelPort & { sent(): number; wasStopped(): boolean } {
  let sent = 0;
  let isStopped = false;
  return {
    id: "endless",
    sent: () => sent,
    wasStopped: () => isStopped,
    call: async (_request, { sink, signal }) => {
      sink({ kind: "usage", usage: usage(7, 1) });
      while (!signal.aborted && sent < 100_000) {
        sink({ kind, text: KIB });
        sent += 1;
        if (sent % 16 === 0) await quiet();
      }
      isStopped = signal.aborted;
      return { kind: "failure", failure: { kind: "cancelled", message: "left", retryable: false } };
    },
  };
}

describe("bytes", () => {
  test.each(["text_delta", "reasoning_delta"] as const)(
    "[CP3] an endless %s ends the call, tells the port, and leaves nothing but its usage",
    async (kind) => {
      const model = endless(kind);
      const session = await open({ model, limits: { answerBytes: 64 * 1024 } });
      const { report } = await watch(session.turn("Go"));
      expect(report.outcome).toMatchObject(STOPPED);
      expect(report.outcome).toHaveProperty("message", expect.stringContaining("limits.answerBytes"));
      expect([report.text, report.usage, report.modelCalls.length]).toEqual(["", usage(7, 1), 1]);
      await quiet();
      expect([model.wasStopped(), model.sent() <= 80]).toEqual([true, true]);
      const said = JSON.stringify(await session.history());
      expect(said).not.toContain("xxxx");
      expect(session.usage().entries.map((entry) => entry.usage)).toEqual([usage(7, 1)]);
    },
  );

  test("[CP3] without options an answer has 16 MiB, and one byte more is a failure", async () => {
    const most = 16 * 1024 * 1024;
    const answers = [responseOf("x".repeat(most + 1)), responseOf("x".repeat(1024 * 1024))];
    const model = port(() => answers.shift() ?? responseOf("over"));
    const session = await open({ model, commitBudget: { bytes: 64 * 1024 * 1024 } });
    expect((await watch(session.turn("Go"))).report.outcome).toMatchObject(STOPPED);
    expect((await watch(session.turn("Again"))).report.outcome).toMatchObject({ kind: "finished" });
  });

  test("[CP3] text, reasoning and arguments count together, in bytes of UTF-8", async () => {
    const parts: readonly ResponsePart[] = [
      { kind: "reasoning", text: "äöü" },
      { kind: "text", text: "世界" },
      { kind: "tool_call", callId: "c", name: "pay", args: '{"a":1}' },
    ];
    const exact = 6 + 6 + 7 + "c".length + "pay".length;
    for (const [answerBytes, code] of [
      [exact, undefined],
      [exact - 1, "answer_limit"],
    ] as const) {
      const { tools, runs } = watchedTool();
      const answers = [responseOf(parts, { finish: "tool_use" }), responseOf("Done.")];
      const model = port(() => answers.shift() ?? responseOf("over"));
      const session = await open({ model, tools, limits: { answerBytes } });
      const { report } = await watch(session.turn("Go"));
      expect([report.outcome.kind === "stopped" ? report.outcome.code : undefined, runs()]).toEqual([
        code,
        code === undefined ? 1 : 0,
      ]);
      expect(report.toolCalls).toHaveLength(code === undefined ? 1 : 0);
    }
  });

  test("[CP3] the provider's data of an answer counts, however deep it is", async () => {
    const replay = { model: "m", metadata: { some: [{ signature: KIB }, { signature: KIB }] } };
    const model = port(() => responseOf([{ kind: "reasoning", text: "Hm.", replay }]));
    const session = await open({ model, limits: { answerBytes: 2000 } });
    expect((await watch(session.turn("Go"))).report.outcome).toMatchObject(STOPPED);
  });

  test("[CP3] parts without content are counted, so that they cannot be endless", async () => {
    const parts = Array.from({ length: 100_000 }, (): ResponsePart => ({ kind: "reasoning", text: "" }));
    const session = await open({ model: port(() => responseOf(parts)) });
    expect((await watch(session.turn("Go"))).report.outcome).toMatchObject(STOPPED);
  });

  test("[CP3] a port that begins again has the bytes anew, and cannot begin again for ever", async () => {
    const reset = { kind: "attempt_reset", reason: "again", retryAfterMs: 0 } as const;
    const few = port((sink) => {
      for (let n = 0; n < 4; n += 1) {
        sink({ kind: "text_delta", text: KIB });
        if (n < 3) sink(reset);
      }
      return responseOf(KIB);
    });
    const session = await open({ model: few, limits: { answerBytes: 1500 } });
    expect((await watch(session.turn("Go"))).report.outcome).toMatchObject({ kind: "finished", text: KIB });
    const many = port(async (sink, signal) => {
      for (let n = 0; n < 1_000_000 && !signal.aborted; n += 1) sink(reset);
      return responseOf("over");
    });
    const other = createRuntime({ model: many, limits: { answerBytes: 1500 } });
    const { report } = await watch((await other.session("s")).turn("Go"));
    expect(report.outcome).toMatchObject(STOPPED);
    expect(report.modelCalls.length).toBeLessThan(2_000);
    await other.close();
  });
});

describe("tool calls", () => {
  test("[CP3] 100,000 calls in one answer are a failure, and none of them runs", async () => {
    const { tools, runs } = watchedTool();
    const model = port(() => responseOf(calls(100_000), { finish: "tool_use", usage: usage(5, 6) }));
    const session = await open({ model, tools });
    const { report, events } = await watch(session.turn("Go"));
    expect(report.outcome).toMatchObject(STOPPED);
    expect(report.outcome).toHaveProperty("message", expect.stringContaining("limits.answerCalls"));
    expect([runs(), report.toolCalls, report.usage]).toEqual([0, [], usage(5, 6)]);
    expect(events.filter(({ kind }) => kind === "tool_started")).toEqual([]);
  });

  test("[CP3] 256 calls run by default, and other numbers as the option says", async () => {
    for (const [count, limits, runsAll] of [
      [256, undefined, true],
      [257, undefined, false],
      [300, { answerCalls: 300 }, true],
      [3, { answerCalls: 2 }, false],
      [1_000, { answerCalls: "unbounded" }, true],
    ] as const) {
      const { tools, runs } = watchedTool();
      const answers = [responseOf(calls(count), { finish: "tool_use" }), responseOf("Done.")];
      const model = port(() => answers.shift() ?? responseOf("over"));
      const session = await open({ model, tools, ...(limits === undefined ? {} : { limits }) });
      await watch(session.turn("Go"));
      expect([count, runs()]).toEqual([count, runsAll ? count : 0]);
    }
  });
});

describe("time", () => {
  test("[CP4] a port that never ends, and heeds no signal, ends with the runtime's clock", async () => {
    const clock = new KernelClock();
    let heard = 0;
    const model = port(
      (sink, signal) =>
        new Promise(() => {
          sink({ kind: "usage", usage: usage(3, 0) });
          signal.addEventListener("abort", () => {
            heard += 1;
          });
        }),
    );
    const session = await open({ model, clock });
    const turn = session.turn("Go");
    const watched = watch(turn);
    for (let n = 0; n < 20 && model.requests.length === 0; n += 1) await quiet();
    await quiet();
    clock.advance(30 * 60_000 - 1);
    await quiet();
    expect(heard).toBe(0);
    clock.advance(1);
    const { report } = await watched;
    expect(report.outcome).toMatchObject(STOPPED);
    expect(report.outcome).toHaveProperty("message", expect.stringContaining("limits.answerMs"));
    expect([heard, report.usage]).toEqual([1, usage(3, 0)]);
  });

  test("[CP4] a call that has ended leaves no timer", async () => {
    const clock = new KernelClock();
    const session = await open({ model: scriptedModel([say("Hi.")]), clock });
    const before = clock.pending;
    await session.run("Go");
    expect(clock.pending).toBe(before);
  });

  test("[CP4] unbounded, no timer is set", async () => {
    const clock = new KernelClock();
    let pending = -1;
    const model = port(() => {
      pending = clock.pending;
      return responseOf("Hi.");
    });
    const session = await open({ model, clock, limits: { answerMs: "unbounded" } });
    await session.run("Go");
    const limited = port(() => {
      pending -= clock.pending;
      return responseOf("Hi.");
    });
    const other = await open({ model: limited, clock });
    await other.run("Go");
    expect(pending).toBeLessThan(0);
  });
});

describe("every way to a model", () => {
  test("[CP3] a direct completion fails with its code, and its usage is in the ledger", async () => {
    const model = endless("text_delta");
    const ask = acting({ ask: (host) => host.directCompletion({ messages: "Go" }, "memory") });
    const session = await open({ model, plugins: [ask], limits: { answerBytes: 8 * 1024 } });
    await expect(act(session, "ask")).rejects.toThrow(/limits\.answerBytes/);
    expect(session.usage().entries).toMatchObject([{ source: "memory", usage: usage(7, 1) }]);
  });

  test("[CP3] structured output is held to them", async () => {
    const model = port(() => responseOf(JSON.stringify({ text: KIB })));
    const session = await open({ model, limits: { answerBytes: 512 } });
    const running = session.run("Go", { output: z.object({ text: z.string() }) });
    await expect(running).rejects.toThrow(/limits\.answerBytes/);
    expect(model.requests).toHaveLength(1);
  });

  test("[CP3] the limits are told to the port", async () => {
    const told: unknown[] = [];
    const model: ModelPort = {
      id: "told",
      call: async (_request, { limits }) => {
        told.push(limits);
        return responseOf("Hi.");
      },
    };
    const session = await open({ model, limits: { answerBytes: 10, answerMs: "unbounded" } });
    await session.run("Go");
    expect(told).toEqual([{ answerBytes: 10, answerCalls: 256, answerMs: Number.POSITIVE_INFINITY }]);
  });
});

test("[CP3] such a failure is not retried, unless a plugin says so", async () => {
  const model = port(() => responseOf(KIB));
  const session = await open({ model, limits: { answerBytes: 512 } });
  await watch(session.turn("Go"));
  expect(model.requests).toHaveLength(1);
  const kinds: string[] = [];
  const retry = plugin("retry", {
    model: {
      error: ({ failure, attempt }) => {
        kinds.push(failure.kind);
        return attempt < 3 ? { kind: "retry", afterMs: 0 } : undefined;
      },
    },
  });
  const other = await open({ model, plugins: [retry], limits: { answerBytes: 512 } });
  await watch(other.turn("Go"));
  expect(kinds).toEqual(["answer_limit", "answer_limit", "answer_limit"]);
});

test("[CP3] watchers see what streamed before the limit, and no answer", async () => {
  const { tools } = watchedTool();
  const model = scriptedModel([callTool("pay", {}, { text: "First." }), say(KIB), say("Later.")]);
  const session = await open({ model, tools, limits: { answerBytes: 100 } });
  const { report } = await watch(session.turn("Go"));
  expect(report.outcome).toMatchObject(STOPPED);
  expect(report.toolCalls).toHaveLength(1);
  expect(JSON.stringify(await session.history())).not.toContain("xxxx");
  await expect(session.run("Again")).resolves.toMatchObject({ text: "Later." });
});

test.each([
  ["limits", 7],
  ["limits", null],
  ["limits", { answerBytes: 0 }],
  ["limits", { answerBytes: -1 }],
  ["limits", { answerBytes: 1.5 }],
  ["limits", { answerBytes: Number.NaN }],
  ["limits", { answerBytes: "many" }],
  ["limits", { answerCalls: 0 }],
  ["limits", { answerCalls: -1 }],
  ["limits", { answerCalls: Number.NaN }],
  ["limits", { answerMs: 0 }],
  ["limits", { answerMs: -1 }],
  ["limits", { answerMs: Number.NaN }],
  ["limits", { answerMs: 2 ** 31 }],
  ["limits", { answerTokens: 5 }],
])("the option %s refuses %j", (option, value) => {
  const run = (): unknown => createRuntime({ [option]: value } as RuntimeOptions);
  expect(run).toThrow(MarlingError);
  const [name] = typeof value === "object" && value !== null ? Object.keys(value) : [];
  expect(run).toThrow(
    name === undefined ? /option limits: expected/ : new RegExp(`option limits\\.${name}: expected`),
  );
});

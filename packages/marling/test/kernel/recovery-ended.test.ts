// Turns that recovery ends: when it does, and what they keep. E8 and the rules RV1 to RV4 of count-recovery.ts.

import { defineTool, type Message, type ModelRequest, type Session, type ToolDefinition } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, type ScriptFunction, say } from "marling/testing";
import { expect, test } from "vitest";
import type { JournalRecord } from "../../src/model/journal.ts";
import type { HostServices } from "../../src/plugin/host-services.ts";
import type { CallStore } from "../../src/testing/faulty-store.ts";
import {
  database,
  gate,
  gatedStep,
  gatedTool,
  type LifeOptions,
  live,
  mortal,
  movingTool,
  quickTool,
  unevenCalls,
  userTexts,
} from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";
import { hostTool, ledger } from "./services-support.ts";

/** The results of calls, in order, as the model is shown them. */
function shown(messages: readonly Pick<Message, "parts">[] | ModelRequest["messages"]): readonly string[] {
  return messages.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.kind === "tool_result" && "text" in part ? [String(part.text)] : [])),
  );
}

const rounds = ({ messages }: ModelRequest): number =>
  messages.filter(({ role }) => role === "assistant").length;

type Gate = ReturnType<typeof gate>;

/** Runtimes that die at a gate, one after the other. */
async function die(
  path: string,
  times: number,
  options: (at: Gate, life: number) => Omit<LifeOptions, "store">,
) {
  for (let life = 1; life <= times; life += 1) {
    const at = gate();
    const before = await mortal({ ...options(at, life), store: sqliteStore({ path }) });
    before.session.turn("go", { key: "k" });
    await at.begun;
    await before.die();
  }
}

test("[RV2] recoveries between which outcomes were recorded do not end a turn", async () => {
  const path = database();
  const ran: string[] = [];
  const tools = [quickTool("pay", { ran, replay: "unsafe" })];
  await die(path, 7, (at, life) => ({
    tools,
    script: (request) => (rounds(request) < life ? callTool("pay") : gatedStep(at, say("never"))(request)),
  }));
  const { session } = await live({ store: sqliteStore({ path }), script: [say("all paid")], tools });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report).toMatchObject({ text: "all paid", issues: [] });
  expect([ran.length, report.toolCalls.length]).toEqual([7, 7]);
});

test("[RV2] so is it in a later part of a turn, and a part that was committed is progress", async () => {
  const path = database();
  const tools = [movingTool(), quickTool("pay", { replay: "unsafe" })] as readonly ToolDefinition[];
  const script =
    (life: number, at: Gate): ScriptFunction =>
    (request) => {
      const isMoved = userTexts(request).includes("Go on there.");
      if (!isMoved) return life < 3 ? gatedStep(at, say("never"))(request) : callTool("move");
      return rounds(request) < life - 3 ? callTool("pay") : gatedStep(at, say("never"))(request);
    };
  await die(path, 9, (at, life) => ({ tools, script: script(life, at) }));
  const { session } = await live({ store: sqliteStore({ path }), script: [say("all paid")], tools });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report).toMatchObject({ text: "all paid", issues: [] });
});

test("[RV1] neither marks that something began nor those of recoveries are progress", async () => {
  const path = database();
  const tools = (at: Gate): readonly ToolDefinition[] => [
    quickTool("pay", { replay: "unsafe" }) as ToolDefinition,
    gatedTool("wait", at) as ToolDefinition,
  ];
  const script: ScriptFunction = (request) => (rounds(request) === 0 ? callTool("pay") : callTool("wait"));
  await die(path, 4, (at) => ({ tools: tools(at), script }));
  const { session } = await live({
    store: sqliteStore({ path }),
    script: [say("fine again")],
    tools: tools(gate()),
  });
  const { outcome } = await session.turn("go", { key: "k" }).result;
  expect(outcome).toMatchObject({ kind: "stopped", code: "recovery_exhausted" });
});

/** A tool that runs when no other does. */
function alone(name: string, execute: () => unknown, replay: "safe" | "unsafe" = "safe"): ToolDefinition {
  const input = { type: "object" } as const;
  return defineTool({
    name,
    description: "Runs alone.",
    input,
    execution: "serial",
    replay,
    execute,
  }) as never;
}

/** A session whose turn was ended: `pay` had finished, `wait` and `poison` were cut, `last` had not begun. */
async function ended(more: Partial<LifeOptions> = {}): Promise<{
  readonly session: Session;
  readonly requests: readonly ModelRequest[];
  readonly ran: readonly string[];
}> {
  const path = database();
  const ran: string[] = [];
  const tools = (at: Gate): readonly ToolDefinition[] => [
    quickTool("pay", { ran, replay: "unsafe" }) as ToolDefinition,
    gatedTool("wait", at, { replay: "unsafe" }) as ToolDefinition,
    alone("poison", () => at.pass()),
    alone("last", () => void ran.push("last"), "unsafe"),
  ];
  const script: ScriptFunction = (request) => {
    if (userTexts(request).includes("on")) return say("fine again");
    if (rounds(request) < 2) return callTool("pay", { n: 1 }, { usage: { input: 7, output: 0 } });
    return callTools([
      ["wait", {}],
      ["poison", {}],
      ["last", {}],
    ]);
  };
  // The first recovery records that `wait` was cut, so that is one more than three.
  await die(path, 5, (at) => ({ ...more, tools: tools(at), script }));
  const { session, model } = await live({
    ...more,
    store: sqliteStore({ path }),
    tools: tools(gate()),
    script,
  });
  return { session, requests: model.requests, ran };
}

test("[RV3] a turn that recovery ends keeps its finished calls, with unknown outcomes for those that were cut", async () => {
  const { session, requests, ran } = await ended();
  const report = await session.turn("go", { key: "k" }).result;
  expect(report.outcome).toMatchObject({
    kind: "stopped",
    reason: "runtime_error",
    code: "recovery_exhausted",
  });
  expect(report.issues).toMatchObject([{ kind: "runtime", code: "recovery_exhausted" }]);
  expect(report.toolCalls.map(({ name, output: { outcome } }) => [name, outcome])).toMatchObject([
    ["pay", { kind: "success" }],
    ["pay", { kind: "success" }],
    ["wait", { kind: "failure", code: "unknown_outcome" }],
    ["poison", { kind: "failure", code: "unknown_outcome" }],
    ["last", { kind: "cancelled" }],
  ]);
  expect([report.modelCalls.length, report.usage.input]).toEqual([3, 14]);
  expect([ran, requests]).toEqual([["pay", "pay"], []]);
  expect(unevenCalls(session.read().messages)).toEqual([]);
  await session.turn("on").result;
  expect(shown(requests[0]?.messages ?? [])).toEqual(shown(session.read().messages));
  expect(shown(session.read().messages).map((text) => text.split("\n").at(-1))).toMatchObject([
    "pay done",
    "pay done",
    expect.stringContaining("may have taken effect"),
    expect.stringContaining("may have taken effect"),
    expect.stringContaining("ended before the call"),
  ]);
  expect(ledger(session)).toEqual(["turn default 14+0"]);
});

test("[RV4] a turn that recovery ends runs no hook, and keeps the state that its hooks had left", async () => {
  const asked: string[] = [];
  const watching = plugin("watching", (ctx) => {
    const calls = ctx.durable({ version: 1, initial: () => 0 });
    const note = (what: string) => () => void asked.push(what);
    return {
      turn: { before: note("before"), checkpoint: note("checkpoint"), after: note("after") },
      context: {
        prepareTurn: {
          transform: (_ctx: unknown, prepared: unknown) => {
            asked.push("context");
            return prepared;
          },
        },
      },
      prompt: () => void asked.push("prompt"),
      toolCalls: {
        before: note("call"),
        after: () => {
          calls.update((n) => n + 1);
        },
      },
      recovery: { decide: note("decide") },
      operations: { queries: { "watching.calls": { handler: () => calls.get() } } },
    } as never;
  });
  const { session } = await ended({ plugins: [watching] });
  asked.length = 0;
  const { outcome } = await session.turn("go", { key: "k" }).result;
  expect(outcome).toMatchObject({ code: "recovery_exhausted" });
  expect(asked).toEqual([]);
  expect(await session.query("watching.calls", {})).toBe(3); // Both payments, and the call that was cut.
});

test("[RV3] calls of an orchestrating tool that had finished are shown with those that were cut", async () => {
  const path = database();
  const tools = (at: Gate): readonly ToolDefinition[] => [
    hostTool(
      "bundle",
      async (_host, _args, ctx) => {
        const kinds: string[] = [];
        for (const name of ["pay", "poison"])
          for (const { output } of await ctx.callTools([{ name, args: {} }])) kinds.push(output.outcome.kind);
        return kinds;
      },
      { isOrchestrating: true },
    ),
    quickTool("pay", { replay: "unsafe" }) as ToolDefinition,
    gatedTool("poison", at) as ToolDefinition,
  ];
  const options = (at: Gate) => ({ tools: tools(at), script: () => callTool("bundle") });
  await die(path, 4, options);
  const { session } = await live({ store: sqliteStore({ path }), ...options(gate()) });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report.outcome).toMatchObject({ code: "recovery_exhausted" });
  expect(report.toolCalls.map(({ output }) => output.outcome)).toMatchObject([
    { kind: "success", value: ["success", "failure"] },
  ]);
});

test("[RV3] an input that had joined a turn that recovery ends is part of it, and one that had not is the next turn", async () => {
  const path = database();
  const [first, second] = [gate(), gate()];
  const script: ScriptFunction = (request) => {
    if (userTexts(request).includes("later")) return say("heard later");
    return rounds(request) === 0 ? callTool("note") : callTool("poison");
  };
  const before = await mortal({
    store: sqliteStore({ path }),
    script,
    tools: [gatedTool("note", first), gatedTool("poison", second)],
  });
  before.session.turn("go", { key: "k" });
  await first.begun;
  await before.session.enqueue("joined", { key: "joined", deliver: "active_turn" });
  first.open();
  await second.begun;
  await before.die();
  await die(path, 3, (at) => ({ script, tools: [quickTool("note"), gatedTool("poison", at)] }));
  const { session } = await live({
    store: sqliteStore({ path }),
    script,
    tools: [quickTool("note"), quickTool("poison")],
  });
  const turn = session.turn("go", { key: "k" });
  const later = session.turn("later", { key: "later", deliver: "active_turn" } as never);
  expect((await turn.result).outcome).toMatchObject({ code: "recovery_exhausted" });
  expect(await later.result).toMatchObject({ text: "heard later" });
  expect(await session.pending()).toEqual([]);
  expect(transcript(session).filter((line) => line.startsWith("user"))).toEqual([
    "user: go",
    "user: joined",
    "user: later",
  ]);
});

/** A store whose journal says that the model asked for something else. */
const tampered: CallStore = async (method, call) => {
  const answer = await call();
  if (method !== "journal.read") return answer;
  const records = answer as unknown as readonly JournalRecord[];
  return records.map((record) => {
    const text = JSON.stringify(record);
    return JSON.parse(record.key === "0.model_call" ? text.replace('{\\"n\\":1}', '{\\"n\\":2}') : text);
  }) as never;
};

test("[E8] a turn that a mismatch ends keeps what had finished, behind the mismatch too", async () => {
  const path = database();
  const ran: string[] = [];
  const tools = (at: Gate): readonly ToolDefinition[] => [
    quickTool("pay", { ran, replay: "unsafe" }) as ToolDefinition,
    gatedTool("wait", at, { replay: "unsafe" }) as ToolDefinition,
  ];
  const script: ScriptFunction = (request) =>
    rounds(request) < 2 ? callTool("pay", { n: 1 }) : callTool("wait");
  await die(path, 1, (at) => ({ tools: tools(at), script }));
  const { session, model } = await live({
    store: sqliteStore({ path }),
    around: tampered,
    tools: tools(gate()),
    script: [say("fine again")],
  });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report.outcome).toMatchObject({ kind: "stopped", code: "journal_mismatch" });
  expect(report.toolCalls.map(({ output }) => output.outcome)).toMatchObject([
    { kind: "success" },
    { kind: "success" },
    { code: "unknown_outcome" },
  ]);
  expect([ran.length, model.requests.length]).toEqual([2, 0]);
  await session.turn("on").result;
  expect(shown(model.requests[0]?.messages ?? [])).toHaveLength(3);
  expect(unevenCalls(session.read().messages)).toEqual([]);
});

test("[RV4] a turn whose end is interrupted as well ends with its input alone, and the session goes on", async () => {
  const path = database();
  const script: ScriptFunction = (request) =>
    userTexts(request).includes("on") ? say("fine again") : callTool("poison");
  const tools = (at: Gate): readonly ToolDefinition[] => [gatedTool("poison", at) as ToolDefinition];
  await die(path, 4, (at) => ({ tools: tools(at), script }));
  for (let life = 1; life <= 3; life += 1) {
    const at = gate();
    const around: CallStore = async (method, call) => {
      if (method === "commit") await at.pass();
      return call();
    };
    const before = await mortal({ store: sqliteStore({ path }), tools: tools(gate()), script, around });
    before.session.turn("go", { key: "k" });
    await at.begun;
    await before.die();
  }
  const { session } = await live({ store: sqliteStore({ path }), tools: tools(gate()), script });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report).toMatchObject({ outcome: { code: "recovery_exhausted" }, toolCalls: [] });
  expect((await session.run("on")).text).toBe("fine again");
  expect(transcript(session)).toEqual(["user: go", "user: on", "assistant: fine again"]);
});

test("[RV3] calls that had finished are kept when hooks before turns and calls were added since", async () => {
  const path = database();
  const tools = (at: Gate): readonly ToolDefinition[] => [
    quickTool("pay", { replay: "unsafe" }) as ToolDefinition,
    gatedTool("poison", at) as ToolDefinition,
  ];
  const script: ScriptFunction = (request) => callTool(rounds(request) === 0 ? "pay" : "poison");
  await die(path, 4, (at) => ({ tools: tools(at), script }));
  const asked: string[] = [];
  const added = plugin("added", {
    turn: { before: () => void asked.push("before") },
    toolCalls: { before: () => void asked.push("call") },
    prompt: () => void asked.push("prompt"),
  } as never);
  const { session } = await live({
    store: sqliteStore({ path }),
    tools: tools(gate()),
    script,
    plugins: [added],
  });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report.outcome).toMatchObject({ code: "recovery_exhausted" });
  expect(report.toolCalls.map(({ output }) => output.outcome.kind)).toEqual(["success", "failure"]);
  expect(asked).toEqual([]);
});

test("[RV3] what context transforms had used, and a compaction before the turn, are kept", async () => {
  const path = database();
  const asking = plugin("asking", {
    context: {
      prepareTurn: {
        transform: async (
          ctx: { readonly host: HostServices },
          prepared: { readonly messages: readonly Message[] },
        ) => {
          await ctx.host.directLlmCompletion({ messages: "aside" }, "transform");
          return { ...prepared, compact: {} };
        },
      },
      compact: {
        compact: async (ctx: { readonly host: HostServices }) => {
          await ctx.host.directLlmCompletion({ messages: "aside" }, "compaction");
          return { initialNodes: [{ kind: "message", message: { role: "user", content: "before" } }] };
        },
      },
    },
  } as never);
  const script: ScriptFunction = (request) =>
    userTexts(request).includes("aside")
      ? say("aside", { usage: { input: 5, output: 0 } })
      : callTool("poison");
  const options = (at: Gate) => ({ tools: [gatedTool("poison", at)], script, plugins: [asking] });
  await die(path, 4, options);
  const { session, model } = await live({ store: sqliteStore({ path }), ...options(gate()) });
  const { outcome } = await session.turn("go", { key: "k" }).result;
  expect(outcome).toMatchObject({ code: "recovery_exhausted" });
  expect(ledger(session)).toContain("transform default 5+0");
  expect(ledger(session)).toContain("compaction default 5+0");
  expect([session.read().frames.length, model.requests.length]).toEqual([2, 0]);
});

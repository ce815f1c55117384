// What a new process does with what an earlier one accepted: effects/journal.ts, rules JE1-JE4, and runtime.recover.
// Kills of real processes are in test/crash.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime, definePlugin, defineTool, type RuntimeOptions } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, say, scriptedModel } from "marling/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import type { EffectKind } from "../../src/effects/contract.ts";
import { journalEffects } from "../../src/effects/journal.ts";
import type { EffectKey, SessionId, TurnId } from "../../src/model/ids.ts";
import type { JournalRecord } from "../../src/model/journal.ts";

const turn = { sessionId: "s" as SessionId, turnId: "t" as TurnId };
const request = (key: string, kind: EffectKind = "model_call") => ({ ...turn, key: key as EffectKey, kind });

function rows(known: readonly JournalRecord[] = []) {
  const written: JournalRecord[] = [...known];
  const appends: string[][] = [];
  return {
    written,
    appends,
    append: async (records: readonly JournalRecord[]) => {
      appends.push(records.map(({ key, status }) => `${status} ${key}`));
      written.push(...records);
    },
    read: async () => written,
  };
}

test("[JE1] an outcome that is known is returned and its effect is not performed", async () => {
  const journal = journalEffects(
    rows([{ ...turn, key: "0.model_call" as EffectKey, status: "done", outcome: { text: "recorded" } }]),
  );
  const outcome = await journal.run(request("0.model_call"), () => Promise.reject(new Error("performed")));
  expect(outcome).toEqual({ text: "recorded" });
});

test("[JE2] an outcome is written with the next effect that is performed, that of a tool attempt at once", async () => {
  const store = rows();
  const journal = journalEffects(store);
  await journal.run(request("0.model_call"), async () => 1);
  expect(store.appends).toEqual([]);
  await journal.run(request("0.tool.a.1", "tool_attempt"), async () => {
    expect(store.appends).toEqual([["done 0.model_call"]]);
    return 2;
  });
  expect(store.appends).toEqual([["done 0.model_call"], ["done 0.tool.a.1"]]);
  await journal.run(request("1.model_call"), async () => 3);
  await journal.flush?.(turn, "all");
  expect(store.appends.at(-1)).toEqual(["done 1.model_call"]);
});

test("[JE3] an effect that must not run twice leaves a mark first; found without an outcome it is cut", async () => {
  const store = rows();
  const first = journalEffects(store);
  const fault = new Error("the machine stopped");
  const cut = async (): Promise<string> => "cut";
  await expect(
    first.run(request("0.tool.a.1", "tool_attempt"), () => Promise.reject(fault), { cut }),
  ).rejects.toBe(fault);
  expect(store.appends).toEqual([["started 0.tool.a.1"]]);
  const second = journalEffects(store);
  expect(await second.run(request("0.tool.a.1", "tool_attempt"), async () => "again", { cut })).toBe("cut");
  const third = journalEffects(store);
  expect(await third.run(request("0.tool.a.1", "tool_attempt"), async () => "again", { cut })).toBe("cut");
});

test("[JE4] what an effect throws is passed on and tried again by the next run", async () => {
  const journal = journalEffects(rows());
  await expect(
    journal.run(request("0.model_call"), () => Promise.reject(new Error("disk full"))),
  ).rejects.toThrow("disk full");
  expect(await journal.run(request("0.model_call"), async () => "fine")).toBe("fine");
});

function database(): string {
  const folder = mkdtempSync(join(tmpdir(), "marling-recovery-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "agent.db");
}

/** A process that dies when it has come so far: its runtime is left where it is, and its store is let go as by a crash. */
async function dieIn(
  path: string,
  options: RuntimeOptions,
  { input = "go", when }: { readonly input?: string; readonly when: () => boolean },
): Promise<void> {
  const store = sqliteStore({ path });
  const runtime = createRuntime({ ...options, store });
  const session = await runtime.session("s");
  await session.turn(input, { key: "input" }).accepted;
  await vi.waitUntil(when);
  await store.close();
}

test("recover finishes an accepted turn: finished tools are not run again, an unsafe one that was cut is told as unknown", async () => {
  const path = database();
  const ran: string[] = [];
  const tool = (name: string, replay: "safe" | "unsafe", hangs: boolean) =>
    defineTool({
      name,
      description: "A tool.",
      input: { type: "object" },
      replay,
      execute: async () => {
        ran.push(name);
        if (hangs) await new Promise(() => {});
        return `${name} done`;
      },
    });
  const script = ({ messages }: { messages: readonly { role: string }[] }) =>
    messages.at(-1)?.role === "tool"
      ? say("all told")
      : callTools([
          ["finished", {}],
          ["cut_safe", {}],
          ["cut_unsafe", {}],
        ]);
  const tools = (hangs: boolean) => [
    tool("finished", "unsafe", false),
    tool("cut_safe", "safe", hangs),
    tool("cut_unsafe", "unsafe", hangs),
  ];
  await dieIn(path, { model: scriptedModel(script), tools: tools(true) }, { when: () => ran.length === 3 });
  expect(ran.toSorted()).toEqual(["cut_safe", "cut_unsafe", "finished"]);

  const model = scriptedModel(script);
  const runtime = createRuntime({ model, tools: tools(false), store: sqliteStore({ path }) });
  onTestFinished(() => runtime.close());
  const { resumed } = await runtime.recover();
  expect(resumed).toEqual([{ sessionId: "s", turnId: "s:turn:1" }]);
  expect(ran.slice(3)).toEqual(["cut_safe"]);
  expect(model.requests).toHaveLength(1);
  const session = await runtime.session("s");
  const report = await session.turn("go", { key: "input" }).result;
  expect(report.text).toBe("all told");
  expect(
    report.toolCalls.map(({ name, output }) => [
      name,
      output.outcome.kind === "failure" ? output.outcome.code : output.outcome.kind,
    ]),
  ).toEqual([
    ["finished", "success"],
    ["cut_safe", "success"],
    ["cut_unsafe", "unknown_outcome"],
  ]);
  expect(await runtime.recover()).toMatchObject({ resumed: [{ turnId: "s:turn:1" }] });
});

test("a session that is opened finishes its interrupted turn before a new input is applied", async () => {
  const path = database();
  let hangs = false;
  const hang = defineTool({
    name: "hang",
    description: "Hangs.",
    input: { type: "object" },
    replay: "safe",
    execute: () => {
      hangs = true;
      return new Promise(() => {});
    },
  });
  const script = ({ messages }: { messages: readonly { role: string }[] }) =>
    messages.at(-1)?.role === "tool" ? say("first") : callTool("hang", {});
  await dieIn(path, { model: scriptedModel(script), tools: [hang] }, { input: "one", when: () => hangs });
  const answers = defineTool({
    name: "hang",
    description: "Answers.",
    input: { type: "object" },
    replay: "safe",
    execute: () => "here",
  });
  const model = scriptedModel(({ messages }) =>
    messages.at(-1)?.role === "tool" ? say("first") : say("second"),
  );
  const runtime = createRuntime({ model, tools: [answers], store: sqliteStore({ path }) });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  expect((await session.run("two")).text).toBe("second");
  const words = session
    .read()
    .messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.kind === "text" || part.kind === "prose" ? [part.text] : [])),
    );
  expect(words).toEqual(["one", "first", "two", "second"]);
});

test("what was committed is there after a restart: history, plugin state, usage and the report of a key", async () => {
  const path = database();
  const first = createRuntime({
    model: scriptedModel([say("hello", { usage: { input: 5, output: 2 } })]),
    store: sqliteStore({ path }),
  });
  const before = await first.session("s");
  await before.run("hi", { key: "k" });
  const view = before.read();
  await first.close();
  const model = scriptedModel([]);
  const second = createRuntime({ model, store: sqliteStore({ path }) });
  onTestFinished(() => second.close());
  const session = await second.session("s");
  expect(session.read()).toEqual(view);
  const again = await session.turn("hi", { key: "k" }).result;
  expect(again).toMatchObject({ text: "hello", usage: { input: 5, output: 2 } });
  expect(model.requests).toHaveLength(0);
});

test("[JE2] a finished model call is written before handlers of the finished turn run", async () => {
  const store = sqliteStore({ path: database() });
  const known: string[] = [];
  const watching = definePlugin({
    id: "watching",
    build: () => ({
      session: {
        onEvent: async (event) => {
          if (event.kind !== "turn_finalized") return;
          const records = await store.journal?.read("s" as SessionId, event.turn.turnId as TurnId);
          known.push(...(records ?? []).map(({ key, status }) => `${status} ${key}`));
        },
      },
    }),
  });
  const runtime = createRuntime({ model: scriptedModel([say("hello")]), plugins: [watching()], store });
  onTestFinished(() => runtime.close());
  await (await runtime.session("s")).run("hi");
  expect(known).toContain("done 0.model_call");
});

// What turns and operations cost in write transactions: E4. Counted at the driver of SQLite, on a real file; a transaction
// counts when it changed a row, and is called by what it is for.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createRuntime,
  definePlugin,
  defineTool,
  type Plugin,
  type PluginParts,
  type Runtime,
  type RuntimeOptions,
  type Session,
  type ToolDefinition,
} from "marling";
import { callTool, callTools, type ScriptStep, say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type Deferred, deferred } from "../../src/base/deferred.ts";
import type { SqliteDatabase } from "../../src/store/sqlite/driver.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { type Tap, tappedDriver } from "../store/sqlite-support.ts";

/** What a transaction is called: the first of these that it has a statement of. */
const PURPOSES: readonly (readonly [sql: string, purpose: string])[] = [
  ["INSERT INTO commits", "commit"],
  ["INSERT INTO inbox", "admission"],
  ["INSERT INTO journal", "journal"],
  ["UPDATE inbox", "delivery"],
  ["DELETE FROM outbox", "outbox"],
];

interface Counted {
  readonly path: string;
  readonly runtime: Runtime;
  readonly session: Session;
  /** The write transactions so far, without that of the session's creation. */
  readonly writes: readonly string[];
}

type Options = Omit<RuntimeOptions, "store" | "model"> & { readonly script?: readonly ScriptStep[] };

async function counted({ script = [say("done")], ...options }: Options = {}): Promise<Counted> {
  const folder = mkdtempSync(join(tmpdir(), "marling-transactions-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const opened = await countedOn(join(folder, "agent.db"), { script, ...options });
  expect(opened.writes.splice(0)).toEqual(["commit"]);
  return opened;
}

async function countedOn(
  path: string,
  { script = [], ...options }: Options,
): Promise<Counted & { readonly writes: string[] }> {
  const tap: Tap = {};
  const store = openSqliteStore({ path }, { loadDriver: () => tappedDriver(tap) });
  await store.exists("s" as never);
  const writes = countWrites(tap);
  const runtime = createRuntime({ ...options, model: scriptedModel(script), store });
  onTestFinished(() => runtime.close());
  return { path, runtime, session: await runtime.session("s"), writes };
}

function countWrites(tap: Tap): string[] {
  const writes: string[] = [];
  let statements: string[] = [];
  let before = 0;
  const changes = (database: SqliteDatabase): number =>
    Number(database.prepare("SELECT total_changes() AS n").get()?.n);
  tap.before = (sql, _values, database) => {
    if (sql === "BEGIN IMMEDIATE") {
      statements = [];
      before = changes(database);
    } else if (sql === "COMMIT") {
      if (changes(database) === before) return;
      const purpose = PURPOSES.find(([start]) => statements.some((statement) => statement.startsWith(start)));
      writes.push(purpose?.[1] ?? statements.join("; "));
    } else statements.push(sql);
  };
  return writes;
}

function hooked(parts: PluginParts): Plugin {
  return definePlugin({ id: "hooked", build: () => parts })();
}

const silent = (): undefined => undefined;

type Variant = readonly [hook: string, parts: PluginParts, writes: readonly string[]];

describe("a text turn", () => {
  test("[E4] costs two transactions without hooks: the input with the lease, and the commit", async () => {
    const { session, writes } = await counted({ script: [say("one"), say("two")] });
    await session.run("go");
    expect(writes).toEqual(["admission", "commit"]);
    await session.run("go on");
    expect(writes).toEqual(["admission", "commit", "admission", "commit"]);
  });

  const FREE = ["admission", "commit"];
  const ONE_MORE = ["admission", "journal", "commit"];
  const variants: readonly Variant[] = [
    // Before the admission; what they decide is in it.
    ["input.before", { input: { before: silent } }, FREE],
    // Inside the model call: its outcome holds what they did, and rides with the commit.
    ["model.request", { model: { request: silent } }, FREE],
    ["output.stream", { output: { stream: silent } }, FREE],
    // Never asked: there is no call.
    ["toolCalls.before", { toolCalls: { before: silent } }, FREE],
    ["toolCalls.after", { toolCalls: { after: silent } }, FREE],
    ["approval.request", { approval: { request: silent } }, FREE],
    // Before the model call: what they and the prompt came to is written once, when the call begins.
    ["turn.before", { turn: { before: silent } }, ONE_MORE],
    ["prompt", { prompt: () => [] }, ONE_MORE],
    ["context.prepareTurn", { context: { prepareTurn: { transform: silent } } }, ONE_MORE],
    ["turn.before and prompt", { turn: { before: silent }, prompt: () => [] }, ONE_MORE],
    // After the model call, which was paid for: it is written before they run.
    ["output.response", { output: { response: silent } }, ONE_MORE],
    ["output.streamFinished", { output: { streamFinished: silent } }, ONE_MORE],
    [
      "output.response and output.streamFinished",
      { output: { response: silent, streamFinished: silent } },
      ONE_MORE,
    ],
    ["turn.checkpoint", { turn: { checkpoint: silent } }, ONE_MORE],
    ["turn.after", { turn: { after: silent } }, ONE_MORE],
    ["turn.checkpoint and turn.after", { turn: { checkpoint: silent, after: silent } }, ONE_MORE],
    // As before, and when they have been told of the commit that is written too.
    ["session.onEvent", { session: { onEvent: silent } }, [...ONE_MORE, "outbox"]],
    // What the hooks after the turn came to rides with the commit: whoever is told of its end may be told again.
    [
      "turn.after and session.onEvent",
      { turn: { after: silent }, session: { onEvent: silent } },
      [...ONE_MORE, "outbox"],
    ],
  ];
  test.each(variants)("[E4] with %s", async (_hook, parts, expected) => {
    const { session, writes } = await counted({ plugins: [hooked(parts)] });
    await session.run("go");
    expect(writes).toEqual(expected);
  });

  test.each([
    ["output.stream", FREE],
    ["output.response", ONE_MORE],
  ] as const)("[E4] plugin state that %s changes costs no transaction of its own", async (hook, expected) => {
    const counter = definePlugin({
      id: "counter",
      build: (ctx) => {
        const count = ctx.durable({ version: 1, initial: () => 0 });
        const add = () => void count.update((n) => n + 1);
        return { output: hook === "output.stream" ? { stream: add } : { response: add } };
      },
    });
    const { session, writes } = await counted({ plugins: [counter()] });
    await session.run("go");
    expect(writes).toEqual(expected);
  });
});

type Replay = "safe" | "idempotent" | "unsafe";
const REPLAYS: readonly Replay[] = ["safe", "idempotent", "unsafe"];

/** A tool that answers in the tick in which it is called. */
function look(replay: Replay): ToolDefinition {
  return defineTool({
    name: "look",
    description: "Looks.",
    input: { type: "object" },
    replay,
    execute: async () => "seen",
  });
}

const ONE_CALL = [callTool("look"), say("done")];
const FOUR_CALLS = [callTools(Array.from({ length: 4 }, () => ["look", {}] as const)), say("done")];

describe("a turn with a round of tools", () => {
  test.each(REPLAYS)(
    "[E4] one %s call: the model's answer with the mark of the call, then its outcome",
    async (replay) => {
      const { session, writes } = await counted({ script: ONE_CALL, tools: [look(replay)] });
      await session.run("go");
      expect(writes).toEqual(["admission", "journal", "journal", "commit"]);
    },
  );

  test.each(REPLAYS)(
    "[E4] four %s calls that settle together cost what one does: marks are written together, and so are outcomes",
    async (replay) => {
      const { session, writes } = await counted({ script: FOUR_CALLS, tools: [look(replay)] });
      await session.run("go");
      expect(writes).toEqual(["admission", "journal", "journal", "commit"]);
    },
  );

  test.each(REPLAYS)(
    "[E4] of four %s calls that settle one after the other each is written while the others run",
    async (replay) => {
      const gates: Deferred<void>[] = [];
      const wait = defineTool({
        name: "look",
        description: "Looks for as long as the test wants.",
        input: { type: "object" },
        replay,
        execute: async () => {
          const gate = deferred<void>();
          gates.push(gate);
          await gate.promise;
          return "seen";
        },
      });
      const { session, writes } = await counted({ script: FOUR_CALLS, tools: [wait] });
      const turn = session.turn("go");
      await vi.waitUntil(() => gates.length === 4);
      for (const [index, gate] of gates.entries()) {
        expect(writes).toEqual(["admission", ...Array.from({ length: index + 1 }, () => "journal")]);
        gate.resolve();
        await vi.waitUntil(() => writes.length > index + 2);
      }
      await turn.result;
      // The round itself is five: the answer with four marks, and four outcomes. The admission and the commit are the turn's.
      expect(writes).toEqual(["admission", "journal", "journal", "journal", "journal", "journal", "commit"]);
    },
  );

  const variants: readonly Variant[] = [
    // Inside the attempts.
    ["toolCalls.after", { toolCalls: { after: silent } }, ["admission", "journal", "journal", "commit"]],
    // Before the marks: the model's answer is written before the first of them runs, what they said with the marks.
    [
      "toolCalls.before",
      { toolCalls: { before: silent } },
      ["admission", "journal", "journal", "journal", "commit"],
    ],
    [
      "approval.request",
      { approval: { request: silent } },
      ["admission", "journal", "journal", "journal", "commit"],
    ],
    // Behind the outcomes: what it made of all of them is written when the next model call begins.
    [
      "toolResults.projector",
      { toolResults: { projector: () => "shown" } },
      ["admission", "journal", "journal", "journal", "commit"],
    ],
    // Before the first model call only: what it was made from does not move in the turn.
    ["prompt", { prompt: () => [] }, ["admission", "journal", "journal", "journal", "commit"]],
    // After the tools, written when the next model call begins; and after that call, which is written first.
    [
      "turn.checkpoint",
      { turn: { checkpoint: silent } },
      ["admission", "journal", "journal", "journal", "journal", "commit"],
    ],
  ];
  test.each(variants)("[E4] four calls with %s", async (_hook, parts, expected) => {
    const { session, writes } = await counted({
      script: FOUR_CALLS,
      tools: [look("unsafe")],
      plugins: [hooked(parts)],
    });
    await session.run("go");
    expect(writes).toEqual(expected);
  });

  test("[E4] an input that joins the turn costs its admission and its delivery", async () => {
    const [begun, gate] = [deferred<void>(), deferred<void>()];
    const wait = defineTool({
      name: "look",
      description: "Looks for as long as the test wants.",
      input: { type: "object" },
      replay: "safe",
      execute: async () => {
        begun.resolve();
        await gate.promise;
        return "seen";
      },
    });
    const { session, writes } = await counted({ script: ONE_CALL, tools: [wait] });
    const turn = session.turn("go");
    await begun.promise;
    await session.enqueue("and this");
    gate.resolve();
    await turn.result;
    expect(writes).toEqual(["admission", "journal", "admission", "journal", "delivery", "commit"]);
  });
});

describe("an idle session", () => {
  const counter = definePlugin({
    id: "counter",
    build: (ctx) => {
      const count = ctx.durable({ version: 1, initial: () => 0 });
      return {
        operations: {
          commands: {
            "counter.add": { session: "required", handler: () => void count.update((n) => n + 1) },
            "counter.nothing": { session: "required", handler: () => null },
          },
          queries: { "counter.read": { session: "required", handler: () => count.get() } },
        },
      };
    },
  });
  const message = { role: "user", content: "a note" } as const;
  const operations: readonly (readonly [name: string, run: (session: Session) => Promise<unknown>])[] = [
    ["appendNodes", (session) => session.appendNodes([{ kind: "message", message }])],
    ["configure", (session) => session.configure({ maxTurns: 7 })],
    ["a command", (session) => session.command("counter.add")],
  ];
  test.each(operations)("[E4] %s costs one transaction and no lease", async (_name, run) => {
    const { session, writes } = await counted({ plugins: [counter()] });
    await run(session);
    expect(writes).toEqual(["commit"]);
  });

  const free: readonly (readonly [name: string, run: (session: Session) => Promise<unknown>])[] = [
    ["a query", (session) => session.query("counter.read")],
    ["a command that changes nothing", (session) => session.command("counter.nothing")],
    ["reading", async (session) => [session.read(), await session.history(), await session.pending()]],
    ["a cancel of a turn that nobody knows", (session) => session.cancel("none")],
    ["closing", (session) => session.close()],
  ];
  test.each(free)("[E4] %s writes nothing", async (_name, run) => {
    const { session, writes } = await counted({ plugins: [counter()] });
    await run(session);
    expect(writes).toEqual([]);
  });

  test("[E4] configuring what is so already writes nothing", async () => {
    const { session, writes } = await counted();
    await session.configure({ maxTurns: 7 });
    await session.configure({ maxTurns: 7 });
    expect(writes).toEqual(["commit"]);
  });

  test("[E4] opening a session that exists writes nothing, in the same runtime and in another", async () => {
    const { session, runtime, path, writes } = await counted();
    await session.run("go");
    await session.close();
    const before = [...writes];
    await runtime.session("s");
    expect(writes).toEqual(before);
    await runtime.close();
    expect((await countedOn(path, {})).writes).toEqual([]);
  });

  test("[E4] an input that is known writes nothing, and a rejected one neither", async () => {
    const refuse = hooked({
      input: {
        before: ({ input }) =>
          input.text === "bad" ? { reject: { code: "no", message: "No." } } : undefined,
      },
    });
    const { session, writes } = await counted({ plugins: [refuse] });
    await session.turn("go", { key: "once" }).result;
    await session.turn("go", { key: "once" }).result;
    await expect(session.turn("bad").result).rejects.toMatchObject({ code: "input_rejected" });
    expect(writes).toEqual(["admission", "commit"]);
  });
});

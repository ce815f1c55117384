// What turns cost in bytes, promises and copies. Counted, never timed: the same script gives the same numbers.

import { createHook } from "node:async_hooks";
import { statSync } from "node:fs";
import { join } from "node:path";
import {
  createRuntime,
  defineTool,
  type ModelPort,
  type ModelRequest,
  type PluginParts,
  type Runtime,
  type RuntimeOptions,
  type Session,
  type SessionId,
  type Store,
} from "marling";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { query, rowsIn, type Tap, tappedDriver, temporaryFolder } from "../store/sqlite-support.ts";
import { plugin } from "./model-support.ts";

const USAGE = { input: 900, output: 400, cacheRead: 0, cacheWrite: 0, reasoning: 0 };

/** A model that calls a tool and then answers, with texts that no other turn has; remembers what it was sent. */
function toolModel(requests: ModelRequest[] = []): ModelPort {
  return {
    id: "counted",
    call: async (request) => {
      requests.push(request);
      const turn = request.messages.filter(({ role }) => role === "user").length;
      const isAnswer = request.messages.at(-1)?.role === "tool";
      const part = isAnswer
        ? ({ kind: "text", text: textOf("answer", turn) } as const)
        : ({ kind: "tool_call", callId: `c${turn}`, name: "look", args: `{"at":${turn}}` } as const);
      const finish = isAnswer ? "stop" : "tool_use";
      return { kind: "response", response: { parts: [part], usage: USAGE, finish } };
    },
  };
}

/** 300 characters in an order that depends on the turn only. */
function textOf(kind: string, turn: number): string {
  let seed = turn * 7919 + kind.length;
  let text = `${kind} ${String(turn).padStart(5, "0")}:`;
  while (text.length < 300) {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    text += ` ${seed.toString(36)}`;
  }
  return text.slice(0, 300);
}

const look = defineTool({
  name: "look",
  description: "Looks.",
  input: { type: "object" },
  execute: async (args) => `saw ${JSON.stringify(args)}`,
});

interface OnDisk {
  readonly path: string;
  readonly runtime: Runtime;
  readonly store: Store;
  readonly session: Session;
  /** Everything that was handed to SQLite to be written since the last call, as text. */
  written(): string;
  /** The rows that were read since the last call, and those of commits with their nodes. */
  read(): { readonly rows: number; readonly nodes: number };
}

async function onDisk(options: Omit<RuntimeOptions, "store">): Promise<OnDisk> {
  const path = join(temporaryFolder(), "agent.db");
  let values: unknown[] = [];
  let read = { rows: 0, nodes: 0 };
  const tap: Tap = {
    before: (sql, given, database) => {
      // The log is not written back while it is measured, so that its size is what was written; see below, too.
      if (sql === "BEGIN IMMEDIATE") database.exec("PRAGMA wal_autocheckpoint = 0");
      values.push(...given);
    },
    read: (sql, row) => {
      const count = rowsIn(row);
      read.rows += count;
      if (/\bnodes\b/.test(sql)) read.nodes += count;
    },
  };
  const internals = { loadDriver: () => tappedDriver(tap), commitsInLog: Number.POSITIVE_INFINITY };
  const store = openSqliteStore({ path }, internals);
  const runtime = createRuntime({ tools: [look], ...options, store });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const written = (): string => {
    const text = values.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value)).join("\n");
    values = [];
    return text;
  };
  const takeRead = (): typeof read => {
    const before = read;
    read = { rows: 0, nodes: 0 };
    return before;
  };
  return { path, runtime, store, session, written, read: takeRead };
}

describe("a long session", () => {
  test("[SQ2] a turn hands SQLite as much after 200 turns as after 10, and nothing of what was before", async () => {
    const { session, written } = await onDisk({ model: toolModel() });
    const [sizes, texts]: [number[], string[]] = [[], []];
    for (let turn = 1; turn <= 210; turn += 1) {
      await session.run(textOf("input", turn));
      const text = written();
      texts[turn] = text;
      sizes[turn] = text.length;
    }
    const mean = (from: number): number =>
      sizes.slice(from, from + 10).reduce((sum, size) => sum + size, 0) / 10;
    expect(mean(200)).toBeGreaterThan(600); // The turn's own texts are in it.
    expect(mean(200)).toBeLessThan(mean(10) * 1.03); // Ids have another digit, and nothing else grows.
    expect(texts[200]).toContain(textOf("answer", 200).slice(0, 40));
    for (const turn of [1, 100, 199]) expect(texts[200]).not.toContain(textOf("answer", turn).slice(0, 13));
  });

  test("[SQ2] the log grows by as much in turns 191 to 200 as in turns 11 to 20, within five percent", async () => {
    const { session, path } = await onDisk({ model: toolModel() });
    const sizes: number[] = [];
    for (let turn = 0; turn <= 200; turn += 1) {
      if (turn > 0) await session.run(textOf("input", turn));
      sizes.push(statSync(`${path}-wal`).size);
    }
    const grownTo = (turn: number): number => ((sizes[turn] ?? 0) - (sizes[turn - 10] ?? 0)) / 10;
    expect(grownTo(20)).toBeGreaterThan(1_000);
    expect(grownTo(200)).toBeGreaterThan(grownTo(20) * 0.95);
    expect(grownTo(200)).toBeLessThan(grownTo(20) * 1.05);
    expect(grownTo(200)).toBeLessThanOrEqual(15 * (512 + 24)); // Pages of the log.
  });

  test("[SQ2] [JR5] a turn of one call, whose texts are 1.6 KB, adds at most 18 pages to the log", async () => {
    const find = defineTool({
      name: "find",
      description: "Finds.",
      input: { type: "object" },
      execute: async () => textOf("found", 1).repeat(3).slice(0, 700),
    });
    const model: ModelPort = {
      ...toolModel(),
      call: async ({ messages }) => {
        const turn = messages.filter(({ role }) => role === "user").length;
        const isAnswer = messages.at(-1)?.role === "tool";
        const part = isAnswer
          ? ({ kind: "text", text: textOf("answer", turn).repeat(2) } as const)
          : ({
              kind: "tool_call",
              callId: `call_${turn}`,
              name: "find",
              args: JSON.stringify({ about: textOf("args", turn).slice(0, 100) }),
            } as const);
        return {
          kind: "response",
          response: { parts: [part], usage: USAGE, finish: isAnswer ? "stop" : "tool_use" },
        };
      },
    };
    const { runtime, path } = await onDisk({ model, tools: [find] });
    const session = await runtime.session("5f1d9c1e-0b52-4a0e-9a53-1f1f6a0f8f10");
    const pages: number[] = [];
    for (let turn = 1; turn <= 40; turn += 1) {
      const before = statSync(`${path}-wal`).size;
      await session.run(textOf("input", turn).slice(0, 200));
      pages.push((statSync(`${path}-wal`).size - before) / (512 + 24));
    }
    const mean = pages.slice(10).reduce((sum, count) => sum + count, 0) / 30;
    expect(mean).toBeLessThanOrEqual(18);
    expect(mean).toBeGreaterThan(10);
  });

  test("[LA1] a model is given the messages it was given before, and not copies of them", async () => {
    const requests: ModelRequest[] = [];
    const { session } = await onDisk({ model: toolModel(requests) });
    for (let turn = 1; turn <= 20; turn += 1) await session.run(textOf("input", turn));
    const [before, last] = requests.slice(-2).map(({ messages }) => messages);
    expect([before?.length, last?.length]).toEqual([77, 79]);
    for (const [index, message] of (before ?? []).entries()) expect(last?.[index]).toBe(message);
  });
});

describe("a fork", () => {
  test("[SL12] of 200 turns reads as many rows as one of 10, one of them with nodes, and hands SQLite as much", async () => {
    const { runtime, session, written, read } = await onDisk({ model: toolModel() });
    const costs: { readonly bytes: number; readonly rows: number; readonly nodes: number }[] = [];
    for (let turn = 1; turn <= 200; turn += 1) {
      await session.run(textOf("input", turn));
      if (turn !== 10 && turn !== 200) continue;
      await runtime.sessions.fork("s", { as: `warm-${turn}` });
      [written(), read()];
      await runtime.sessions.fork("s", { as: `fork-${String(turn).padStart(3, "0")}` });
      costs.push({ bytes: written().length, ...read() });
    }
    const [short, long] = costs;
    expect([short?.nodes, long?.nodes, long?.rows]).toEqual([1, 1, short?.rows]);
    expect(Math.abs((long?.bytes ?? 0) - (short?.bytes ?? 0))).toBeLessThan(10); // Ids have another digit.
  });

  test("[G11] 200 forks hold the nodes of their source, and not copies of them", async () => {
    const { runtime, session } = await onDisk({ model: toolModel() });
    for (let turn = 1; turn <= 10; turn += 1) await session.run(textOf("input", turn));
    const history = await session.history();
    const own = new Set<unknown>();
    const forks = Array.from({ length: 200 }, (_, index) => runtime.sessions.fork("s", { as: `f${index}` }));
    for (const fork of await Promise.all(forks)) {
      const nodes = await fork.history();
      expect([nodes.length, nodes, fork.read().messages]).toEqual([
        history.length,
        history,
        session.read().messages,
      ]);
      for (const node of [nodes, ...nodes, fork.read().messages]) own.add(node);
    }
    expect(own.size).toBe(history.length + 2); // The nodes, one list of them, and one list of their messages.
  });

  test("[G11] [LA1] the first turn of a fork gives its model the messages that its source's was given", async () => {
    const requests: ModelRequest[] = [];
    const { runtime, session } = await onDisk({ model: toolModel(requests) });
    for (let turn = 1; turn <= 5; turn += 1) await session.run(textOf("input", turn));
    const before = requests.at(-1)?.messages ?? [];
    const forks = [
      await runtime.sessions.fork("s", { as: "f" }),
      await runtime.sessions.fork("f", { as: "g" }),
    ];
    await session.run("goes on");
    for (const fork of forks) {
      await fork.run("goes its own way");
      const { messages = [] } = requests.at(-1) ?? {};
      expect([before.length, messages.length]).toEqual([19, 23]);
      expect(messages[20]).toMatchObject({ parts: [{ text: "goes its own way" }] });
      for (const [index, message] of before.entries()) expect(messages[index]).toBe(message);
    }
    await session.run("goes on again");
    const texts = JSON.stringify(requests.at(-1)?.messages);
    expect([texts.includes("goes on again"), texts.includes("goes its own way")]).toEqual([true, false]);
    expect(requests.at(-1)?.messages.length).toBe(27);
  });

  test("[SL12] of a session that is not open reads each node once", async () => {
    const { runtime, session, read } = await onDisk({ model: toolModel() });
    for (let turn = 1; turn <= 20; turn += 1) await session.run(textOf("input", turn));
    await session.close();
    read();
    const fork = await runtime.sessions.fork("s", { as: "f" });
    // The newest commit, to see where it ends; then the opening, twenty turns and the fork's own.
    expect(read().nodes).toBe(1 + 22);
    expect((await fork.history()).length).toBe(81);
  });
});

describe("a stored session", () => {
  test("[ST6] is read once when it is opened, by the host or for an input that was left in it", async () => {
    const { runtime, session, store, read } = await onDisk({ model: toolModel() });
    for (let turn = 1; turn <= 20; turn += 1) await session.run(textOf("input", turn));
    await session.close();
    read();
    await (await runtime.session("s")).close();
    expect(read().nodes).toBe(21); // The opening and twenty turns.
    const left = { input: { text: "left behind" } };
    await store.admit({ sessionId: "s" as SessionId, submitted: left, input: left });
    await runtime.recover();
    await vi.waitFor(async () => expect(await store.pending("s" as SessionId)).toEqual([]));
    expect(read().nodes).toBe(21);
  });
});

describe("the environment of a turn", () => {
  test("[EN1] a prompt hook is asked once in a turn of several rounds in which nothing moves", async () => {
    let asked = 0;
    const prompt = (): readonly [] => {
      asked += 1;
      return [];
    };
    const { session } = await onDisk({ model: toolModel(), plugins: [plugin("asked", { prompt })] });
    await session.run("one");
    expect(asked).toBe(1);
    await session.run("two");
    expect(asked).toBe(2);
  });

  test("[EN3] is kept once in a session in which neither its tools nor its prompt move", async () => {
    const { session, written, path } = await onDisk({
      model: toolModel(),
      instructions: "Say what you saw.",
    });
    await session.run("one");
    expect(written()).toContain("Say what you saw.");
    for (const text of ["two", "three"]) await session.run(text);
    await session.configure({ instructions: "Say less." });
    await session.run("four");
    const rows = await query(path, "SELECT count(*) AS n FROM blobs");
    expect(rows).toEqual([{ n: 2 }]);
  });
});

test.each<[string, Omit<RuntimeOptions, "store">]>([
  ["where nobody is asked", {}],
  ["where a prompt hook is", { plugins: [plugin("asked", { prompt: () => [] })] }],
])(
  "[EN4] sessions with the same prompt and tools have one environment, others their own, %s",
  async (_name, options) => {
    const requests: ModelRequest[] = [];
    const model = toolModel(requests);
    const { runtime } = await onDisk({ ...options, model, instructions: "Say what you saw." });
    const asked = async (id: string, instructions?: string): Promise<ModelRequest | undefined> => {
      const session = await runtime.session(id, instructions === undefined ? {} : { instructions });
      await session.run("go");
      return requests.at(-1);
    };
    const [one, other, third] = [await asked("one"), await asked("two"), await asked("three", "Say less.")];
    expect(other?.system).toBe(one?.system);
    expect(other?.tools).toBe(one?.tools);
    expect(third?.system).toContain("Say less.");
    expect(third?.tools).not.toBe(one?.tools);
  },
);

test("[EN5] what plugins contribute is what they say now, whether they said it before or not", async () => {
  const said = ["Be brief.", "Be brief.", "Be kind.", "Be brief."];
  const left = [...said];
  const speaker = plugin("speaker", {
    prompt: () => [{ slot: "guidance", content: left.shift() ?? "" }],
  });
  const requests: ModelRequest[] = [];
  const { session } = await onDisk({ model: toolModel(requests), plugins: [speaker] });
  for (const turn of said.keys()) await session.run(`turn ${turn}`);
  const asked = requests.filter((_request, index) => index % 2 === 0); // Each turn asks twice.
  expect(asked.map(({ system }) => /Be \w+\./.exec(system)?.[0])).toEqual(said);
});

/** The promises of a turn in which the model asks for so many calls at once. */
async function promisesOfCalls(count: number): Promise<number> {
  let made = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type === "PROMISE") made += 1;
    },
  });
  const model: ModelPort = {
    id: "calls",
    call: async ({ messages }) => {
      const isAnswer = messages.at(-1)?.role === "tool";
      const calls = Array.from(
        { length: count },
        (_, n) => ({ kind: "tool_call", callId: `c${n}`, name: "look", args: `{"at":${n}}` }) as const,
      );
      const parts = isAnswer ? [{ kind: "text", text: "Done." } as const] : calls;
      return { kind: "response", response: { parts, usage: USAGE, finish: isAnswer ? "stop" : "tool_use" } };
    },
  };
  const { session } = await onDisk({ model });
  hook.enable();
  await session.run("go");
  hook.disable();
  await session.close();
  return made;
}

test("[DP5] a call in which nobody else takes part makes at most 32 promises, from its check to its write", async () => {
  const [few, many] = [await promisesOfCalls(2), await promisesOfCalls(12)];
  expect((many - few) / 10).toBeGreaterThan(20);
  expect((many - few) / 10).toBeLessThanOrEqual(32);
});

interface StreamOptions {
  readonly isObserved?: boolean;
  /** Whether each chunk comes in a tick of its own. */
  readonly isPaced?: boolean;
}

/** Runs a turn whose answer comes in so many chunks; returns the promises that were made from the first to the last. */
async function promisesOfStream(
  chunks: number,
  parts: PluginParts | undefined,
  { isObserved = false, isPaced = false }: StreamOptions = {},
): Promise<number> {
  let made = 0;
  const hook = createHook({
    init: (_id, type) => {
      if (type === "PROMISE") made += 1;
    },
  });
  const text = "word ".repeat(chunks);
  const model: ModelPort = {
    id: "streams",
    call: async (_request, { sink }) => {
      hook.enable();
      for (let chunk = 0; chunk < chunks; chunk += 1) {
        sink({ kind: "text_delta", text: "word " });
        if (isPaced) await new Promise((resolve) => setImmediate(resolve));
      }
      await new Promise((resolve) => setImmediate(resolve));
      hook.disable();
      return {
        kind: "response",
        response: { parts: [{ kind: "text", text }], usage: USAGE, finish: "stop" },
      };
    },
  };
  const plugins = parts === undefined ? [] : [plugin("streams", parts)];
  const { session } = await onDisk({ model, plugins });
  const seen = isObserved ? deltasOf(session) : undefined;
  await session.run("go");
  await session.close();
  if (seen !== undefined) expect(await seen).toBe(chunks);
  return made;
}

async function deltasOf(session: Session): Promise<number> {
  let deltas = 0;
  for await (const { kind, ...observation } of session.observe())
    if (kind === "event" && "event" in observation && observation.event.kind === "text_delta") deltas += 1;
  return deltas;
}

/** Promises of a chunk: what the second thousand makes, without the few that others make meanwhile. */
async function promisesPerChunk(parts?: PluginParts, options: StreamOptions = {}): Promise<number> {
  const thousand = await promisesOfStream(1_000, parts, options);
  const more = (await promisesOfStream(2_000, parts, options)) - thousand;
  return Math.max(0, Math.round(more / 1_000)); // Fewer by chance would be rounded to -0.
}

describe("a streamed chunk", () => {
  test("[MS1] makes no promise", async () => {
    expect(await promisesPerChunk()).toBe(0);
  });

  test("[MS1] makes none with hooks that answer at once", async () => {
    const stream = [({ chunk }: { readonly chunk: string }) => ({ chunk }), () => undefined];
    expect(await promisesPerChunk({ output: { stream } })).toBe(0);
  });

  test("[MS1] makes some with a hook that returns a promise", async () => {
    expect(await promisesPerChunk({ output: { stream: async () => undefined } })).toBeGreaterThan(0);
  });

  test("[OB2] costs an observer what its loop makes, and no more", async () => {
    expect(await promisesPerChunk(undefined, { isObserved: true })).toBeLessThanOrEqual(2);
  });

  test("[OB2] that comes alone wakes an observer for three promises, those of its loop included", async () => {
    const alone = await promisesPerChunk(undefined, { isPaced: true });
    const observed = await promisesPerChunk(undefined, { isPaced: true, isObserved: true });
    expect(observed - alone).toBeGreaterThan(0);
    expect(observed - alone).toBeLessThanOrEqual(3);
  });
});

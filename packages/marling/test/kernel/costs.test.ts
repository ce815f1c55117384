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
  type RuntimeOptions,
  type Session,
} from "marling";
import { describe, expect, onTestFinished, test } from "vitest";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { query, type Tap, tappedDriver, temporaryFolder } from "../store/sqlite-support.ts";
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
  readonly session: Session;
  /** Everything that was handed to SQLite to be written since the last call, as text. */
  written(): string;
}

async function onDisk(options: Omit<RuntimeOptions, "store">): Promise<OnDisk> {
  const path = join(temporaryFolder(), "agent.db");
  let values: unknown[] = [];
  let isCounting = false;
  const tap: Tap = {
    before: (sql, given, database) => {
      // The log is not written back while it is measured, so that its size is what was written.
      if (!isCounting && sql === "BEGIN IMMEDIATE") database.exec("PRAGMA wal_autocheckpoint = 0");
      isCounting ||= sql === "BEGIN IMMEDIATE";
      values.push(...given);
    },
  };
  const store = openSqliteStore({ path }, { loadDriver: () => tappedDriver(tap) });
  const runtime = createRuntime({ tools: [look], ...options, store });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  const written = (): string => {
    const text = values.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value)).join("\n");
    values = [];
    return text;
  };
  return { path, session, written };
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
    expect(grownTo(200)).toBeLessThan(grownTo(20) * 1.05);
    expect(grownTo(200)).toBeLessThan(12 * 1024);
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

/** Runs a turn whose answer comes in so many chunks; returns the promises that were made from the first to the last. */
async function promisesOfStream(
  chunks: number,
  parts: PluginParts | undefined,
  isObserved = false,
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
      for (let chunk = 0; chunk < chunks; chunk += 1) sink({ kind: "text_delta", text: "word " });
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
async function promisesPerChunk(parts?: PluginParts, isObserved = false): Promise<number> {
  const thousand = await promisesOfStream(1_000, parts, isObserved);
  const more = (await promisesOfStream(2_000, parts, isObserved)) - thousand;
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
    expect(await promisesPerChunk(undefined, true)).toBeLessThanOrEqual(3);
  });
});

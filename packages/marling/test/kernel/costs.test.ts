// What turns cost in bytes and copies. Counted, never timed: the same script gives the same numbers.

import { statSync } from "node:fs";
import { defineTool, type ModelPort, type ModelRequest, type RuntimeOptions, type SessionId } from "marling";
import { describe, expect, test, vi } from "vitest";
import { SharedList } from "../../src/base/shared-list.ts";
import { query } from "../store/sqlite-support.ts";
import { inMemory, onDisk, USAGE } from "./costs-support.ts";
import { plugin } from "./model-support.ts";

/** What a model says in a turn. */
interface Said {
  readonly args: object;
  readonly answer: string;
}

const says = (turn: number): Said => ({ args: { at: turn }, answer: textOf("answer", turn) });

/** A model that calls a tool and then answers, with texts that no other turn has; remembers what it was sent. */
function toolModel(requests: ModelRequest[] = [], said: (turn: number) => Said = says): ModelPort {
  return {
    id: "counted",
    call: async (request) => {
      requests.push(request);
      const turn = request.messages.filter(({ role }) => role === "user").length;
      const { args, answer } = said(turn);
      const isAnswer = request.messages.at(-1)?.role === "tool";
      const part = isAnswer
        ? ({ kind: "text", text: answer } as const)
        : ({ kind: "tool_call", callId: `c${turn}`, name: "look", args: JSON.stringify(args) } as const);
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

test("[T7] a turn of 40 rounds puts each of its messages once behind what its model is shown", async () => {
  const model: ModelPort = {
    id: "counted",
    call: async ({ messages }) => {
      const round = messages.filter(({ role }) => role === "assistant").length + 1;
      const part =
        round > 40
          ? ({ kind: "text", text: "done" } as const)
          : ({ kind: "tool_call", callId: `c${round}`, name: "look", args: "{}" } as const);
      const finish = round > 40 ? "stop" : "tool_use";
      return { kind: "response", response: { parts: [part], usage: USAGE, finish } };
    },
  };
  const { session } = await onDisk({ model });
  const appending = vi.spyOn(SharedList.prototype, "append");
  await session.run("Look forty times.");
  const appended = appending.mock.calls.reduce((sum, [added]) => sum + added.length, 0);
  appending.mockRestore();
  const messages = session.read().messages.length;
  expect(messages).toBe(82);
  expect(appended).toBeGreaterThanOrEqual(messages); // The committed history, at least.
  expect(appended).toBeLessThanOrEqual(3 * messages); // Its nodes, its messages, and what the model was shown.
});

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
    const found = defineTool({
      name: "look",
      description: "Looks.",
      input: { type: "object" },
      execute: async () => textOf("found", 1).repeat(3).slice(0, 700),
    });
    const model = toolModel([], (turn) => ({
      args: { about: textOf("args", turn).slice(0, 100) },
      answer: textOf("answer", turn).repeat(2),
    }));
    const { runtime, path } = await onDisk({ model, tools: [found] });
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

const asking = { plugins: [plugin("asked", { prompt: () => [] })] };

test.each<[string, typeof onDisk | typeof inMemory, Omit<RuntimeOptions, "store">]>([
  ["on disk where nobody is asked", onDisk, {}],
  ["on disk where a prompt hook is", onDisk, asking],
  ["in memory where nobody is asked", inMemory, {}],
  ["in memory where a prompt hook is", inMemory, asking],
])(
  "[EN4] sessions with the same prompt and tools have one environment, others their own, %s",
  async (_name, open, options) => {
    const requests: ModelRequest[] = [];
    const model = toolModel(requests);
    const { runtime } = await open({ ...options, model, instructions: "Say what you saw." });
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

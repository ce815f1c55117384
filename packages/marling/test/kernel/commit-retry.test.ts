// Commits that the store refuses: the answer is kept, and the commit is tried again (commit.ts, C8; effects/journal.ts, JE11).

import { definePlugin } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, ManualClock, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { MarlingError as Failure } from "../../src/base/errors.ts";
import { journalEffects } from "../../src/effects/journal.ts";
import type { EffectKey, SessionId, TurnId } from "../../src/model/ids.ts";
import type { JournalRecord } from "../../src/model/journal.ts";
import { sumOfRow } from "../../src/store/sqlite/row-sum.ts";
import type { CallStore } from "../../src/testing/faulty-store.ts";
import { query } from "../store/sqlite-support.ts";
import { BACKINGS, database, live, quickTool } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";
import { rejectionOf } from "./tools-support.ts";

/** A store that refuses some methods as long as a test wants it to. */
function refusing() {
  const refused = new Set<string>();
  const tried: string[] = [];
  const around: CallStore = (method, call) => {
    if (!refused.has(method)) return call();
    tried.push(method);
    return Promise.reject(new Failure("io_failed", `the store refused ${method}`));
  };
  return { refused, tried, around };
}

/** Lets time pass until something has settled; returns how much did. */
async function passUntil(clock: ManualClock, settled: Promise<unknown>, stepMs = 250): Promise<number> {
  const began = clock.monotonic();
  let isOver = false;
  const over = (): void => {
    isOver = true;
  };
  settled.then(over, over);
  for (let step = 0; step < 2_000; step += 1) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (isOver) return clock.monotonic() - began;
    clock.advance(stepMs);
  }
  throw new Error("expected it to settle, found it waiting");
}

const unasked = () => {
  throw new Error("expected no model call");
};

const REFUSED = { code: "io_failed", advice: "retry" };

describe.each(BACKINGS)("on $name", ({ open }) => {
  test("[C8] a commit that is refused for half a minute is made then, with the same answer", async () => {
    const clock = new ManualClock({ startsAt: 1_000_000 });
    const { refused, tried, around } = refusing();
    const { session, model } = await live({ store: open()(), around, clock, script: [say("bought once")] });
    refused.add("commit");
    const turn = session.turn("go", { key: "k" });
    await expect.poll(() => tried.length).toBe(1);
    for (let second = 0; second < 30; second += 1) {
      clock.advance(1_000);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect(tried.filter((method) => method === "commit").length).toBeGreaterThan(5);
    refused.clear();
    await passUntil(clock, turn.result);
    expect(await turn.result).toMatchObject({ text: "bought once", revision: 2 });
    expect(model.requests).toHaveLength(1);
  });

  test.each([
    [undefined, 60_000],
    [5_000, 5_000],
    [0, 0],
  ])(
    "[C8] with storeRetryMs %s it is given up after %i ms, and the turn stays accepted",
    async (limit, expected) => {
      const clock = new ManualClock({ startsAt: 1_000_000 });
      const { refused, around } = refusing();
      const options = limit === undefined ? {} : { storeRetryMs: limit };
      const { session } = await live({
        store: open()(),
        around,
        clock,
        script: () => say("hello"),
        ...options,
      });
      refused.add("commit").add("journal.append");
      const turn = session.turn("go", { key: "k" });
      const passed = await passUntil(clock, turn.result, 50);
      expect(await rejectionOf(turn.result)).toMatchObject(REFUSED);
      expect(passed).toBeGreaterThanOrEqual(expected);
      expect(passed).toBeLessThan(expected + 1_000);
      expect(await session.pending()).toMatchObject([{ key: "k" }]);
      refused.clear();
      const again = session.turn("go", { key: "k" });
      await passUntil(clock, again.result);
      expect((await again.result).turnId).toBe(turn.id);
    },
  );

  test("[C8] a command whose commit is refused has run once when it is made", async () => {
    const clock = new ManualClock({ startsAt: 1_000_000 });
    const { refused, tried, around } = refusing();
    let ran = 0;
    const counting = definePlugin({
      id: "counting",
      build: (ctx) => {
        const count = ctx.durable({ version: 1, initial: () => 0 });
        const handler = (): number => {
          ran += 1;
          count.update((value) => value + 1);
          return count.get();
        };
        return { operations: { commands: { add: { handler } } } };
      },
    });
    const { session } = await live({ store: open()(), around, clock, plugins: [counting()] });
    refused.add("commit");
    const command = session.command("add", {});
    await expect.poll(() => tried.length).toBeGreaterThan(0);
    clock.advance(10_000);
    refused.clear();
    await passUntil(clock, command);
    expect((await command).output).toBe(1);
    expect(ran).toBe(1);
  });
});

test("[E9] an answer that could be written nowhere is not bought again in the same process", async () => {
  const { refused, around } = refusing();
  const store = sqliteStore({ path: database() });
  const { session, model } = await live({ store, around, storeRetryMs: 0, script: [say("bought once")] });
  refused.add("commit").add("journal.append");
  for (let attempt = 0; attempt < 3; attempt += 1)
    expect(await rejectionOf(session.turn("go", { key: "k" }).result)).toMatchObject(REFUSED);
  refused.clear();
  expect((await session.turn("go", { key: "k" }).result).text).toBe("bought once");
  expect(model.requests).toHaveLength(1);
});

test("[E9] an answer that the journal took is not bought again in any process", async () => {
  const path = database();
  const { refused, around } = refusing();
  const first = await live({
    store: sqliteStore({ path }),
    around,
    storeRetryMs: 0,
    script: [callTool("look"), say("bought once")],
    tools: [quickTool("look")],
  });
  refused.add("commit");
  const turn = first.session.turn("go", { key: "k" });
  expect(await rejectionOf(turn.result)).toMatchObject(REFUSED);
  await first.runtime.close();
  const second = await live({ store: sqliteStore({ path }), script: unasked, tools: [quickTool("look")] });
  await second.runtime.recover();
  const report = await second.session.turn("go", { key: "k" }).result;
  expect(report).toMatchObject({ text: "bought once", turnId: turn.id });
  expect(report.toolCalls).toHaveLength(1);
});

test("[E9] a commit that was made and whose answer was lost leaves no records of the turn behind", async () => {
  const path = database();
  let isLost = false;
  const { session, model } = await live({
    store: sqliteStore({ path }),
    script: [say("hello")],
    around: async (method, call) => {
      const answer = await call();
      if (method !== "commit" || !isLost) return answer;
      isLost = false;
      throw new Failure("io_failed", "the answer was lost");
    },
  });
  isLost = true;
  expect((await session.turn("go").result).text).toBe("hello");
  expect(model.requests).toHaveLength(1);
  expect(session.read().turnIndex).toBe(1);
  expect(await query(path, "SELECT entry FROM journal")).toEqual([]);
});

/** Writes the lease as another process would have claimed it, with the checksum of its row. */
async function giveLeaseAway(path: string): Promise<void> {
  const [held] = await query(path, "SELECT * FROM leases");
  const row = { ...held, owner: "other", incarnation: "other", generation: Number(held?.generation) + 1 };
  const sum = sumOfRow("leases", row);
  const set = `owner = 'other', incarnation = 'other', generation = ${row.generation}, sum = ${sum}`;
  await query(path, `UPDATE leases SET ${set}`);
}

describe("retrying ends", () => {
  test("[E13] when the lease is lost: the turn is another process's, and its answer counts", async () => {
    const path = database();
    const clock = new ManualClock({ startsAt: 1_000_000 });
    const { refused, tried, around } = refusing();
    const first = await live({ store: sqliteStore({ path }), around, clock, script: [say("mine")] });
    refused.add("commit").add("journal.append");
    const turn = first.session.turn("go", { key: "k" });
    await expect.poll(() => tried.length).toBeGreaterThan(0);
    await giveLeaseAway(path);
    refused.clear();
    await passUntil(clock, turn.result);
    expect(await rejectionOf(turn.result)).toMatchObject({ code: "lease_lost" });
  });

  test("[C8] when the turn is cancelled: it ends as cancelled, with the answer in its history", async () => {
    const clock = new ManualClock({ startsAt: 1_000_000 });
    const { refused, tried, around } = refusing();
    const store = sqliteStore({ path: database() });
    const { session, model } = await live({ store, around, clock, script: [say("bought once")] });
    refused.add("commit");
    const turn = session.turn("go", { key: "k" });
    await expect.poll(() => tried.length).toBeGreaterThan(0);
    const cancelled = session.cancel(turn.id, "enough");
    refused.clear();
    const passed = await passUntil(clock, turn.result, 10);
    await cancelled;
    expect((await turn.result).outcome).toMatchObject({ reason: "cancelled", message: "enough" });
    expect(transcript(session)).toEqual(["user: go", "assistant: bought once"]);
    expect(model.requests).toHaveLength(1);
    expect(passed).toBeLessThan(2_500);
  });

  test("[C8] soon when a cancelled turn is refused as well; its request stays in the store", async () => {
    const clock = new ManualClock({ startsAt: 1_000_000 });
    const { refused, tried, around } = refusing();
    const store = sqliteStore({ path: database() });
    const { session, model } = await live({ store, around, clock, script: [say("bought once")] });
    refused.add("commit");
    const turn = session.turn("go", { key: "k" });
    await expect.poll(() => tried.length).toBeGreaterThan(0);
    const cancelled = session.cancel(turn.id, "enough");
    const passed = await passUntil(clock, turn.result, 50);
    await cancelled;
    expect(await rejectionOf(turn.result)).toMatchObject(REFUSED);
    expect(passed).toBeLessThan(5_000);
    refused.clear();
    const again = session.turn("go", { key: "k" });
    await passUntil(clock, again.result);
    expect((await again.result).outcome).toMatchObject({ reason: "cancelled" });
    expect(model.requests).toHaveLength(1);
  });

  test("[TQ6] when the runtime is closed: the turn is left to the store after the grace", async () => {
    const path = database();
    const clock = new ManualClock({ startsAt: 1_000_000 });
    const { refused, tried, around } = refusing();
    const first = await live({ store: sqliteStore({ path }), around, clock, script: [say("bought once")] });
    refused.add("commit");
    const turn = first.session.turn("go", { key: "k" });
    await expect.poll(() => tried.length).toBeGreaterThan(0);
    const closing = first.runtime.close({ graceMs: 3_000 });
    const passed = await passUntil(clock, closing, 100);
    expect(passed).toBeGreaterThanOrEqual(3_000);
    expect(passed).toBeLessThan(6_000);
    expect(await rejectionOf(turn.result)).toMatchObject({ code: "runtime_closed" });
    const tries = tried.length;
    clock.advance(60_000);
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(tried.length).toBe(tries);
    const second = await live({ store: sqliteStore({ path }), script: unasked });
    await second.runtime.recover();
    expect((await second.session.turn("go", { key: "k" }).result).text).toBe("bought once");
  });

  test("[TQ6] when the store takes the commit within the grace: the turn is finished", async () => {
    const clock = new ManualClock({ startsAt: 1_000_000 });
    const { refused, tried, around } = refusing();
    const store = sqliteStore({ path: database() });
    const { session, runtime } = await live({ store, around, clock, script: [say("bought once")] });
    refused.add("commit");
    const turn = session.turn("go", { key: "k" });
    await expect.poll(() => tried.length).toBeGreaterThan(0);
    const closing = runtime.close({ graceMs: 30_000 });
    clock.advance(2_000);
    refused.clear();
    await passUntil(clock, closing);
    expect((await turn.result).text).toBe("bought once");
  });
});

describe("outcomes that a fault left in memory", () => {
  const turn = { sessionId: "s" as SessionId, turnId: "t" as TurnId };
  const model = { ...turn, key: "0.model_call" as EffectKey, kind: "model_call" } as const;
  const pay = { ...turn, key: "0.tool.pay.1" as EffectKey, kind: "tool_attempt" } as const;
  const done = (key: string, outcome: string): JournalRecord => ({
    ...turn,
    key: key as EffectKey,
    status: "done",
    outcome,
  });
  const mark = (key: string): JournalRecord => ({ ...turn, key: key as EffectKey, status: "started" });

  /** A journal with a model call that could not be written, and the rows that it finds then. */
  async function left(lease: number, rows: JournalRecord[]) {
    let isRefused = true;
    const appended: JournalRecord[] = [];
    const journal = journalEffects({
      append: async (records) => {
        if (isRefused) throw new Failure("io_failed", "no room");
        appended.push(...records);
      },
      read: async () => (isRefused ? [] : rows),
    });
    const cut = async (): Promise<string> => "unknown";
    await journal.run({ ...model, lease }, async () => "mine");
    await rejectionOf(journal.run({ ...pay, lease }, async () => "paid", { cut }));
    journal.abandon?.({ ...turn, lease });
    isRefused = false;
    const again = async (next: number): Promise<readonly [string, string]> => [
      await journal.run({ ...model, lease: next }, async () => "again"),
      await journal.run({ ...pay, lease: next }, async () => "paid", { cut }),
    ];
    return { again, appended };
  }

  test("[JE12] are there in the next run, and an effect that never began is not cut", async () => {
    const { again, appended } = await left(4, []);
    expect(await again(5)).toEqual(["mine", "paid"]);
    expect(appended.map(({ key, status }) => `${status} ${key}`)).toEqual([
      "done 0.model_call",
      "started 0.tool.pay.1",
      "done 0.tool.pay.1",
    ]);
  });

  test("[JE12] are there when the store has them after all", async () => {
    const { again } = await left(4, [
      done("0.model_call", "mine"),
      mark("0.tool.pay.1"),
      mark("recovery.0.1"),
    ]);
    expect(await again(5)).toEqual(["mine", "paid"]);
  });

  test("[JE12] are dropped where another process has recorded something else", async () => {
    const { again } = await left(4, [done("0.model_call", "another's")]);
    expect(await again(6)).toEqual(["another's", "paid"]);
    const { again: other } = await left(4, [mark("0.tool.other.1")]);
    expect(await other(6)).toEqual(["again", "paid"]);
  });

  test("[JE12] a mark that another process may have made is one of a cut effect", async () => {
    const { again } = await left(4, [mark("0.tool.pay.1")]);
    expect(await again(6)).toEqual(["mine", "unknown"]);
  });

  test("[JE11] are written again within the time, by one write at a time", async () => {
    const clock = new ManualClock();
    let refusals = 3;
    const appended: string[] = [];
    const journal = journalEffects(
      {
        append: async (records) => {
          if (refusals > 0) {
            refusals -= 1;
            throw new Error("no room");
          }
          appended.push(...records.map(({ key }) => key));
        },
        read: async () => [],
      },
      { clock, limitMs: 1_000 },
    );
    await journal.run(model, async () => "said");
    const ran = journal.run(pay, async () => "paid");
    await passUntil(clock, ran, 50);
    expect(await ran).toBe("paid");
    expect(appended).toEqual(["0.model_call", "0.tool.pay.1"]);
  });
});

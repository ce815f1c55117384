// When the journal writes: effects/SPEC.md, rule JE2.

import { expect, test } from "vitest";
import type { EffectHost, EffectKind } from "../../src/effects/contract.ts";
import { journalEffects } from "../../src/effects/journal.ts";
import type { EffectKey, SessionId, TurnId } from "../../src/model/ids.ts";
import type { JournalRecord } from "../../src/model/journal.ts";

const turn = { sessionId: "s" as SessionId, turnId: "t" as TurnId };

/** A journal, and the keys of each write to it. */
function watched(): { readonly effects: EffectHost; readonly appends: string[][] } {
  const appends: string[][] = [];
  const append = async (records: readonly JournalRecord[]): Promise<void> => {
    appends.push(records.map(({ key, status }) => `${status} ${key}`));
  };
  return { effects: journalEffects({ append, read: async () => [] }), appends };
}

async function run(effects: EffectHost, key: string, kind: EffectKind): Promise<void> {
  await effects.run({ ...turn, key: key as EffectKey, kind }, async () => null);
}

test("[JE2] what hooks and environments came to is written together, before an effect that may take long", async () => {
  const { effects, appends } = watched();
  await run(effects, "before", "hook_phase");
  await run(effects, "environment", "environment");
  await run(effects, "checkpoint", "checkpoint");
  expect(appends).toEqual([]);
  await run(effects, "model", "model_call");
  expect(appends).toEqual([["done before", "done environment", "done checkpoint"]]);
});

test("[JE2] what was paid for is written before a hook runs, and what hooks came to before it with it", async () => {
  const { effects, appends } = watched();
  await run(effects, "model", "model_call");
  await run(effects, "checkpoint", "checkpoint");
  await run(effects, "after", "hook_phase");
  expect(appends).toEqual([["done model"]]);
  await run(effects, "code", "code_cell");
  await run(effects, "again", "hook_phase");
  expect(appends.slice(1)).toEqual([["done checkpoint", "done after"], ["done code"]]);
});

test("[JE2] before code that is no effect what was paid for is written, and what hooks came to is not", async () => {
  const { effects, appends } = watched();
  await run(effects, "before", "hook_phase");
  await effects.flush?.(turn, "paid");
  expect(appends).toEqual([]);
  await effects.flush?.(turn, "all");
  expect(appends).toEqual([["done before"]]);
  await run(effects, "model", "model_call");
  await effects.flush?.(turn, "paid");
  expect(appends.slice(1)).toEqual([["done model"]]);
});

test("[JE2] a hook waits for what was paid for until it is written, also when somebody else asked for the write", async () => {
  let written = (): void => undefined;
  const slow = new Promise<void>((resolve) => {
    written = resolve;
  });
  const effects = journalEffects({ append: () => slow, read: async () => [] });
  await run(effects, "model", "model_call");
  const order: string[] = [];
  const flushed = effects.flush?.(turn, "all").then(() => order.push("written"));
  const hook = effects.run({ ...turn, key: "hook" as EffectKey, kind: "hook_phase" }, async () => {
    order.push("hook");
    return null;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(order).toEqual([]);
  written();
  await Promise.all([flushed, hook]);
  expect(order.toSorted()).toEqual(["hook", "written"]);
});

test("[JE8] attempts that begin together leave their marks in one write, and their outcomes in another", async () => {
  const { effects, appends } = watched();
  await run(effects, "model", "model_call");
  const cut = async (): Promise<null> => null;
  const attempt = (key: string): Promise<null> =>
    effects.run({ ...turn, key: key as EffectKey, kind: "tool_attempt" }, async () => null, { cut });
  await Promise.all(["one", "two", "three"].map(attempt));
  expect(appends).toEqual([
    ["done model", "started one", "started two", "started three"],
    ["done one", "done two", "done three"],
  ]);
});

test("[JE8] each of them is told when the write fails that they share", async () => {
  const effects = journalEffects({
    append: () => Promise.reject(new Error("no room")),
    read: async () => [],
  });
  const attempts = ["one", "two"].map((key) => run(effects, key, "tool_attempt"));
  const ends = await Promise.allSettled(attempts);
  expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
});

test("[JE9] of a turn that nobody can have begun nothing is read, until it is let go", async () => {
  let reads = 0;
  const read = async (): Promise<readonly []> => {
    reads += 1;
    return [];
  };
  const effects = journalEffects({ append: async () => undefined, read });
  effects.begin?.(turn);
  await run(effects, "model", "model_call");
  expect(await effects.knows?.(turn, "model" as EffectKey)).toBe(true);
  expect(reads).toBe(0);
  effects.forget?.(turn);
  await run(effects, "model", "model_call");
  expect(reads).toBe(1);
});

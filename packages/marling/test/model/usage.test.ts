import { expect, test } from "vitest";
import {
  addToLedger,
  addUsage,
  decodeUsage,
  decodeUsageEntry,
  isNoUsage,
  NO_USAGE,
  type TokenUsage,
  totalTokens,
} from "../../src/model/usage.ts";
import { refusal } from "../base/refusal.ts";

const SPENT: TokenUsage = { input: 10, output: 5, cacheRead: 100, cacheWrite: 20, reasoning: 3 };

test("usage adds up bucket by bucket", () => {
  expect(addUsage(SPENT, { input: 1, output: 2, cacheRead: 3, cacheWrite: 4, reasoning: 5 })).toEqual({
    input: 11,
    output: 7,
    cacheRead: 103,
    cacheWrite: 24,
    reasoning: 8,
  });
});

test("reasoning is inside of output and not paid twice", () => {
  expect(totalTokens(SPENT)).toBe(135);
});

test("nothing was spent when every bucket is empty", () => {
  expect([
    isNoUsage(NO_USAGE),
    isNoUsage({ ...NO_USAGE, cacheRead: 1 }),
    isNoUsage({ ...NO_USAGE, reasoning: 1 }),
  ]).toEqual([true, false, false]);
});

test("a ledger has one entry per source and model, in the order they first appeared", () => {
  const one: TokenUsage = { ...NO_USAGE, input: 1 };
  const ledger = [
    { source: "turn", model: "fast", usage: one },
    { source: "turn", model: "smart", usage: one },
    { source: "child", model: "fast", usage: one },
    { source: "turn", model: "fast", usage: one },
  ].reduce(addToLedger, []);
  expect(ledger).toEqual([
    { source: "turn", model: "fast", usage: { ...NO_USAGE, input: 2 } },
    { source: "turn", model: "smart", usage: one },
    { source: "child", model: "fast", usage: one },
  ]);
});

test("nothing spent leaves no entry, and a ledger never changes in place", () => {
  const ledger = addToLedger([], { source: "turn", model: "fast", usage: SPENT });
  expect(addToLedger(ledger, { source: "other", model: "fast", usage: NO_USAGE })).toBe(ledger);
  addToLedger(ledger, { source: "turn", model: "fast", usage: SPENT });
  expect(ledger).toEqual([{ source: "turn", model: "fast", usage: SPENT }]);
});

test("reported usage is read bucket by bucket; what is not reported counts as nothing", () => {
  expect(decodeUsage({ ...SPENT, total: 135 })).toEqual(SPENT);
  expect(decodeUsage({ input: 4 })).toEqual({
    input: 4,
    output: 0,
    cacheRead: 0,
    cacheWrite: 0,
    reasoning: 0,
  });
  expect(decodeUsageEntry({ source: "turn", model: "fast", usage: SPENT })).toEqual({
    source: "turn",
    model: "fast",
    usage: SPENT,
  });
});

test.each<[string, unknown, string]>([
  ["a negative counter", { input: -1 }, "usage.input: expected a whole number from 0, found -1"],
  ["a fractional counter", { output: 1.5 }, "usage.output: expected a whole number from 0, found 1.5"],
  [
    "a counter beyond whole numbers",
    { cacheRead: 2 ** 53 },
    "usage.cacheRead: expected a whole number from 0, found 9007199254740992",
  ],
  [
    "a counter that is a text",
    { reasoning: "3" },
    'usage.reasoning: expected a whole number from 0, found "3"',
  ],
  ["a list", [], "usage: expected an object, found []"],
])("%s is refused where it enters", (_name, raw, message) => {
  expect(refusal(() => decodeUsage(raw))).toEqual({ code: "invalid_usage", message });
});

test("an entry without a source, a model or its usage is refused", () => {
  expect(refusal(() => decodeUsageEntry({ model: "fast", usage: SPENT })).message).toBe(
    "usage entry.source: expected the name of a source, found undefined",
  );
  expect(refusal(() => decodeUsageEntry({ source: "turn", model: "", usage: SPENT })).message).toBe(
    'usage entry.model: expected the name of a model, found ""',
  );
  expect(refusal(() => decodeUsageEntry({ source: "turn", model: "fast" })).message).toBe(
    "usage entry.usage: expected an object, found null",
  );
});

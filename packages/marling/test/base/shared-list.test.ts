// Rules L1-L7 in the header of src/base/shared-list.ts.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { expect, test } from "vitest";
import { SharedList } from "../../src/base/shared-list.ts";

interface Version {
  readonly list: SharedList<string>;
  readonly expected: readonly string[];
}

/** Each step works on one of the versions made so far and leaves all of them in place. */
type Step =
  | { readonly kind: "append"; readonly on: number; readonly items: readonly string[] }
  | { readonly kind: "take"; readonly on: number; readonly length: number }
  | { readonly kind: "branch"; readonly on: number }
  | { readonly kind: "look_up"; readonly on: number; readonly key: string };

const item: fc.Arbitrary<string> = fc.constantFrom("a", "b", "c", "d", "e", "f");
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant("append" as const), on: fc.nat(), items: fc.array(item, { maxLength: 4 }) }),
  fc.record({ kind: fc.constant("take" as const), on: fc.nat(), length: fc.nat(30) }),
  fc.record({ kind: fc.constant("branch" as const), on: fc.nat() }),
  fc.record({ kind: fc.constant("look_up" as const), on: fc.nat(), key: item }),
);

test("[L1] [L2] every version reads like an array of its own, whatever is appended and branched around it", () => {
  fc.assert(
    fc.property(fc.array(item, { maxLength: 4 }), fc.array(step, { maxLength: 60 }), (start, steps) => {
      const versions: Version[] = [{ list: SharedList.of(start, (text) => text), expected: start }];
      for (const next of steps) perform(next, versions);
      for (const version of versions) expectSame(version);
    }),
  );
});

test("[L5] branches of branches of branches keep their items", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 20, maxLength: 120 }), (sizes) => {
      let kept: Version = { list: SharedList.of(["first"], (text) => text), expected: ["first"] };
      const seen: Version[] = [];
      for (const [round, size] of sizes.entries()) {
        kept.list.append([`dropped ${round}`]);
        const items = Array.from({ length: size }, (_, index) => `${round}.${index}`);
        kept = { list: kept.list.append(items), expected: [...kept.expected, ...items] };
        seen.push(kept);
      }
      for (const version of seen) expectSame(version);
    }),
    { numRuns: 30 },
  );
});

test("[L5] ten thousand branches, each of the one before, are read to the end", () => {
  let list = SharedList.of<number>();
  for (let index = 0; index < 10_000; index += 1) {
    list.append([-1]);
    list = list.append([index]);
  }
  expect(list.length).toBe(10_000);
  expect([list.at(0), list.at(4_999), list.at(-1)]).toEqual([0, 4_999, 9_999]);
  expect(list.toArray().slice(0, 3)).toEqual([0, 1, 2]);
});

test("[L2] every beginning of a list of branches is a version of its own", () => {
  let list = SharedList.of(["0", "1"], (text) => text);
  for (const items of [["2", "3"], ["4", "5", "6"], ["7"], ["8", "9"]]) {
    list.append(["dropped"]);
    list = list.append(items);
  }
  const expected = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
  for (let length = 0; length <= 10; length += 1) {
    expectSame({ list: list.take(length), expected: expected.slice(0, length) });
    expectSame({ list: list.take(length).append(["x"]), expected: [...expected.slice(0, length), "x"] });
  }
  expectSame({ list, expected });
});

test("[L1] what a list was made from can change without changing the list", () => {
  const items = ["a"];
  const list = SharedList.of(items);
  items.push("b");
  expect(list.toArray()).toEqual(["a"]);
});

test("[L1] appending nothing gives the same version", () => {
  const list = SharedList.of(["a"]);
  expect(list.append([])).toBe(list);
});

test("[L3] the array of a version is made once and cannot be changed", () => {
  const list = SharedList.of(["a"]).append(["b"]);
  expect(list.toArray()).toBe(list.toArray());
  expect(Object.isFrozen(list.toArray())).toBe(true);
});

test("[L4] an item is found by its key in the versions that have it, and in no other", () => {
  const base = SharedList.of(["a"], (text) => text);
  const left = base.append(["x", "b"]);
  const right = base.append(["b", "y"]);
  expect([base.positionOf("b"), left.positionOf("b"), right.positionOf("b")]).toEqual([undefined, 2, 1]);
  expect([left.positionOf("y"), right.positionOf("x")]).toEqual([undefined, undefined]);
  expect(left.take(2).positionOf("b")).toBeUndefined();
});

test("[L4] of two items with one key the first is found, and without a key none is", () => {
  const list = SharedList.of(["a", "b"], (text) => text);
  expect(list.append(["a"]).positionOf("a")).toBe(0);
  list.append(["dropped"]);
  expect(list.append(["b"]).positionOf("b")).toBe(1);
  expect(SharedList.of(["a"]).positionOf("a")).toBeUndefined();
});

test("[L4] a list without repetitions has the first item of each key, and goes on as any other", () => {
  const texts = ["a", "bb", "c", "a", "dd"];
  const list = SharedList.distinct(texts, (text) => text.slice(0, 1));
  expect(list.toArray()).toEqual(["a", "bb", "c", "dd"]);
  expect([list.positionOf("b"), list.positionOf("d"), list.positionOf("e")]).toEqual([1, 3, undefined]);
  expect(list.append(["e", "b"]).positionOf("e")).toBe(4);
  expect(list.append(["f", "a"]).positionOf("a")).toBe(0);
});

test("places outside of a list have no item", () => {
  const list = SharedList.of(["a", "b"]);
  expect([list.at(2), list.at(-3), SharedList.of<string>().at(-1)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect([list.tail(0), list.tail(-1), list.tail(5)]).toEqual([[], [], ["a", "b"]]);
  expect([list.take(-1).toArray(), list.take(9)]).toEqual([[], list]);
});

function perform(next: Step, versions: Version[]): void {
  const { list, expected } = versions[next.on % versions.length] as Version;
  if (next.kind === "append") {
    versions.push({ list: list.append(next.items), expected: [...expected, ...next.items] });
  }
  if (next.kind === "take") {
    versions.push({ list: list.take(next.length), expected: expected.slice(0, next.length) });
  }
  if (next.kind === "branch") versions.push({ list: list.branch(), expected });
  if (next.kind === "look_up") expect(list.positionOf(next.key)).toBe(positionIn(expected, next.key));
}

function expectSame({ list, expected }: Version): void {
  expect(list.length).toBe(expected.length);
  expect([...list]).toEqual(expected);
  expect(expected.map((_, index) => list.at(index))).toEqual(expected);
  expect([list.at(-1), list.at(0)]).toEqual([expected.at(-1), expected.at(0)]);
  expect(list.tail(3)).toEqual(expected.slice(-3));
  expect(list.toArray()).toEqual(expected);
  for (const key of new Set(expected)) expect(list.positionOf(key)).toBe(positionIn(expected, key));
}

function positionIn(items: readonly string[], key: string): number | undefined {
  const position = items.indexOf(key);
  return position === -1 ? undefined : position;
}

test("[L2] versions say how much of their beginning they share, and count nothing that is the same by chance", () => {
  const base = SharedList.of(["a", "b"]);
  const left = base.append(["c"]);
  const right = base.append(["c", "d"]);
  expect(left.sharedLength(right)).toBe(2);
  expect(right.sharedLength(left)).toBe(2);
  expect(left.append(["e"]).sharedLength(left)).toBe(3);
  expect(left.take(1).sharedLength(right)).toBe(1);
  expect(right.append(["e"]).sharedLength(right.append(["f"]))).toBe(4);
  expect(base.sharedLength(SharedList.of(["a", "b"]))).toBe(0);
});

test("[L7] a branch shares everything, its array too, and both go on by themselves", () => {
  const list = SharedList.of(["a", "b"], (text) => text);
  const branch = list.branch();
  expect([branch.sharedLength(list), branch.toArray() === list.toArray()]).toEqual([2, true]);
  const [left, right] = [list.append(["c"]), branch.append(["d", "c"])];
  expect([left.toArray(), right.toArray()]).toEqual([
    ["a", "b", "c"],
    ["a", "b", "d", "c"],
  ]);
  expect([left.positionOf("c"), right.positionOf("c"), left.positionOf("d")]).toEqual([2, 3, undefined]);
  expect(left.sharedLength(right)).toBe(2);
});

test("[L7] what was appended to a branch goes with it, however long the list that it left stays", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const list = SharedList.of<object>([{}]);
  const appended = [list.append([]), list.branch(), list.branch().branch()].map((version) => {
    const item = {};
    version.append([item]);
    return new WeakRef(item);
  });
  return new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
    collect();
    const isKept = appended.map((item) => item.deref() !== undefined);
    expect([isKept, list.length]).toEqual([[true, false, false], 1]);
  });
});

test("[L7] branches of branches that nothing was appended to lie on one list", () => {
  const list = SharedList.of(Array.from({ length: 100 }, (_, index) => index));
  let branch = list;
  for (let round = 0; round < 50_000; round += 1) branch = branch.branch();
  expect(branch.append([100]).sharedLength(list)).toBe(100);
  expect(branch.toArray()).toBe(list.toArray());
});

test("[L6] a list says how much of its beginning is not there yet, and so do its branches", () => {
  const list = SharedList.behind({ length: 2, load: () => ["a", "b"] }, ["c"]);
  const branch = list.branch().append(["d"]);
  expect([SharedList.of(["a"]).unloaded, list.unloaded, branch.unloaded]).toEqual([0, 2, 2]);
  expect(branch.at(0)).toBe("a");
  expect([list.unloaded, branch.unloaded]).toEqual([0, 0]);
});

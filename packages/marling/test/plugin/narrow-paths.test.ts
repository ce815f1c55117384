// What a child may reach of what its parent may: AU5 of plugin/fork.ts.

import { expect, test } from "vitest";
import { completeAuthority, narrowAuthority } from "../../src/plugin/fork.ts";
import { isReachable } from "../../src/tool/path-access.ts";
import { refusal } from "../base/refusal.ts";

type Paths = readonly string[] | undefined;

const given = (paths: Paths) => completeAuthority({ paths });
const narrowed = (parent: Paths, paths: Paths): Paths => narrowAuthority(given(parent), { paths }).paths;

test.each<[what: string, parent: Paths, wanted: Paths, got: Paths]>([
  ["an unrestricted parent and no wish", undefined, undefined, undefined],
  ["an unrestricted parent and a wish", undefined, ["docs"], ["docs"]],
  ["a parent's paths and no wish", ["docs", "src"], undefined, ["docs", "src"]],
  ["a narrower wish", ["docs"], ["docs/a", "docs/b"], ["docs/a", "docs/b"]],
  ["the same", ["docs"], ["docs"], ["docs"]],
  ["a wider wish", ["docs/a", "src"], ["docs"], ["docs/a"]],
  ["a wish for the root", ["docs", "src"], ["."], ["docs", "src"]],
  ["one inside and one outside", ["docs"], ["docs/a", "private"], ["docs/a"]],
  ["nothing in common", ["docs"], ["private"], []],
  ["a name that only begins alike", ["docs"], ["docs-private"], []],
  ["a wish that goes around", ["docs"], ["docs/../docs/./a"], ["docs/a"]],
  ["a wish that goes elsewhere", ["docs"], ["docs/../private"], []],
  ["a parent that reaches nothing", [], ["docs", "."], []],
  ["a wish for nothing", ["docs"], [], []],
  ["a wish for nothing of an unrestricted parent", undefined, [], []],
  ["several of both", ["a", "b/c", "d"], ["a/x", "b", "e"], ["a/x", "b/c"]],
])("[AU5] %s", (_what, parent, wanted, got) => {
  expect(narrowed(parent, wanted)).toEqual(got);
});

test.each(["..", "../docs", "/docs", "docs\\a", "C:docs", "docs/../.."])(
  "[AU5] a wish for %j, which is outside of everything, is an error and no grant",
  (path) => {
    expect(refusal(() => narrowed(["docs"], [path])).code).toBe("invalid_input");
    expect(refusal(() => narrowed(undefined, [path])).code).toBe("invalid_input");
    expect(refusal(() => given([path])).code).toBe("invalid_input");
  },
);

test("[AU5] along a chain of children nothing is reached that one above could not", () => {
  const places = ["docs", "docs/a", "docs/a/b", "src", "private"];
  const wishes: readonly Paths[] = [
    undefined,
    [],
    ["."],
    ["docs"],
    ["docs/a", "src"],
    ["private", "docs/a/b"],
  ];
  for (const first of wishes)
    for (const second of wishes)
      for (const third of wishes) {
        const parent = narrowAuthority(given(first), { paths: second });
        const child = narrowAuthority(parent, { paths: third });
        const reached = places.filter(
          (place) => child.paths === undefined || isReachable(place, child.paths),
        );
        const all = [first, second, third].filter((paths) => paths !== undefined);
        const allowed = places.filter((place) => all.every((paths) => isReachable(place, paths)));
        expect([first, second, third, reached]).toEqual([first, second, third, allowed]);
      }
});

test("[AU5] paths are kept frozen with the authority", () => {
  expect(Object.isFrozen(given(["docs"]).paths)).toBe(true);
  expect(Object.isFrozen(narrowAuthority(given(["docs"]), { paths: ["docs/a"] }).paths)).toBe(true);
});

import { expect, test } from "vitest";
import { SharedValues } from "../../src/base/shared-values.ts";

test("a value is made once for everybody who asks for what it is made from", () => {
  const values = new SharedValues<object>(2);
  const first = values.get("a", () => ({}));
  expect(values.get("a", () => ({}))).toBe(first);
  expect(values.get("b", () => ({}))).not.toBe(first);
});

test("the oldest makes room, and what was dropped is made anew", () => {
  const values = new SharedValues<string>(2);
  for (const source of ["a", "b", "c"]) values.get(source, () => `first ${source}`);
  values.drop("c");
  const now = ["b", "a", "c"].map((source) => values.get(source, () => `second ${source}`));
  expect(now).toEqual(["first b", "second a", "second c"]);
});

// Cutting text between characters.

import { expect, test } from "vitest";
import { headOf, isInsidePair, tailOf } from "../../src/stock/cut-text.ts";

test("the beginning and the end never have half a character", () => {
  expect(["a😀b", "a😀b", "a😀b", "a😀b", "a😀b"].map((text, length) => headOf(text, length))).toEqual([
    "",
    "a",
    "a",
    "a😀",
    "a😀b",
  ]);
  expect(["a😀b", "a😀b", "a😀b", "a😀b", "a😀b"].map((text, length) => tailOf(text, length))).toEqual([
    "",
    "b",
    "b",
    "😀b",
    "a😀b",
  ]);
  expect([0, 1, 2, 3, 4].map((index) => isInsidePair("a😀b", index))).toEqual([
    false,
    false,
    true,
    false,
    false,
  ]);
});

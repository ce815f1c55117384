import { expect, test } from "vitest";
import type { PromptContribution } from "../../src/model/prompt.ts";
import { orderContributions } from "../../src/prompt/collect.ts";

test("[K26] [PR1] equal texts in one slot and priority are one, whatever their titles and gates", () => {
  const collected: readonly PromptContribution[] = [
    { slot: "guidance", title: "One", content: "Be kind." },
    { slot: "guidance", title: "Two", content: "  Be kind.\n" },
    { slot: "guidance", gate: { tools: ["ask"] }, priority: 0, content: "Be kind." },
  ];
  expect(orderContributions(collected)).toEqual([{ slot: "guidance", title: "One", content: "Be kind." }]);
});

test("[K26] [PR1] another slot, priority or text is another contribution", () => {
  const collected: readonly PromptContribution[] = [
    { slot: "guidance", content: "Be kind." },
    { slot: "intro", content: "Be kind." },
    { slot: "guidance", priority: 1, content: "Be kind." },
    { slot: "guidance", content: "Be Kind." },
  ];
  expect(orderContributions(collected)).toHaveLength(4);
});

test("[K27] [PR2] contributions are ordered by the names of their slots, then by priority", () => {
  const collected: readonly PromptContribution[] = [
    { slot: "runtime_context", content: "f" },
    { slot: "project_instructions", content: "e" },
    { slot: "intro", content: "d" },
    { slot: "guidance", priority: 1, content: "c2" },
    { slot: "guidance", priority: 0, content: "c1" },
    { slot: "execution", content: "b" },
    { slot: "environment", content: "a" },
  ];
  expect(contentsOf(orderContributions(collected))).toEqual(["a", "b", "c1", "c2", "d", "e", "f"]);
});

test("[K152] [PR1] of equal contributions the first stays, untrimmed, with its title and gate", () => {
  const first: PromptContribution = {
    slot: "intro",
    title: " T ",
    gate: { tools: ["a"] },
    content: "  text  ",
  };
  const kept = orderContributions([first, { slot: "intro", content: "text" }]);
  expect(kept).toEqual([{ slot: "intro", title: " T ", gate: { tools: ["a"] }, content: "  text  " }]);
});

test("[K152] [PR2] ties keep the order of collection, and negative priorities come first", () => {
  const collected: readonly PromptContribution[] = [
    { slot: "intro", content: "z" },
    { slot: "intro", priority: 5, content: "last" },
    { slot: "intro", content: "a" },
    { slot: "intro", priority: -1, content: "first" },
    { slot: "intro", priority: 0, content: "m" },
  ];
  expect(contentsOf(orderContributions(collected))).toEqual(["first", "z", "a", "m", "last"]);
});

test("[PR2] what was collected is not touched", () => {
  const collected: readonly PromptContribution[] = Object.freeze([
    { slot: "intro", content: "b" },
    { slot: "guidance", content: "a" },
  ]);
  orderContributions(collected);
  expect(contentsOf(collected)).toEqual(["b", "a"]);
});

function contentsOf(contributions: readonly PromptContribution[]): readonly string[] {
  return contributions.map(({ content }) => content);
}

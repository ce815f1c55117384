// The order in which what plugins contribute leaves the collection.

import type { PromptContribution } from "../model/prompt.ts";

/**
 * Contributions by the name of their slot and then by priority; ties stay in the order of collection.
 * Of those with the same slot, priority and text the first stays as it was written, whatever their titles and gates.
 */
export function orderContributions(collected: readonly PromptContribution[]): readonly PromptContribution[] {
  const first = new Map<string, PromptContribution>();
  for (const contribution of collected) {
    const key = JSON.stringify([contribution.slot, contribution.priority ?? 0, contribution.content.trim()]);
    if (!first.has(key)) first.set(key, contribution);
  }
  return [...first.values()].sort(compareContributions);
}

function compareContributions(a: PromptContribution, b: PromptContribution): number {
  if (a.slot !== b.slot) return a.slot < b.slot ? -1 : 1;
  return (a.priority ?? 0) - (b.priority ?? 0);
}

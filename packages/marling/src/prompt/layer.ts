// Layers: what one party changes about the prompt. Each of these returns another layer.

import type {
  PromptContribution,
  PromptLayer,
  PromptSlot,
  PromptSlotLayer,
  PromptTemplate,
} from "../model/prompt.ts";

export { decodePromptContribution, decodePromptLayer, isEmptyLayer } from "../model/prompt.ts";

/** Adds contributions, each to its slot, behind what the layer has there. */
export function addToLayer(
  layer: PromptLayer,
  added: PromptContribution | readonly PromptContribution[],
): PromptLayer {
  const contributions = "slot" in added ? [added] : added;
  return contributions.reduce((grown, contribution) => {
    const { slot } = contribution;
    return withSlot(grown, slot, mergeSlot(grown.slots?.[slot], { contributions: [contribution] }));
  }, layer);
}

/** Puts contributions in the place of everything that the slot has so far; they become contributions to that slot. */
export function replaceSlot(
  layer: PromptLayer,
  slot: PromptSlot,
  contributions: readonly PromptContribution[],
): PromptLayer {
  return withSlot(layer, slot, {
    reset: true,
    contributions: contributions.map((given) => ({ ...given, slot })),
  });
}

/** Empties a slot. */
export function clearSlot(layer: PromptLayer, slot: PromptSlot): PromptLayer {
  return replaceSlot(layer, slot, []);
}

export function withTemplate(layer: PromptLayer, template: PromptTemplate): PromptLayer {
  return Object.freeze({ ...layer, template });
}

/** One layer that does what the two do one after the other. */
export function mergeLayers(earlier: PromptLayer, later: PromptLayer): PromptLayer {
  let merged: PromptLayer = earlier;
  for (const [slot, change] of entriesOf(later))
    merged = withSlot(merged, slot, mergeSlot(merged.slots?.[slot], change));
  return later.template === undefined ? merged : withTemplate(merged, later.template);
}

/** The slots that a layer changes. */
export function entriesOf(layer: PromptLayer): readonly (readonly [PromptSlot, PromptSlotLayer])[] {
  return Object.entries(layer.slots ?? {}) as [PromptSlot, PromptSlotLayer][];
}

function mergeSlot(earlier: PromptSlotLayer | undefined, later: PromptSlotLayer): PromptSlotLayer {
  if (earlier === undefined || later.reset === true) return later;
  return { ...earlier, contributions: [...(earlier.contributions ?? []), ...(later.contributions ?? [])] };
}

function withSlot(layer: PromptLayer, slot: PromptSlot, change: PromptSlotLayer): PromptLayer {
  const frozen = Object.freeze({
    ...change,
    contributions: Object.freeze([...(change.contributions ?? [])]),
  });
  return Object.freeze({ ...layer, slots: Object.freeze({ ...layer.slots, [slot]: frozen }) });
}

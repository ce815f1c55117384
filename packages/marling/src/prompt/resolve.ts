// Layers in order, and out of them one template and one list of contributions.
//   PR1  a later template takes the place of an earlier one.
//   PR2  a reset drops what earlier layers put into the slot, whoever they were; then the layer's own are added.
//   PR3  the result is the same for the same set of contributions, whatever order they came in.

import {
  PROMPT_SLOTS,
  type PromptContribution,
  type PromptLayer,
  type PromptSlot,
  type PromptTemplate,
} from "../model/prompt.ts";
import { entriesOf } from "./layer.ts";
import { DEFAULT_TEMPLATE } from "./render.ts";

export interface ResolvedPrompt {
  readonly template: PromptTemplate;
  /** Trimmed, without those that a gate or their emptiness keeps out, in the order they are shown. */
  readonly contributions: readonly PromptContribution[];
}

export interface ResolveOptions {
  /** What is there before the first layer. */
  readonly template?: PromptTemplate;
  /** The tools that the model has; gates look here. */
  readonly toolNames: readonly string[];
}

/** Applies layers, the earliest first. */
export function resolveLayers(layers: readonly PromptLayer[], options: ResolveOptions): ResolvedPrompt {
  const template = layers.findLast((layer) => layer.template !== undefined)?.template;
  const tools = new Set(options.toolNames);
  const kept = contributionsOf(layers)
    .filter((contribution) => isOpen(contribution, tools))
    .map(trimmed)
    .filter((contribution) => contribution.content !== "")
    .sort(compare);
  const contributions = kept.filter((contribution, index) => {
    const before = kept[index - 1];
    return before === undefined || compare(before, contribution) !== 0;
  });
  return { template: template ?? options.template ?? DEFAULT_TEMPLATE, contributions };
}

function contributionsOf(layers: readonly PromptLayer[]): readonly PromptContribution[] {
  const slots = new Map<PromptSlot, readonly PromptContribution[]>();
  for (const [slot, { reset, contributions = [] }] of layers.flatMap(entriesOf)) {
    const before = reset === true ? [] : (slots.get(slot) ?? []);
    slots.set(slot, [...before, ...contributions.map((given) => ({ ...given, slot }))]);
  }
  return [...slots.values()].flat();
}

function isOpen({ gate }: PromptContribution, tools: ReadonlySet<string>): boolean {
  return gate === undefined || gate.tools.length === 0 || gate.tools.some((tool) => tools.has(tool));
}

/** The gate has been passed and is not part of the result. */
function trimmed({ slot, title, priority = 0, content }: PromptContribution): PromptContribution {
  const named = title?.trim();
  return Object.freeze({ slot, ...(named ? { title: named } : {}), priority, content: content.trim() });
}

/** By slot, priority, title (those without one first) and text; 0 means that nobody could tell them apart. */
function compare(a: PromptContribution, b: PromptContribution): number {
  return (
    PROMPT_SLOTS.indexOf(a.slot) - PROMPT_SLOTS.indexOf(b.slot) ||
    (a.priority ?? 0) - (b.priority ?? 0) ||
    compareText(a.title ?? "", b.title ?? "") ||
    compareText(a.content, b.content)
  );
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

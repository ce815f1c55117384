// Finds tools by words: BM25 over what is known of them, names counting more than descriptions.

import type { ToolManifest } from "../../index.ts";

const SATURATION = 1.2;
const LENGTH_WEIGHT = 0.75;
const NAME_WEIGHT = 3;

interface Entry {
  readonly tool: ToolManifest;
  /** How often each word is in it, weighted by where. */
  readonly counts: ReadonlyMap<string, number>;
  readonly length: number;
}

/** The tools that a query is about, best first; equals in the order given. */
export function scoreTools(
  tools: readonly ToolManifest[],
  query: string,
  limit: number,
): readonly ToolManifest[] {
  const words = [...new Set(wordsOf(query))];
  const entries = tools.map(entryOf);
  const mean = entries.reduce((sum, { length }) => sum + length, 0) / Math.max(1, entries.length);
  const weights = words.map((word) => [word, rarity(entries, word)] as const);
  return entries
    .map((entry) => ({ tool: entry.tool, score: scoreOf(entry, weights, mean) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, limit)
    .map(({ tool }) => tool);
}

/** Lower-case words; names are taken apart at underscores, hyphens and capitals. */
export function wordsOf(text: string): readonly string[] {
  const apart = text.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
  return (apart.match(/[\p{L}\p{N}]+/gu) ?? []).map((word) =>
    word.length > 3 && word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word,
  );
}

function entryOf(tool: ToolManifest): Entry {
  const { name, description, discovery } = tool;
  const counts = new Map<string, number>();
  let length = 0;
  const add = (text: string, weight: number): void => {
    for (const word of wordsOf(text)) {
      counts.set(word, (counts.get(word) ?? 0) + weight);
      length += 1;
    }
  };
  add([name, discovery?.namespace ?? "", ...(discovery?.aliases ?? [])].join(" "), NAME_WEIGHT);
  add(description, 1);
  return { tool, counts, length };
}

function rarity(entries: readonly Entry[], word: string): number {
  const having = entries.filter(({ counts }) => counts.has(word)).length;
  return Math.log(1 + (entries.length - having + 0.5) / (having + 0.5));
}

function scoreOf(
  { counts, length }: Entry,
  weights: readonly (readonly [word: string, weight: number])[],
  mean: number,
): number {
  const norm = SATURATION * (1 - LENGTH_WEIGHT + (LENGTH_WEIGHT * length) / Math.max(1, mean));
  return weights.reduce((sum, [word, weight]) => {
    const count = counts.get(word) ?? 0;
    return count === 0 ? sum : sum + (weight * count * (SATURATION + 1)) / (count + norm);
  }, 0);
}

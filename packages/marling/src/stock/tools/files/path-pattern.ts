// Patterns of paths: `*`, `?`, `[a-z]`, `**` and, where wanted, `{a,b}`.
// A pattern comes from a model or from a file of a stranger, so matching takes time in the product of the two lengths and
// never more: nothing here is a regular expression.

import { FileRefusal } from "./file-refusal.ts";

const MAX_ALTERNATIVES = 256;
const MAX_PATTERN = 2_000;

export interface PathPattern {
  /** Whether the pattern stands for exactly this path. */
  matches(segments: readonly string[]): boolean;
  /** Whether it may stand for something below this folder. */
  reaches(segments: readonly string[]): boolean;
}

/** Reads a pattern with braces. Refuses one that is too long or has too many alternatives. */
export function parsePathPattern(text: string): PathPattern {
  if (text.length > MAX_PATTERN)
    throw invalid(text.slice(0, 40), `at most ${MAX_PATTERN} characters`, `${text.length}`);
  const alternatives = expandBraces(text).map(segmentPattern);
  return {
    matches: (segments) => alternatives.some((one) => one.matches(segments)),
    reaches: (segments) => alternatives.some((one) => one.reaches(segments)),
  };
}

type Segment =
  | { readonly kind: "any_folders" }
  | { readonly kind: "name"; readonly tokens: readonly Token[] };

type Token =
  | { readonly kind: "star" }
  | { readonly kind: "any" }
  | { readonly kind: "character"; readonly value: string }
  | {
      readonly kind: "set";
      readonly isNegated: boolean;
      readonly ranges: readonly (readonly [string, string])[];
    };

/** Reads a pattern in which braces are plain characters. */
export function segmentPattern(text: string): PathPattern {
  const parts = text.split("/").filter((part) => part !== "" && part !== ".");
  const segments: Segment[] = parts.map((part) =>
    part === "**" ? { kind: "any_folders" } : { kind: "name", tokens: tokensOf(part) },
  );
  // What is below a folder is at least one name.
  if (parts.at(-1) === "**") segments.push({ kind: "name", tokens: [{ kind: "star" }] });
  const end = segments.length;
  return {
    matches: (path) => end > 0 && advance(segments, path).has(end),
    reaches: (path) => [...advance(segments, path)].some((at) => at < end),
  };
}

/** The places in the pattern at which one may be after reading the path. */
function advance(segments: readonly Segment[], path: readonly string[]): ReadonlySet<number> {
  let places = withSkips(segments, [0]);
  for (const name of path) {
    const next: number[] = [];
    for (const at of places) {
      const segment = segments[at];
      if (segment === undefined) continue;
      if (segment.kind === "any_folders") next.push(at);
      else if (matchesName(segment.tokens, name)) next.push(at + 1);
    }
    places = withSkips(segments, next);
  }
  return places;
}

function withSkips(segments: readonly Segment[], starts: readonly number[]): ReadonlySet<number> {
  const places = new Set<number>();
  for (const start of starts) {
    let at = start;
    places.add(at);
    while (segments[at]?.kind === "any_folders") {
      at += 1;
      places.add(at);
    }
  }
  return places;
}

/** Goes back to the last star only, which is enough: an earlier star could not do better. */
function matchesName(tokens: readonly Token[], name: string): boolean {
  let token = 0;
  let at = 0;
  let star = -1;
  let starAt = 0;
  while (at < name.length) {
    const wanted = tokens[token];
    if (wanted?.kind === "star") {
      star = token;
      starAt = at;
      token += 1;
    } else if (wanted !== undefined && fits(wanted, name[at] ?? "")) {
      token += 1;
      at += 1;
    } else if (star !== -1) {
      token = star + 1;
      starAt += 1;
      at = starAt;
    } else return false;
  }
  while (tokens[token]?.kind === "star") token += 1;
  return token === tokens.length;
}

function fits(token: Token, character: string): boolean {
  switch (token.kind) {
    case "any":
      return true;
    case "character":
      return token.value === character;
    case "set":
      return token.ranges.some(([low, high]) => low <= character && character <= high) !== token.isNegated;
    case "star":
      return false;
  }
}

function tokensOf(part: string): readonly Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < part.length; at += 1) {
    const character = part[at] ?? "";
    if (character === "*") {
      if (tokens.at(-1)?.kind !== "star") tokens.push({ kind: "star" });
    } else if (character === "?") tokens.push({ kind: "any" });
    else if (character === "\\" && at + 1 < part.length) {
      at += 1;
      tokens.push({ kind: "character", value: part[at] ?? "" });
    } else if (character === "[") {
      const set = readSet(part, at);
      tokens.push(set?.token ?? { kind: "character", value: "[" });
      at = set?.end ?? at;
    } else tokens.push({ kind: "character", value: character });
  }
  return tokens;
}

/** A set that is not closed is a plain bracket. */
function readSet(part: string, start: number): { readonly token: Token; readonly end: number } | undefined {
  let at = start + 1;
  const isNegated = part[at] === "!" || part[at] === "^";
  if (isNegated) at += 1;
  const ranges: [string, string][] = [];
  for (let isFirst = true; at < part.length; isFirst = false, at += 1) {
    if (part[at] === "]" && !isFirst) return { token: { kind: "set", isNegated, ranges }, end: at };
    if (part[at] === "\\" && at + 1 < part.length) at += 1;
    const low = part[at] ?? "";
    const high = part[at + 2];
    if (part[at + 1] === "-" && high !== undefined && high !== "]") {
      ranges.push([low, high]);
      at += 2;
    } else ranges.push([low, low]);
  }
  return undefined;
}

/** `a{b,c}` as `ab` and `ac`. Braces that are not closed or hold no comma are plain characters. */
export function expandBraces(text: string): readonly string[] {
  const done: string[] = [];
  const pending: string[] = [text];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const group = firstGroup(next);
    if (group === undefined) done.push(next);
    else {
      const { before, options, after } = group;
      pending.push(...options.map((option) => before + option + after).reverse());
    }
    if (done.length + pending.length > MAX_ALTERNATIVES)
      throw invalid(text, `braces for at most ${MAX_ALTERNATIVES} alternatives`, "more");
  }
  return done;
}

interface Group {
  readonly before: string;
  readonly options: readonly string[];
  readonly after: string;
}

function firstGroup(text: string): Group | undefined {
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === "{") {
      const options = readGroup(text, at);
      if (options === undefined) continue;
      return { before: text.slice(0, at), options: options.parts, after: text.slice(options.end + 1) };
    }
  }
  return undefined;
}

function readGroup(
  text: string,
  start: number,
): { readonly parts: readonly string[]; readonly end: number } | undefined {
  const parts: string[] = [];
  let depth = 0;
  let from = start + 1;
  for (let at = start; at < text.length; at += 1) {
    const character = text[at];
    if (character === "\\") at += 1;
    else if (character === "{") depth += 1;
    else if (character === "," && depth === 1) {
      parts.push(text.slice(from, at));
      from = at + 1;
    } else if (character === "}") {
      depth -= 1;
      if (depth > 0) continue;
      parts.push(text.slice(from, at));
      return parts.length > 1 ? { parts, end: at } : undefined;
    }
  }
  return undefined;
}

function invalid(pattern: string, expected: string, found: string): FileRefusal {
  return new FileRefusal("invalid_pattern", `pattern ${pattern}: expected ${expected}, found ${found}.`);
}

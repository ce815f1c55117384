// JSON text that does not say twice what another text says already: the report of a turn repeats the words of its
// nodes. A long string that was seen before is written as `~` and its number; other strings that begin with `~` get
// a second one.

import type { Json } from "../../model/json.ts";

const LONG = 32;

/** The plain JSON text of a value, and its long strings in the order in which they are met. */
export function textOf(value: unknown): { readonly text: string; readonly strings: readonly string[] } {
  const strings = new Set<string>();
  collectStrings(value, strings);
  return { text: JSON.stringify(value), strings: [...strings] };
}

function collectStrings(value: unknown, strings: Set<string>): void {
  if (typeof value === "string") {
    if (value.length >= LONG) strings.add(value);
    return;
  }
  if (typeof value !== "object" || value === null) return;
  for (const member of Array.isArray(value) ? value : Object.values(value)) collectStrings(member, strings);
}

/** The JSON text of a value with references to the strings that are known, and to its own. */
export function stringifyRepeated(value: unknown, known: readonly string[]): string {
  const numbers = new Map(known.map((string, index) => [string, index]));
  return JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member !== "string") return member;
    const number = numbers.get(member);
    if (number !== undefined) return `~${number}`;
    if (member.length >= LONG) numbers.set(member, numbers.size);
    return member.startsWith("~") ? `~${member}` : member;
  });
}

/** The value of a text that `stringifyRepeated` wrote with the same strings. */
export function parseRepeated(text: string, known: readonly string[]): Json {
  const strings = [...known];
  return JSON.parse(text, (_key, member: unknown) => {
    if (typeof member !== "string") return member;
    if (/^~[0-9]/.test(member)) return stringAt(strings, Number(member.slice(1)));
    const string = member.startsWith("~") ? member.slice(1) : member;
    if (string.length >= LONG) strings.push(string);
    return string;
  });
}

function stringAt(strings: readonly string[], index: number): string {
  const string = strings[index];
  if (string === undefined) throw new SyntaxError(`reference ~${index} to a string that is not there`);
  return string;
}

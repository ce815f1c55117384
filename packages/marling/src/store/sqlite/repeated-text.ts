// JSON text that does not say twice what another text says already: the report of a turn repeats the words of its
// nodes. A long string that was seen before is written as `~` and its number; other strings that begin with `~` get
// a second one.

import type { Json } from "../../model/json.ts";

const LONG = 32;
const MARK = "~".charCodeAt(0);

type Members = { readonly [name: string]: unknown };

/** The plain JSON text of a value, and its long strings in the order in which they are met. */
export function textOf(value: unknown): { readonly text: string; readonly strings: readonly string[] } {
  const strings = new Set<string>();
  collect(value, strings);
  return { text: JSON.stringify(value), strings: [...strings] };
}

function collect(value: unknown, strings: Set<string>): void {
  if (typeof value === "string") {
    if (value.length >= LONG) strings.add(value);
  } else if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) collect(value[index], strings);
  } else if (typeof value === "object" && value !== null) {
    for (const name in value) {
      const member = (value as Members)[name];
      if (typeof member === "object" || (typeof member === "string" && member.length >= LONG))
        collect(member, strings);
    }
  }
}

/** The JSON text of a value with references to the strings that are known, and to its own. */
export function stringifyRepeated(value: unknown, known: readonly string[]): string {
  const numbers = new Map<string, number>();
  for (let index = 0; index < known.length; index += 1) numbers.set(known[index] as string, index);
  return JSON.stringify(referring(value, numbers));
}

/** A value with references in the place of strings that were seen; itself where it has none of them. */
function referring(value: unknown, numbers: Map<string, number>): unknown {
  if (typeof value === "string") return reference(value, numbers);
  if (typeof value !== "object" || value === null) return value;
  return Array.isArray(value) ? listReferring(value, numbers) : objectReferring(value as Members, numbers);
}

function listReferring(list: readonly unknown[], numbers: Map<string, number>): readonly unknown[] {
  let copy: unknown[] | undefined;
  for (let index = 0; index < list.length; index += 1) {
    const written = referring(list[index], numbers);
    if (written === list[index]) continue;
    copy ??= [...list];
    copy[index] = written;
  }
  return copy ?? list;
}

function objectReferring(object: Members, numbers: Map<string, number>): Members {
  let copy: { [name: string]: unknown } | undefined;
  for (const name in object) {
    const member = object[name];
    if (typeof member !== "object" && typeof member !== "string") continue;
    const written = referring(member, numbers);
    if (written === member) continue;
    copy ??= { ...object };
    copy[name] = written;
  }
  return copy ?? object;
}

function reference(string: string, numbers: Map<string, number>): string {
  if (string.length >= LONG) {
    const number = numbers.get(string);
    if (number !== undefined) return `~${number}`;
    numbers.set(string, numbers.size);
  }
  return string.charCodeAt(0) === MARK ? `~${string}` : string;
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

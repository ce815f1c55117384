// Makes a JSON value smaller and leaves it JSON: long texts are cut in the middle, long lists and objects at the end.

import type { Json } from "../../index.ts";
import { headOf, tailOf } from "../cut-text.ts";

const SHORTEST = 16;

/** The value as JSON text of at most `limit` code units, or nothing when cutting texts and lists is not enough. */
export function shrinkJson(value: Json, limit: number): string | undefined {
  for (let room = Math.floor(limit / 2); room >= SHORTEST; room = Math.floor(room / 2)) {
    const text = JSON.stringify(shrunk(value, { text: room, items: Math.max(1, Math.floor(room / 16)) }));
    if (text.length <= limit) return text;
  }
  return undefined;
}

interface Room {
  readonly text: number;
  readonly items: number;
}

function shrunk(value: Json, room: Room): Json {
  if (typeof value === "string") return cutText(value, room.text);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const items = value.slice(0, room.items).map((item: Json) => shrunk(item, room));
    const left = value.length - items.length;
    return left === 0 ? items : [...items, `[${left} more items]`];
  }
  const entries = Object.entries(value);
  const shown = entries.slice(0, room.items).map(([name, member]) => [name, shrunk(member, room)] as const);
  const left = entries.length - shown.length;
  return Object.fromEntries(left === 0 ? shown : [...shown, ["[more]", `${left} more members`] as const]);
}

function cutText(text: string, length: number): string {
  if (text.length <= length) return text;
  const half = Math.floor(length / 2);
  const [head, tail] = [headOf(text, half), tailOf(text, half)];
  return `${head}[${text.length - head.length - tail.length} characters cut]${tail}`;
}

// How much a commit writes, told before it is written, without making the text that the store will make.
//   SZ1  counted are the bytes of strings and numbers and the signs around them; escapes are not.
//   SZ2  counting ends as soon as the limit is passed.

import type { Json, JsonObject } from "../model/json.ts";

/** The size of values as JSON in bytes; something above the limit when it is above. */
export function jsonBytes(values: readonly unknown[], limit: number = Number.POSITIVE_INFINITY): number {
  let bytes = 0;
  for (const value of values) {
    if (bytes > limit) return bytes;
    bytes += bytesOf(value as Json | undefined, limit - bytes); // What a commit is made of is JSON; absent members are none.
  }
  return bytes;
}

function bytesOf(value: Json | undefined, limit: number): number {
  if (typeof value === "string") return Buffer.byteLength(value) + 2;
  if (typeof value === "number") return String(value).length;
  if (typeof value !== "object" || value === null) return value === undefined ? 0 : 4;
  let bytes = 2;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && bytes <= limit; index += 1)
      bytes += 1 + bytesOf(value[index], limit - bytes);
    return bytes;
  }
  for (const key in value) {
    if (bytes > limit) return bytes;
    bytes += key.length + 4 + bytesOf((value as JsonObject)[key], limit - bytes);
  }
  return bytes;
}

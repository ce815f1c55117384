// How much a commit writes, told before it is written, without making the text that the store will make.
//   SZ1  counted are the bytes of strings and numbers and the signs around them; escapes are not.
//   SZ2  counting ends as soon as the limit is passed.
//   SZ3  what is far from a limit, as most is, is known by the lengths of its texts: their bytes are not counted.

import type { Json, JsonObject } from "../model/json.ts";

/** No character is more bytes, and no number more signs. */
const MOST_BYTES = 3;
const MOST_SIGNS = 24;

/** Whether values are more than so many bytes as JSON. */
export function isLarger(values: readonly unknown[], limit: number): boolean {
  const most = bytesOf(values as readonly Json[], limit, false); // What a commit is made of is JSON; absent members are none.
  return most > limit && bytesOf(values as readonly Json[], limit, true) > limit;
}

/** The size of values as JSON in bytes. */
export function jsonBytes(values: readonly unknown[]): number {
  return bytesOf(values as readonly Json[], Number.POSITIVE_INFINITY, true);
}

/**
 * The size of a list or an object: its bytes or, where it need not be exact, at least as many. Something above the limit
 * when it is above.
 */
function bytesOf(value: readonly Json[] | JsonObject, limit: number, isExact: boolean): number {
  let bytes = 2;
  if (isList(value)) {
    for (let index = 0; index < value.length && bytes <= limit; index += 1) {
      const member = value[index];
      bytes += 1 + (isInner(member) ? bytesOf(member, limit - bytes, isExact) : leafBytes(member, isExact));
    }
    return bytes;
  }
  for (const key in value) {
    if (bytes > limit) return bytes;
    const member = value[key];
    bytes += key.length + 4;
    bytes += isInner(member) ? bytesOf(member, limit - bytes, isExact) : leafBytes(member, isExact);
  }
  return bytes;
}

function isList(value: readonly Json[] | JsonObject): value is readonly Json[] {
  return Array.isArray(value);
}

function isInner(value: Json | undefined): value is readonly Json[] | JsonObject {
  return typeof value === "object" && value !== null;
}

function leafBytes(value: Json | undefined, isExact: boolean): number {
  if (typeof value === "string") return 2 + (isExact ? Buffer.byteLength(value) : MOST_BYTES * value.length);
  if (typeof value === "number") return isExact ? String(value).length : MOST_SIGNS;
  return value === undefined ? 0 : 4;
}

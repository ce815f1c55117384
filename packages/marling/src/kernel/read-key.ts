// Keys that callers give, to be recognised by when they ask again.

import { MarlingError } from "../base/errors.ts";

/** A key as it was given, or none. Another value, or an empty text, would make one of what different callers meant. */
export function readKey(raw: unknown, where = "option key"): string | undefined {
  if (raw === undefined || (typeof raw === "string" && raw !== "")) return raw;
  const found = raw === "" ? "an empty one" : raw === null ? "null" : `a ${typeof raw}`;
  const message = `${where}: expected a non-empty string, found ${found}. Leave it out if nothing is to be recognised.`;
  throw new MarlingError("invalid_options", message, { details: { option: "key" } });
}

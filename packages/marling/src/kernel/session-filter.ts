// Which sessions are listed. A member that means nothing would list more than was asked for.

import { MarlingError } from "../base/errors.ts";
import type { SessionFilter } from "../store/contract.ts";

type Check = (value: unknown) => boolean;

const isText: Check = (value) => value === undefined || typeof value === "string";
const MEMBERS: { readonly [M in keyof Required<SessionFilter>]: Check } = {
  prefix: isText,
  limit: () => true, // The store says which limits it takes.
  cursor: isText,
};

/** Throws `invalid_options`, naming the member. */
export function readFilter(filter: SessionFilter = {}): SessionFilter {
  if (typeof filter !== "object" || filter === null) throw refuse("filter", "an object", filter);
  for (const [name, value] of Object.entries(filter)) {
    if (!Object.hasOwn(MEMBERS, name))
      throw refuse(name, `one of the members ${Object.keys(MEMBERS).join(", ")}`, value);
    if (!MEMBERS[name as keyof SessionFilter](value)) throw refuse(name, "a string", value);
  }
  return filter;
}

function refuse(option: string, expected: string, found: unknown): MarlingError {
  const shown = found === null ? "null" : `a value of type ${typeof found}`;
  const message = `sessions.list: ${option}: expected ${expected}, found ${shown}`;
  return new MarlingError("invalid_options", message, { details: { option } });
}

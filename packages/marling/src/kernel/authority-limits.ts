// What a host says a session may do, read before anything is done with it.

import { MarlingError } from "../base/errors.ts";
import type { AuthorityChange, AuthorityLimits } from "../session/frame.ts";
import { plainPath } from "../tool/path-access.ts";

type Member = keyof AuthorityLimits;

const MEMBERS: {
  readonly [M in Member]-?: (value: unknown, option: string) => NonNullable<AuthorityLimits[M]>;
} = {
  tools: readNames,
  hiddenTools: readNames,
  paths: (value, option) => readNames(value, option).map((path) => readPath(path, option)),
  budget: (value, option) => {
    const { tokens } = readObject(value, option, ["tokens"]);
    if (typeof tokens !== "number" || !Number.isSafeInteger(tokens) || tokens < 0)
      throw refuseOption(`${option}.tokens`, "a whole number from 0 on", tokens);
    return { tokens };
  },
};

/** Reads limits, of which a member may be `undefined`. Throws `invalid_options`, naming the member below `option`. */
export function readLimits(raw: unknown, option: string): AuthorityChange {
  const given = Object.entries(readObject(raw, option, Object.keys(MEMBERS)));
  return Object.fromEntries(
    given.map(([name, value]) => [
      name,
      value === undefined ? undefined : MEMBERS[name as Member](value, `${option}.${name}`),
    ]),
  );
}

/** The members of an object that has no others than these. */
export function readObject(
  value: unknown,
  option: string,
  members: readonly string[],
): { readonly [name: string]: unknown } {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw refuseOption(option, `an object with ${members.join(", ")}`, value);
  const stranger = Object.keys(value).find((name) => !members.includes(name));
  if (stranger !== undefined)
    throw refuseOption(`${option}.${stranger}`, `one of ${members.join(", ")}`, stranger);
  return { ...value };
}

export function refuseOption(option: string, expected: string, found: unknown): MarlingError {
  const isShown = typeof found === "string" || typeof found === "number" || found === null;
  const message = `option ${option}: expected ${expected}, found ${isShown ? JSON.stringify(found) : typeof found}`;
  return new MarlingError("invalid_options", message, { details: { option } });
}

function readNames(value: unknown, option: string): readonly string[] {
  if (!Array.isArray(value)) throw refuseOption(option, "an array of strings", value);
  return Array.from(value, (name: unknown, index) => {
    if (typeof name === "string" && name.trim() !== "") return name;
    throw refuseOption(`${option}[${index}]`, "a string that is not blank", name);
  });
}

function readPath(path: string, option: string): string {
  try {
    return plainPath(path);
  } catch {
    throw refuseOption(option, "paths inside the root, relative to it", path);
  }
}

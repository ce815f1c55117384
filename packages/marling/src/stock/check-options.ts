// The options of stock plugins, checked where they are written: an unknown name or a wrong value is an error that says
// which plugin, which option, what was expected and what was found.

import { MarlingError } from "../index.ts";

/** Says what was expected, or nothing when the value will do. */
export type OptionCheck = (value: unknown) => string | undefined;

export const aFunction: OptionCheck = (value) => (typeof value === "function" ? undefined : "a function");
export const aBoolean: OptionCheck = (value) => (typeof value === "boolean" ? undefined : "true or false");
export const aText: OptionCheck = (value) =>
  typeof value === "string" && value.trim() !== "" ? undefined : "a text that is not blank";
export const aCount: OptionCheck = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? undefined : "a whole number from 0";
export const aPositiveCount: OptionCheck = (value) =>
  Number.isSafeInteger(value) && (value as number) > 0 ? undefined : "a whole number from 1";
export const aShare: OptionCheck = (value) =>
  typeof value === "number" && value > 0 && value <= 1 ? undefined : "a number above 0 and at most 1";
export const aToolName: OptionCheck = (value) =>
  typeof value === "string" && /^[a-zA-Z0-9_-]{1,64}$/.test(value)
    ? undefined
    : "1 to 64 letters, digits, _ or -";
export const texts: OptionCheck = (value) =>
  Array.isArray(value) && value.every((item) => aText(item) === undefined)
    ? undefined
    : "an array of texts that are not blank";

/** A record whose every value passes the check. */
export function recordOf(check: OptionCheck): OptionCheck {
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return "an object";
    for (const [name, member] of Object.entries(value)) {
      const expected = check(member);
      if (expected !== undefined) return `an object, and under ${name} ${expected}`;
    }
    return undefined;
  };
}

/** Throws `invalid_plugin_options` for the first option that is unknown or wrong. Options that are not given pass. */
export function checkOptions<Options extends object>(
  pluginId: string,
  options: Options,
  checks: { readonly [K in keyof Required<Options>]: OptionCheck },
): void {
  if (typeof options !== "object" || options === null)
    throw refuse({ pluginId, option: "" }, "an object", options);
  const known: Readonly<Record<string, OptionCheck>> = checks;
  for (const [name, value] of Object.entries(options)) {
    const check = Object.hasOwn(known, name) ? known[name] : undefined;
    if (check === undefined)
      throw refuse({ pluginId, option: name }, `one of the options ${Object.keys(known).join(", ")}`, name);
    const expected = value === undefined ? undefined : check(value);
    if (expected !== undefined) throw refuse({ pluginId, option: name }, expected, value);
  }
}

function refuse(
  { pluginId, option }: { readonly pluginId: string; readonly option: string },
  expected: string,
  found: unknown,
): MarlingError {
  const where = option === "" ? `options of plugin ${pluginId}` : `options of plugin ${pluginId}: ${option}`;
  return new MarlingError(
    "invalid_plugin_options",
    `${where}: expected ${expected}, found ${nameOf(found)}`,
    {
      details: { pluginId, path: option },
    },
  );
}

function nameOf(value: unknown): string {
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "object" && value !== null) return "an object";
  return JSON.stringify(value) ?? "nothing";
}

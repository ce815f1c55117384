import { MarlingError } from "../base/errors.ts";
import { decodeJson, isJsonObject } from "../model/json.ts";
import type { PluginEvent } from "../model/turn.ts";

/** Reads an event as a plugin wrote it. Throws `invalid_directive` naming what is missing. */
export function decodePluginEvent(raw: unknown, where: string): PluginEvent {
  const json = decodeJson(raw, where);
  const refuse = (expected: string): MarlingError =>
    new MarlingError("invalid_directive", `${where}: expected ${expected}`, { details: { where } });
  if (!isJsonObject(json))
    throw refuse("an event: { kind: status, key, label } or { kind: custom, name, payload }");
  const { kind, key, label, detail, name, payload = null } = json;
  if (kind === "custom") {
    if (typeof name !== "string") throw refuse("a custom event with a `name`");
    return Object.freeze({ kind, name, payload });
  }
  if (kind !== "status") throw refuse(`an event of kind status or custom, found ${JSON.stringify(kind)}`);
  if (typeof key !== "string" || typeof label !== "string")
    throw refuse("a status event with `key` and `label`");
  if (detail !== undefined && typeof detail !== "string")
    throw refuse("a status event whose `detail` is a string");
  return Object.freeze({ kind, key, label, ...(detail === undefined ? {} : { detail }) });
}

export function decodePluginEvents(raw: unknown, where: string): readonly PluginEvent[] {
  if (!Array.isArray(raw)) {
    throw new MarlingError(
      "invalid_directive",
      `${where}: expected an array of events, found ${typeof raw}`,
      { details: { where } },
    );
  }
  return Object.freeze(raw.map((event: unknown, index) => decodePluginEvent(event, `${where}[${index}]`)));
}

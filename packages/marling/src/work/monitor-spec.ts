// Checks what plugins and callers declare, and fills in the defaults.

import { MarlingError } from "../base/errors.ts";
import { isJsonObject } from "../model/json.ts";
import {
  DEFAULT_MONITOR_TIMEOUT_MS,
  LONGEST_MONITOR_TIMEOUT_MS,
  type MonitorDeclaration,
  type MonitorSpec,
} from "./monitor.ts";

const LONGEST_ID = 512;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused here
const CONTROL = /[\u0000-\u001f\u007f]/;

/**
 * The spec of a declaration; with `pluginId` its id becomes `<plugin>:<id>`.
 * Throws `invalid_monitor` with the name of the member that is wrong.
 */
export function decodeMonitorSpec(
  raw: unknown,
  { pluginId }: { readonly pluginId?: string } = {},
): MonitorSpec {
  if (!isJsonObject(raw)) throw refuse(ownerOf(pluginId), "an object", raw);
  // Members are checked one by one below, each against the type it is read with.
  const declared = raw as Partial<MonitorDeclaration>;
  const id = decodeId(declared.id, pluginId);
  const where = `monitor ${id}: `;
  return Object.freeze({
    id,
    command: decodeText(declared.command, `${where}command`),
    ...(declared.cwd === undefined ? {} : { cwd: decodeText(declared.cwd, `${where}cwd`) }),
    env: decodeEnv(declared.env ?? {}, `${where}env`),
    persistent: decodeBoolean(declared.persistent ?? false, `${where}persistent`),
    timeoutMs: decodeTimeout(declared.timeoutMs ?? DEFAULT_MONITOR_TIMEOUT_MS, `${where}timeoutMs`),
    armOn: oneOf(declared.armOn ?? "manual", ["manual", "session_start"], `${where}armOn`),
    wakePolicy: oneOf(declared.wakePolicy ?? "queue_turn", ["notify", "queue_turn"], `${where}wakePolicy`),
    restartOnRestore: decodeBoolean(declared.restartOnRestore ?? false, `${where}restartOnRestore`),
  });
}

/** An owned id has no colon, so that two owners never share a visible id. */
function decodeId(raw: unknown, pluginId: string | undefined): string {
  const where = `${ownerOf(pluginId)}.id`;
  if (typeof raw !== "string" || raw.trim() === "") throw refuse(where, "a non-blank string", raw);
  if (CONTROL.test(raw)) throw refuse(where, "no control characters", raw);
  if (raw.length > LONGEST_ID) throw refuse(where, `at most ${LONGEST_ID} characters`, raw);
  if (pluginId === undefined) return raw;
  if (raw.includes(":")) throw refuse(where, "an id without a colon", raw);
  return `${pluginId}:${raw}`;
}

function ownerOf(pluginId: string | undefined): string {
  return pluginId === undefined ? "monitor" : `plugin ${pluginId}: monitor`;
}

function decodeText(raw: unknown, where: string): string {
  if (typeof raw !== "string" || raw.trim() === "") throw refuse(where, "a non-blank string", raw);
  if (raw.includes("\0")) throw refuse(where, "no NUL character", raw);
  return raw;
}

function decodeEnv(raw: unknown, where: string): Readonly<Record<string, string>> {
  if (!isJsonObject(raw)) throw refuse(where, "an object", raw);
  const pairs = Object.entries(raw).map(([name, value]): readonly [string, string] => {
    if (name === "" || /[=\0]/.test(name)) throw refuse(where, "names without = and NUL", name);
    if (typeof value !== "string" || value.includes("\0"))
      throw refuse(`${where}.${name}`, "a string without NUL", value);
    return [name, value];
  });
  return Object.freeze(Object.fromEntries(pairs));
}

function decodeBoolean(raw: unknown, where: string): boolean {
  if (typeof raw !== "boolean") throw refuse(where, "true or false", raw);
  return raw;
}

function decodeTimeout(raw: unknown, where: string): number {
  if (typeof raw !== "number" || !Number.isSafeInteger(raw) || raw <= 0)
    throw refuse(where, "a whole number of milliseconds above 0", raw);
  return Math.min(raw, LONGEST_MONITOR_TIMEOUT_MS);
}

function oneOf<T extends string>(raw: unknown, allowed: readonly T[], where: string): T {
  const found = allowed.find((value) => value === raw);
  if (found === undefined) throw refuse(where, allowed.join(" or "), raw);
  return found;
}

function refuse(where: string, expected: string, found: unknown): MarlingError {
  const shown = typeof found === "string" ? JSON.stringify(found.slice(0, 80)) : shapeOf(found);
  return new MarlingError("invalid_monitor", `${where}: expected ${expected}, found ${shown}`, {
    details: { where },
  });
}

function shapeOf(found: unknown): string {
  if (found === undefined || found === null || typeof found === "number" || typeof found === "boolean")
    return String(found);
  return Array.isArray(found) ? "an array" : `a ${typeof found}`;
}

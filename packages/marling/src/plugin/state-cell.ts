// One declared value of a plugin: how it is checked, migrated and forked, and its two versions.
// `working` has what effects of the running turn left behind; `committed` is what the last commit made true.

import { isPromise } from "../base/deferred.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJson, type Json } from "../model/json.ts";
import type { DurableOptions, ForkPolicy } from "./durable.ts";
import { schemaCheck } from "./schema-check.ts";

/** A value as a snapshot has it. */
export interface StoredCell {
  readonly version: number;
  readonly value: Json;
}

const MEMBERS = ["name", "version", "initial", "schema", "migrate", "fork"];

export class StateCell {
  readonly pluginId: string;
  readonly name: string;
  readonly version: number;
  working: Json;
  committed: Json;
  /** The sequence of the delta that `working` came from; 0 when it came from elsewhere. */
  sequence = 0;
  readonly #options: DurableOptions<unknown>;
  readonly #check: (value: unknown) => Json;

  constructor(pluginId: string, name: string, options: DurableOptions<unknown>) {
    this.pluginId = pluginId;
    this.name = name;
    this.version = options.version;
    this.#options = options;
    this.#check = stateCheck(options, `state ${name} of plugin ${pluginId}`);
    this.working = this.initial();
    this.committed = this.working;
  }

  initial(): Json {
    return this.#check(this.#options.initial());
  }

  /** Checks, copies and freezes a value; throws `invalid_plugin_state` for what the schema refuses. */
  check(value: unknown): Json {
    return this.#check(value);
  }

  /** The value to begin with: from a snapshot, migrated, or the initial one. */
  load(stored: StoredCell | undefined): Json {
    if (stored === undefined) return this.initial();
    if (stored.version > this.version)
      throw this.#versionError(stored.version, "an older version of the plugin runs now");
    if (stored.version === this.version) return this.#check(stored.value);
    const { migrate } = this.#options;
    if (migrate === undefined) throw this.#versionError(stored.version, "the state declares no migrate");
    try {
      return this.#check(migrate(stored.value, stored.version));
    } catch (cause) {
      throw this.#versionError(stored.version, `migrate failed: ${messageOf(cause)}`, cause);
    }
  }

  /** What a fork begins with. */
  forked(value: Json): Json {
    const policy: ForkPolicy<unknown> = this.#options.fork ?? "copy";
    if (policy === "copy") return value;
    return policy === "reset" ? this.initial() : this.#check(policy(value));
  }

  /** Puts a value in place of both versions, as a restore does. */
  reset(value: Json): void {
    this.working = value;
    this.committed = value;
    this.sequence = 0;
  }

  #versionError(found: number, reason: string, cause?: unknown): MarlingError {
    const { pluginId, name, version } = this;
    const message = `state ${name} of plugin ${pluginId}: expected version ${version}, found ${found}: ${reason}`;
    return new MarlingError("plugin_state_version", message, {
      ...(cause === undefined ? {} : { cause }),
      details: { pluginId, state: name, expected: version, found },
    });
  }
}

/** Throws `invalid_plugin` naming the member when state is not declared as it must be. */
export function checkDurableOptions(
  options: unknown,
  pluginId: string,
): asserts options is DurableOptions<unknown> {
  const refuse = (member: string, expected: string): MarlingError =>
    new MarlingError("invalid_plugin", `plugin ${pluginId}: durable: ${member}: expected ${expected}`, {
      details: { pluginId, member: `durable.${member}` },
    });
  if (typeof options !== "object" || options === null)
    throw refuse("options", "an object with version and initial");
  const given = options as { readonly [member: string]: unknown };
  const unknown = Object.keys(given).find((key) => !MEMBERS.includes(key));
  if (unknown !== undefined) throw refuse(unknown, `one of ${MEMBERS.join(", ")}`);
  const { name, version, initial, migrate, fork } = given;
  if (name !== undefined && (typeof name !== "string" || name.trim() === "" || name === "__proto__"))
    throw refuse("name", "a non-blank string");
  if (!Number.isSafeInteger(version) || (version as number) < 0)
    throw refuse("version", `a whole number, found ${String(version)}`);
  if (typeof initial !== "function") throw refuse("initial", "a function");
  if (migrate !== undefined && typeof migrate !== "function") throw refuse("migrate", "a function");
  if (fork !== undefined && fork !== "copy" && fork !== "reset" && typeof fork !== "function") {
    throw refuse("fork", `"copy", "reset" or a function, found ${JSON.stringify(fork)}`);
  }
}

function stateCheck(options: DurableOptions<unknown>, where: string): (value: unknown) => Json {
  const check = options.schema === undefined ? undefined : schemaCheck(options.schema, where);
  return (value) => {
    if (isPromise(value)) throw invalid(where, "a value, found a promise: state is computed synchronously");
    const json = decodeState(value, where);
    const result = check?.(json);
    if (result === undefined) return json;
    if (!result.ok) throw invalid(`${where}${result.path}`, result.reason);
    return decodeState(result.value, where);
  };
}

function decodeState(value: unknown, where: string): Json {
  try {
    return decodeJson(value, where);
  } catch (cause) {
    throw new MarlingError("invalid_plugin_state", messageOf(cause), { cause, details: { where } });
  }
}

function invalid(where: string, reason: string): MarlingError {
  return new MarlingError("invalid_plugin_state", `${where}: expected ${reason}`, { details: { where } });
}

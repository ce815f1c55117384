// Options per plugin: JSON under the plugin's id. The kernel never looks inside.

import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJson, decodeJsonObject, type Json, type JsonObject } from "../model/json.ts";
import type { Schema } from "../tool/contract.ts";
import { isStandardSchema, mismatchText } from "../tool/schema.ts";
import { schemaCheck } from "./schema-check.ts";

/** A map from plugin id to that plugin's options; each plugin reads its own. */
export class PluginOptions {
  static readonly empty: PluginOptions = new PluginOptions({});
  readonly #plugins: JsonObject;

  private constructor(plugins: JsonObject) {
    this.#plugins = plugins;
  }

  static of(plugins: unknown): PluginOptions {
    return new PluginOptions(decodeJsonObject(plugins, "plugin options"));
  }

  static typed(pluginId: string, value: unknown): PluginOptions {
    return PluginOptions.empty.with(pluginId, value);
  }

  /** A copy in which the plugin has these options, whatever it had before. */
  with(pluginId: string, value: unknown): PluginOptions {
    return new PluginOptions({ ...this.#plugins, [pluginId]: decodeJson(value, `options of ${pluginId}`) });
  }

  get(pluginId: string): Json | undefined {
    return this.#plugins[pluginId];
  }

  get ids(): readonly string[] {
    return Object.keys(this.#plugins);
  }

  /** Absent options are `undefined`; options that the schema or function refuses are an error that names the plugin. */
  decode<T>(pluginId: string, as: Schema<T> | ((raw: Json) => T)): T | undefined {
    const raw = this.get(pluginId);
    if (raw === undefined) return undefined;
    try {
      return typeof as === "function" && !isStandardSchema(as) ? as(raw) : checked(raw, as as Schema<T>);
    } catch (cause) {
      const message = `options of plugin ${pluginId}: ${messageOf(cause)}`;
      throw new MarlingError("invalid_plugin_options", message, { cause, details: { pluginId } });
    }
  }

  /** On the wire the map is left out when it is empty. */
  toJSON(): JsonObject {
    return Object.keys(this.#plugins).length === 0 ? {} : { plugins: this.#plugins };
  }

  static fromJSON(raw: unknown): PluginOptions {
    const json = decodeJsonObject(raw, "plugin options");
    return json.plugins === undefined ? PluginOptions.empty : PluginOptions.of(json.plugins);
  }
}

function checked<T>(raw: Json, schema: Schema<T>): T {
  const result = schemaCheck(schema, "options")(raw);
  if (!result.ok)
    throw new MarlingError("invalid_plugin_options", mismatchText(result), {
      details: { path: result.path },
    });
  // A schema of T accepted the value, so a T is what it is.
  return result.value as T;
}

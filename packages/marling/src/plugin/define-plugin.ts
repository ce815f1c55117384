// How a plugin is defined. Everything is checked where it is written: the definition here, the options where they are
// given, the parts when they are built.

import { MarlingError } from "../base/errors.ts";
import { pluginId } from "../model/ids.ts";
import { decodeJson, type Json } from "../model/json.ts";
import type { Schema, ValidatedArgs } from "../tool/contract.ts";
import { isStandardSchema, mismatchText } from "../tool/schema.ts";
import type { PluginExtension } from "./extensions.ts";
import type { Plugin, PluginBuildContext, PluginDefinition, PluginParts, PluginSpec } from "./plugin.ts";
import { invalidPlugin } from "./plugin-shape.ts";
import { schemaCheck } from "./schema-check.ts";

const MEMBERS = ["id", "version", "options", "extensions", "build"];

/**
 * Defines a plugin; call the result with options to get one for a runtime.
 * Throws `invalid_plugin` naming the plugin and the member, and `invalid_plugin_options` where options are given.
 */
export function definePlugin<
  O extends Schema | undefined = undefined,
  Parts extends PluginParts = PluginParts,
>(spec: PluginSpec<O, Parts>): PluginDefinition<O, Parts> {
  checkSpec(spec);
  const { id, version = "1" } = spec;
  const extensions = decodeExtensions(spec.extensions ?? [], id);
  const decode = optionsDecoder(spec.options, id);
  const define = (options?: unknown): Plugin => {
    const given = options === undefined ? undefined : { options: decode(options) };
    return Object.freeze({
      id,
      version,
      extensions,
      decodeOptions: (raw: Json | undefined) =>
        raw !== undefined ? decode(raw) : given === undefined ? decode(undefined) : given.options,
      // The context's options were decoded by the spec's own schema, so they are what its build takes.
      build: (ctx: PluginBuildContext<never>) => spec.build(ctx),
    });
  };
  return Object.freeze(Object.assign(define, { id, spec }));
}

function checkSpec(spec: unknown): asserts spec is PluginSpec<Schema | undefined, PluginParts> {
  if (typeof spec !== "object" || spec === null)
    throw invalidPlugin("(unnamed)", "definePlugin", "an object with id and build");
  const { id, version, extensions, build } = spec as { readonly [member: string]: unknown };
  const name = decodeId(id);
  const unknown = Object.keys(spec).find((key) => !MEMBERS.includes(key));
  if (unknown !== undefined) throw invalidPlugin(name, unknown, `one of ${MEMBERS.join(", ")}`);
  if (version !== undefined && (typeof version !== "string" || version === ""))
    throw invalidPlugin(name, "version", "a non-empty string");
  if (extensions !== undefined && !Array.isArray(extensions))
    throw invalidPlugin(name, "extensions", "an array");
  if (typeof build !== "function") throw invalidPlugin(name, "build", `a function, found ${typeof build}`);
}

function decodeId(raw: unknown): string {
  try {
    return pluginId(raw);
  } catch (cause) {
    throw new MarlingError(
      "invalid_plugin",
      `plugin: id: expected a non-blank name, found ${JSON.stringify(raw) ?? typeof raw}`,
      {
        cause,
        details: { member: "id" },
      },
    );
  }
}

function decodeExtensions(
  raw: readonly { readonly id: string; readonly payload: unknown }[],
  owner: string,
): readonly PluginExtension[] {
  return Object.freeze(
    raw.map((extension, index) => {
      const member = `extensions[${index}]`;
      if (typeof extension?.id !== "string" || extension.id.trim() === "")
        throw invalidPlugin(owner, `${member}.id`, "a non-blank name");
      return Object.freeze({
        id: extension.id,
        payload: decodePayload(extension.payload, `plugin ${owner}: ${member}.payload`),
      });
    }),
  );
}

function decodePayload(payload: unknown, where: string): Json {
  try {
    return decodeJson(payload, where);
  } catch (cause) {
    throw new MarlingError("invalid_plugin", (cause as Error).message, { cause, details: { member: where } });
  }
}

function optionsDecoder(schema: Schema | undefined, owner: string): (raw: unknown) => unknown {
  const where = `plugin ${owner}: options`;
  if (schema === undefined) {
    return (raw) => {
      if (raw === undefined) return undefined;
      throw invalidOptions(owner, { path: "", reason: "expected none: the plugin takes no options" });
    };
  }
  const check = schemaCheck(schema, where);
  // A JSON Schema describes a value that is there: no options at all count as an empty object.
  const absent = isStandardSchema(schema) ? undefined : {};
  return (raw) => {
    const result: ValidatedArgs = check(raw === undefined ? absent : raw);
    if (!result.ok) throw invalidOptions(owner, result);
    return result.value;
  };
}

function invalidOptions(
  owner: string,
  mismatch: { readonly path: string; readonly reason: string },
): MarlingError {
  return new MarlingError("invalid_plugin_options", `options of plugin ${owner}: ${mismatchText(mismatch)}`, {
    details: { pluginId: owner, path: mismatch.path },
  });
}

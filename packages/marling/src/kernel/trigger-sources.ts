// Which sources of occurrences there are: those that plugins declare, and those that the runtime drives by itself.

import { MarlingError } from "../base/errors.ts";
import { decodeJson, type Json } from "../model/json.ts";
import { declaredTriggers } from "../plugin/build-session.ts";
import type { PluginHost } from "../plugin/plugin-host.ts";
import { schemaCheck } from "../plugin/schema-check.ts";
import type { DeclaredTrigger, TriggerCatalog } from "../plugin/trigger.ts";
import { mismatchText } from "../tool/schema.ts";
import { CRON_SOURCE, INTERVAL_SOURCE } from "../work/schedule.ts";

const DRIVEN: readonly string[] = [CRON_SOURCE, INTERVAL_SOURCE];

export class TriggerSources {
  readonly #plugins: PluginHost;
  #catalog: TriggerCatalog | undefined;

  constructor(plugins: PluginHost) {
    this.#plugins = plugins;
  }

  /** Throws `unknown_trigger` for a source that nobody declares. */
  require(source: string): void {
    if (!DRIVEN.includes(source)) this.#declared(source);
  }

  /** Checks what is emitted against what its plugin declared. Throws `unknown_trigger` or `invalid_trigger_payload`. */
  checked(source: string, raw: unknown): Json {
    if (DRIVEN.includes(source)) throw drivenSource(source);
    const { payloadSchema, pluginId } = this.#declared(source);
    const payload = decodeJson(raw ?? null, `payload of ${source}`);
    if (payloadSchema === undefined) return payload;
    const result = schemaCheck(
      payloadSchema,
      `plugin ${pluginId}: trigger ${source}: payloadSchema`,
    )(payload);
    if (result.ok) return payload;
    const message = `trigger ${source} of plugin ${pluginId}: payload: ${mismatchText(result)}`;
    throw new MarlingError("invalid_trigger_payload", message, {
      details: { source, pluginId, path: result.path },
    });
  }

  #declared(source: string): DeclaredTrigger {
    this.#catalog ??= declaredTriggers(this.#plugins);
    const found = this.#catalog.bySourceType(source);
    if (found !== undefined) return found;
    const known = [...this.#catalog.triggers.map(({ sourceType }) => sourceType), ...DRIVEN];
    const message = `trigger: expected one of ${known.join(", ")}, found ${source}`;
    throw new MarlingError("unknown_trigger", message, { details: { source, known } });
  }
}

function drivenSource(source: string): MarlingError {
  const message = `trigger ${source}: expected a source that a plugin declares, found one that only the runtime emits`;
  return new MarlingError("unknown_trigger", message, { details: { source } });
}

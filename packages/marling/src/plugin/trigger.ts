// Triggers that plugins declare: events from outside that may start work.

import { MarlingError } from "../base/errors.ts";
import { decodeJsonObject, type JsonObject } from "../model/json.ts";
import { invalidPlugin } from "./plugin-shape.ts";

export interface TriggerDeclaration {
  readonly resourceType: string;
  readonly alias: string;
  readonly event: string;
  readonly description?: string;
  readonly payloadSchema?: JsonObject;
}

export interface DeclaredTrigger extends TriggerDeclaration {
  /** `<alias>.<event>`, unique in the session. */
  readonly sourceType: string;
  readonly pluginId: string;
}

export interface TriggerCatalog {
  readonly triggers: readonly DeclaredTrigger[];
  bySourceType(sourceType: string): DeclaredTrigger | undefined;
}

/** Builds the catalog. Throws `duplicate_trigger` for a key or a source type that is there already. */
export function collectTriggers(
  declared: readonly { readonly pluginId: string; readonly triggers: readonly TriggerDeclaration[] }[],
): TriggerCatalog {
  const byKey = new Map<string, DeclaredTrigger>();
  const bySourceType = new Map<string, DeclaredTrigger>();
  for (const { pluginId, triggers } of declared) {
    for (const [index, raw] of triggers.entries()) {
      const trigger = decodeTrigger(raw, pluginId, index);
      const key = JSON.stringify([trigger.resourceType, trigger.alias, trigger.event]);
      const other = byKey.get(key) ?? bySourceType.get(trigger.sourceType);
      if (other !== undefined) throw duplicate(trigger, other);
      byKey.set(key, trigger);
      bySourceType.set(trigger.sourceType, trigger);
    }
  }
  return Object.freeze({
    triggers: Object.freeze([...bySourceType.values()]),
    bySourceType: (sourceType: string) => bySourceType.get(sourceType),
  });
}

function decodeTrigger(raw: TriggerDeclaration, pluginId: string, index: number): DeclaredTrigger {
  const member = `triggers[${index}]`;
  const { resourceType, alias, event, description, payloadSchema } = raw ?? {};
  for (const [name, value] of Object.entries({ resourceType, alias, event })) {
    if (typeof value !== "string" || value.trim() === "")
      throw invalidPlugin(pluginId, `${member}.${name}`, "a non-blank string");
  }
  if (description !== undefined && typeof description !== "string")
    throw invalidPlugin(pluginId, `${member}.description`, "a string");
  return Object.freeze({
    resourceType,
    alias,
    event,
    ...(description === undefined ? {} : { description }),
    ...(payloadSchema === undefined
      ? {}
      : { payloadSchema: decodeJsonObject(payloadSchema, `plugin ${pluginId}: ${member}.payloadSchema`) }),
    sourceType: `${alias}.${event}`,
    pluginId,
  });
}

function duplicate(trigger: DeclaredTrigger, other: DeclaredTrigger): MarlingError {
  const { sourceType, pluginId } = trigger;
  const message = `trigger ${sourceType}: expected one declaration, found one of plugin ${other.pluginId} and one of plugin ${pluginId}`;
  return new MarlingError("duplicate_trigger", message, {
    details: { sourceType, plugins: [other.pluginId, pluginId] },
  });
}

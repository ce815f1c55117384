// Data that plugins of one host leave for each other, collected once, in plugin order.

import type { Json } from "../model/json.ts";

export interface PluginExtension {
  readonly id: string;
  readonly payload: Json;
}

export interface PluginExtensions {
  /** All payloads under an id, in plugin order; none for an unknown id. */
  payloads(id: string): readonly Json[];
  readonly ids: readonly string[];
}

export function collectExtensions(extensions: readonly PluginExtension[]): PluginExtensions {
  const byId = new Map<string, Json[]>();
  for (const { id, payload } of extensions) byId.set(id, [...(byId.get(id) ?? []), payload]);
  const none: readonly Json[] = Object.freeze([]);
  return Object.freeze({
    payloads: (id: string) => byId.get(id) ?? none,
    ids: Object.freeze([...byId.keys()]),
  });
}

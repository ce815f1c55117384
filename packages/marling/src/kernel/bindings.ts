// Names that a stored session needs: policies and snapshots name models and plugins, and this runtime must have them.

import { MarlingError } from "../base/errors.ts";
import { decodePluginSnapshot } from "../plugin/snapshot.ts";
import type { StoredSession } from "../store/contract.ts";
import type { KernelParts } from "./parts.ts";
import { storedAssignment } from "./session-state.ts";

/** Throws `needs_binding` when this runtime cannot go on with a session as it was left. */
export function requireBindings(parts: KernelParts, stored: StoredSession): void {
  const { sessionId: id } = stored;
  const { model } = storedAssignment(stored).policy;
  const { plugins } = stored.components;
  const known = new Set(parts.plugins.plugins.map((plugin) => plugin.id as string));
  const pluginIds = plugins === undefined ? [] : Object.keys(decodePluginSnapshot(plugins).plugins);
  const missing = [
    ...(parts.models.has(model) ? [] : [`model ${model}`]),
    ...pluginIds.filter((pluginId) => !known.has(pluginId)).map((pluginId) => `plugin ${pluginId}`),
  ];
  if (missing.length === 0) return;
  const message = `session ${id}: expected a runtime with ${missing.join(" and ")}, found one without`;
  throw new MarlingError("needs_binding", message, { details: { sessionId: id, missing } });
}

// Slots: parts of a session that have one owner at most.

import { MarlingError } from "../base/errors.ts";
import type { PluginOwned } from "./hook-table.ts";
import type { PluginParts, ProseProjector, ToolResultProjector } from "./plugin.ts";
import type { PluginInstance } from "./plugin-instance.ts";
import type { CodeExecutor, ProtocolDriverFactory, ProtocolSession } from "./protocol.ts";

interface SlotTypes {
  "tool_results.projector": ToolResultProjector;
  "output.prose_projector": ProseProjector;
  "protocol.session": ProtocolSession;
  "protocol.driver": ProtocolDriverFactory;
  "execution.code_executor": CodeExecutor;
}

export type SlotName = keyof SlotTypes;
export type Slots = { readonly [S in SlotName]: PluginOwned<SlotTypes[S]> | undefined };

const SLOTS: { readonly [S in SlotName]: (parts: PluginParts) => SlotTypes[S] | undefined } = {
  "tool_results.projector": (parts) => parts.toolResults?.projector,
  "output.prose_projector": (parts) => parts.output?.proseProjector,
  "protocol.session": (parts) => parts.protocol?.session,
  "protocol.driver": (parts) => parts.protocol?.driver,
  "execution.code_executor": (parts) => parts.execution?.codeExecutor,
};

/** Fills the slots. Throws `slot_taken` naming the slot and both plugins. */
export function fillSlots(instances: readonly PluginInstance[]): Slots {
  const fill = <S extends SlotName>(slot: S): PluginOwned<SlotTypes[S]> | undefined => {
    const pick: (parts: PluginParts) => SlotTypes[S] | undefined = SLOTS[slot];
    let owner: PluginOwned<SlotTypes[S]> | undefined;
    for (const { id: pluginId, parts } of instances) {
      const value = pick(parts);
      if (value === undefined) continue;
      if (owner !== undefined) throw taken(slot, owner.pluginId, pluginId);
      owner = { pluginId, value };
    }
    return owner;
  };
  return Object.freeze({
    "tool_results.projector": fill("tool_results.projector"),
    "output.prose_projector": fill("output.prose_projector"),
    "protocol.session": fill("protocol.session"),
    "protocol.driver": fill("protocol.driver"),
    "execution.code_executor": fill("execution.code_executor"),
  });
}

/** True when nobody brings any part of a protocol, so that the standard one is added. */
export function hasNoProtocol(instances: readonly PluginInstance[]): boolean {
  return instances.every(
    ({ parts }) => parts.protocol?.session === undefined && parts.protocol?.driver === undefined,
  );
}

/** Both halves of the protocol. Throws `missing_protocol` naming what is missing. */
export function requireProtocol(slots: Slots): {
  readonly session: ProtocolSession;
  readonly driver: ProtocolDriverFactory;
} {
  const session = slots["protocol.session"];
  const driver = slots["protocol.driver"];
  if (session !== undefined && driver !== undefined) return { session: session.value, driver: driver.value };
  const missing = [
    ...(session === undefined ? ["protocol.session"] : []),
    ...(driver === undefined ? ["protocol.driver"] : []),
  ];
  const owner = session?.pluginId ?? driver?.pluginId;
  const found = owner === undefined ? "no plugin with one" : `only the other half, of plugin ${owner}`;
  throw new MarlingError(
    "missing_protocol",
    `expected a plugin that fills ${missing.join(" and ")}, found ${found}`,
    { details: { missing } },
  );
}

function taken(slot: SlotName, owner: string, second: string): MarlingError {
  return new MarlingError(
    "slot_taken",
    `slot ${slot} has one owner: plugin ${owner} fills it, and plugin ${second} wants to`,
    {
      details: { slot, plugins: [owner, second] },
    },
  );
}

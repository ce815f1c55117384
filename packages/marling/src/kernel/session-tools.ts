// The tools of a session, for its host and its plugins.
//   TS1  a change is seen by the session at once, by a turn that runs too, and it is committed whatever becomes of the turn.

import { MarlingError } from "../base/errors.ts";
import type {
  AvailabilityTier,
  ToolManifest,
  ToolProvider,
  ToolSource,
  ToolState,
} from "../tool/contract.ts";
import type { ToolRegistry } from "../tool/registry.ts";
import { drivable, requireBindings } from "./bindings.ts";
import { refreshIdle } from "./claim-session.ts";
import { commitBeside, stateChange } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";

export interface SessionTools {
  /** What the model may be shown, after catalogs, overlays and authority. */
  list(): readonly ToolManifest[];
  /** Adds tools to the session or takes them out; returns the new generation. Unknown names change nothing. */
  setMembership(names: readonly string[], present: boolean): Promise<number>;
  /** Sets how visible tools are; `null` goes back to what the tool says itself. */
  setAvailability(names: readonly string[], tier: AvailabilityTier | null): Promise<number>;
  state(): ToolState;
  /** Puts a whole state in place; it must be of the current generation. */
  apply(state: ToolState): Promise<number>;
  /** Adds a live provider to this session. */
  add(provider: ToolProvider): ToolSource;
}

export function sessionTools(session: ResidentSession): SessionTools {
  const commit = (change: ToolChange): Promise<number> => commitTools(session, change);
  return Object.freeze({
    list: () => drivable(session).sharedToolCatalog(),
    setMembership: (names: readonly string[], present: boolean) =>
      commit((tools) => tools.setMembership(names, present)),
    setAvailability: (names: readonly string[], tier: AvailabilityTier | null) =>
      commit((tools) => tools.setAvailability(names, tier)),
    state: () => drivable(session).plugins.toolRegistry.exportState(),
    apply: (state: ToolState) => commit((tools) => tools.applyState(state)),
    add: (provider: ToolProvider) => addProvider(drivable(session), provider),
  });
}

export type ToolChange = (tools: ToolRegistry) => unknown;

/** Changes the tools of a session and makes the change visible to it at once. Returns the generation that holds now. */
export function changeTools(session: ResidentSession, change: ToolChange): number {
  const { toolRegistry } = session.plugins;
  change(toolRegistry);
  session.refreshToolCatalog();
  return toolRegistry.generation;
}

/** As `changeTools`, and committed. */
export async function commitTools(session: ResidentSession, change: ToolChange): Promise<number> {
  if (session.parts.effects.remembers === true) await refreshIdle(session);
  requireBindings(session);
  const generation = changeTools(session, change);
  if (generation !== session.state.saved.tools)
    await commitBeside(session, () => stateChange(session, "tools"));
  return generation;
}

function addProvider(session: ResidentSession, provider: ToolProvider): ToolSource {
  if (typeof provider?.manifests !== "function" || typeof provider.execute !== "function") {
    const message = `session ${session.id}: expected a tool provider with manifests() and execute(), found something else`;
    throw new MarlingError("invalid_tool", message);
  }
  const source = session.plugins.toolRegistry.addLive(provider);
  try {
    session.refreshToolCatalog();
  } catch (thrown) {
    source.remove();
    throw thrown;
  }
  return Object.freeze({
    id: source.id,
    remove: () => {
      source.remove();
      session.refreshToolCatalog();
    },
  });
}

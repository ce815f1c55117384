// The tools of a session, for its host.

import { MarlingError } from "../base/errors.ts";
import type { AvailabilityTier, ToolManifest, ToolProvider, ToolSource, ToolState } from "../tool/contract.ts";
import { commitChange, operationOf } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";
import { changeTools } from "./services.ts";

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
  const { toolRegistry } = session.plugins;
  const change = (apply: () => number): Promise<number> => commitTools(session, apply);
  return Object.freeze({
    list: () => session.sharedToolCatalog(),
    setMembership: (names: readonly string[], present: boolean) => change(() => toolRegistry.setMembership(names, present)),
    setAvailability: (names: readonly string[], tier: AvailabilityTier | null) => change(() => toolRegistry.setAvailability(names, tier)),
    state: () => toolRegistry.exportState(),
    apply: (state: ToolState) => change(() => toolRegistry.applyState(state)),
    add: (provider: ToolProvider) => addProvider(session, provider),
  });
}

async function commitTools(session: ResidentSession, apply: () => number): Promise<number> {
  const generation = changeTools(session, apply);
  await commitChange(session, { operation: operationOf(session, "tools").operation, change: (graph) => ({ graph, nodes: [] }) });
  return generation;
}

function addProvider(session: ResidentSession, provider: ToolProvider): ToolSource {
  if (typeof provider?.manifests !== "function" || typeof provider.execute !== "function") {
    throw new MarlingError("invalid_tool", `session ${session.id}: expected a tool provider with manifests() and execute(), found neither`);
  }
  const source = session.plugins.toolRegistry.addLive(provider);
  session.refreshToolCatalog();
  return {
    id: source.id,
    remove: () => {
      source.remove();
      session.refreshToolCatalog();
    },
  };
}

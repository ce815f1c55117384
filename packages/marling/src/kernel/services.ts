// What the kernel offers to plugins. A session reaches itself and its descendants, and nothing else.

import { MarlingError } from "../base/errors.ts";
import type { HostServices } from "../plugin/host-services.ts";
import { appendNodes } from "./append-nodes.ts";
import type { ResidentSession } from "./resident-session.ts";
import { changeTools, commitTools, type ToolChange } from "./session-tools.ts";

export function hostServices(session: ResidentSession): HostServices {
  const reach = (id: string): ResidentSession => reachable(session, id);
  // What plugins do to their own session while it works is committed with that work.
  const tools = async (id: string, change: ToolChange): Promise<number> => {
    const target = reach(id);
    const isAtWork = target === session && session.writer.length > 0;
    return isAtWork ? changeTools(target, change) : commitTools(target, change);
  };
  const services: HostServices = {
    snapshotCurrent: async () => session.readView(),
    snapshotSession: async (id) => reach(id).readView(),
    toolCatalog: async (id) => reach(id).toolCatalog(),
    toolState: async (id) => reach(id).plugins.toolRegistry.exportState(),
    applyToolState: (id, state) => tools(id, (registry) => registry.applyState(state)),
    setToolsAvailability: (id, names, tier) => tools(id, (registry) => registry.setAvailability(names, tier)),
    setToolAvailability: (id, name, tier) => tools(id, (registry) => registry.setAvailability([name], tier)),
    setToolMembership: (id, names, present) =>
      tools(id, (registry) => registry.setMembership(names, present)),
    createSession: (request) => session.parts.sessions.create(request, session),
    closeSession: (id) => session.parts.sessions.close(id, session),
    appendSessionNodes: (id, request) => appendNodes(reach(id), request),
    emitTrace: async ({ name, payload = null, context = {} }) => {
      const { trace, clock, owner } = session.parts;
      try {
        trace?.record({
          name,
          owner,
          sessionId: session.id,
          at: clock.now(),
          context,
          payload,
          ...(session.running === undefined ? {} : { turnId: session.running.turnId }),
        });
      } catch {
        // A trace sink that fails is nobody's problem but its own.
      }
    },
  };
  return Object.freeze(services);
}

/** A session that this one may reach: itself, or one that descends from it. */
export function reachable(from: ResidentSession, id: string): ResidentSession {
  if (id === from.id) return from;
  const target = from.parts.sessions.find(id);
  for (let at = target; at !== undefined; at = parentOf(at))
    if (at.id === from.id) return target as ResidentSession;
  throw new MarlingError(
    "unknown_session",
    `session ${from.id}: expected itself or an open session below it, found ${id}`,
    { details: { sessionId: id } },
  );
}

function parentOf(session: ResidentSession): ResidentSession | undefined {
  const { parentSessionId } = session.state;
  return parentSessionId === undefined ? undefined : session.parts.sessions.find(parentSessionId);
}

// What the kernel offers to plugins. A session reaches itself and its descendants, and nothing else.

import { MarlingError } from "../base/errors.ts";
import type { HostServices } from "../plugin/host-services.ts";
import type { ToolState } from "../tool/contract.ts";
import { appendNodes } from "./append-nodes.ts";
import type { ResidentSession } from "./resident-session.ts";

export function hostServices(session: ResidentSession): HostServices {
  const reach = (id: string): ResidentSession => reachable(session, id);
  const services: HostServices = {
    snapshotCurrent: async () => session.readView(),
    snapshotSession: async (id) => reach(id).readView(),
    toolCatalog: async (id) => reach(id).toolCatalog(),
    toolState: async (id) => reach(id).plugins.toolRegistry.exportState(),
    applyToolState: async (id, state) => changeTools(reach(id), (target) => target.plugins.toolRegistry.applyState(state as ToolState)),
    setToolsAvailability: async (id, names, tier) => changeTools(reach(id), (target) => target.plugins.toolRegistry.setAvailability(names, tier)),
    setToolAvailability: async (id, name, tier) => changeTools(reach(id), (target) => target.plugins.toolRegistry.setAvailability([name], tier)),
    setToolMembership: async (id, names, present) => changeTools(reach(id), (target) => target.plugins.toolRegistry.setMembership(names, present)),
    createSession: (request) => session.parts.sessions.create(request, session),
    closeSession: (id) => session.parts.sessions.close(id, session),
    appendSessionNodes: (id, request) => appendNodes(reach(id), request),
    emitTrace: async ({ name, payload = null, context = {} }) => {
      const { trace, clock, owner } = session.parts;
      try {
        trace?.record({ name, owner, sessionId: session.id, at: clock.now(), context, payload, ...(session.running === undefined ? {} : { turnId: session.running.turnId }) });
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
  for (let at = target; at !== undefined; at = parentOf(at)) if (at.id === from.id) return target as ResidentSession;
  throw new MarlingError("unknown_session", `session ${from.id}: expected itself or an open session below it, found ${id}`, { details: { sessionId: id } });
}

function parentOf(session: ResidentSession): ResidentSession | undefined {
  const { parentSessionId } = session.state;
  return parentSessionId === undefined ? undefined : session.parts.sessions.find(parentSessionId);
}

/** Changes the tools of a session and makes the change visible to it at once. */
export function changeTools(session: ResidentSession, change: (session: ResidentSession) => number): number {
  const generation = change(session);
  session.refreshToolCatalog();
  return generation;
}

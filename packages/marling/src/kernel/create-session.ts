// Sessions that plugins and tools ask for. A child has the authority it is given, cut to that of its parent.

import { MarlingError } from "../base/errors.ts";
import { type SessionId, sessionId } from "../model/ids.ts";
import { type SessionPolicy, decodePolicy } from "../model/policy.ts";
import { narrowAuthority } from "../plugin/fork.ts";
import type { PluginSession } from "../plugin/plugin-session.ts";
import type { SessionCreateRequest } from "../plugin/session-create.ts";
import { bodiesOf, decodeAppendNodes } from "../session/append-node.ts";
import type { FrameAssignment, SessionAuthority } from "../session/frame.ts";
import { type Appended, appendToGraph, createGraph, forkGraph, withAssignment } from "../session/graph.ts";
import { materialize } from "./open-session.ts";
import type { ResidentSession } from "./resident-session.ts";
import { reachable } from "./services.ts";
import { NOTHING_SAVED, type SessionState } from "./session-state.ts";

export async function createSession(from: ResidentSession, request: SessionCreateRequest): Promise<ResidentSession> {
  const { parts } = from;
  const id = await newId(from, request);
  const source = startOf(from, request);
  const parent = request.relation?.kind === "root" ? undefined : (request.relation?.parent ?? from.id);
  const assignment = assignmentOf(from, source, request);
  const { graph, nodes } = startGraph(id, { source, assignment, request });
  const plugins = buildPlugins(from, { id, parent, authority: assignment.authority, isFresh: request.plugins === "fresh" });
  const revision = source === undefined ? 0 : (await parts.store.fork({ from: source.id, as: id })).revision;
  const state: SessionState = {
    graph,
    revision,
    turnIndex: source?.state.turnIndex ?? 0,
    ledger: [],
    lastPromptUsage: undefined,
    parentSessionId: parent,
    operations: 0,
    saved: NOTHING_SAVED,
  };
  return materialize(parts, { plugins, state, opening: nodes });
}

async function newId(from: ResidentSession, request: SessionCreateRequest): Promise<SessionId> {
  const { parts } = from;
  const isTaken = async (id: SessionId) => parts.sessions.find(id) !== undefined || (await parts.store.exists(id));
  const wanted = request.sessionId?.trim() ?? "";
  if (wanted === "") {
    for (let number = 1; ; number += 1) {
      const id = sessionId(`${from.id}:child:${number}`);
      if (!(await isTaken(id))) return id;
    }
  }
  const id = sessionId(wanted);
  if (id === from.id || (await isTaken(id))) {
    throw new MarlingError("duplicate_session", `session ${from.id}: expected a new id for the session to create, found ${id}, which exists`, { details: { sessionId: id } });
  }
  return id;
}

/** The session whose history the new one begins with, if any. */
function startOf(from: ResidentSession, request: SessionCreateRequest): ResidentSession | undefined {
  const start = request.start ?? { kind: "empty" };
  if (start.kind === "empty") return undefined;
  return start.kind === "current_session" ? from : reachable(from, start.id);
}

function assignmentOf(from: ResidentSession, source: ResidentSession | undefined, request: SessionCreateRequest): FrameAssignment {
  const inherited: SessionPolicy = (source ?? from).policy;
  const held = from.frame.assignment.authority;
  const authority = narrowAuthority(held, {
    toolAccess: { tools: request.toolAccess?.tools ?? [], hiddenTools: request.toolAccess?.hiddenTools ?? [] },
    pluginOptions: { ...held.pluginOptions, ...request.pluginOptions },
    ...(request.subagent === undefined ? {} : { subagent: request.subagent }),
  });
  return { policy: decodePolicy({ ...inherited, ...request.policy }), authority, usageSource: request.usageSource ?? "child" };
}

/** The graph that the new session begins with, and the nodes of it that are not shared with the source. */
function startGraph(id: SessionId, { source, assignment, request }: { readonly source: ResidentSession | undefined; readonly assignment: FrameAssignment; readonly request: SessionCreateRequest }): Appended {
  const base = source === undefined ? createGraph({ sessionId: id, assignment }) : withAssignment(forkGraph(source.state.graph, { sessionId: id }), assignment);
  const own = source === undefined ? base.path.toArray() : [];
  const wanted = decodeAppendNodes(request.initialNodes ?? [], "initialNodes");
  if (wanted.length === 0) return { graph: base, nodes: own };
  const operation = { sessionId: id, operation: `${id}:seed`, ordinal: 0 };
  const seeded = appendToGraph(base, bodiesOf(wanted, { operation }), operation);
  return { graph: seeded.graph, nodes: [...own, ...seeded.nodes] };
}

function buildPlugins(from: ResidentSession, build: { readonly id: SessionId; readonly parent: string | undefined; readonly authority: SessionAuthority; readonly isFresh: boolean }): PluginSession {
  const { id, parent, authority, isFresh } = build;
  if (isFresh) return from.parts.plugins.buildSession(id, { parent, authority });
  return from.plugins.forkForChildSession(id, parent, authority);
}

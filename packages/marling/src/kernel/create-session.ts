// Sessions that plugins and tools ask for.
//   CS1  a new session has at most the authority of the one that asks, and of the parent it is given.
//   CS2  it reaches no further than that one does: parents and starts are itself or sessions below it.
//   CS3  it begins with a commit of the session it starts from; what lands there meanwhile is not part of it.
//   CS4  a failure leaves nothing behind: no registered plugins, no stored session.

import { MarlingError } from "../base/errors.ts";
import { type SessionId, sessionId } from "../model/ids.ts";
import { decodePolicy, type SessionPolicy } from "../model/policy.ts";
import { narrowAuthority } from "../plugin/fork.ts";
import type { PluginSession } from "../plugin/plugin-session.ts";
import { decodeSessionCreateRequest, type SessionCreateRequest } from "../plugin/session-create.ts";
import { bodiesOf } from "../session/append-node.ts";
import type { FrameAssignment, SessionAuthority } from "../session/frame.ts";
import { type Appended, appendToGraph, createGraph, forkGraph, type SessionGraph, withAssignment } from "../session/graph.ts";
import { modelOf } from "./model-binding.ts";
import { materialize } from "./open-session.ts";
import type { ResidentSession } from "./resident-session.ts";
import { reachable } from "./services.ts";
import { NOTHING_SAVED, type SessionState } from "./session-state.ts";

/** What a new session is made from. */
interface Origin {
  readonly id: SessionId;
  readonly from: ResidentSession;
  readonly parent: ResidentSession | undefined;
  /** The session whose history it begins with, and where that stood. */
  readonly source: ResidentSession | undefined;
  readonly sourceState: SessionState | undefined;
}

export async function createSession(from: ResidentSession, raw: SessionCreateRequest): Promise<ResidentSession> {
  const request = decodeSessionCreateRequest(raw);
  const origin = originOf(from, await newId(from, request), request);
  const { id, parent, source, sourceState } = origin;
  const assignment = assignmentOf(origin, request);
  const { graph, nodes } = startGraph(origin, assignment, request);
  const state: SessionState = {
    graph,
    revision: 0,
    turnIndex: sourceState?.turnIndex ?? 0,
    ledger: [],
    lastPromptUsage: undefined,
    parentSessionId: parent?.id,
    operations: 0,
    saved: NOTHING_SAVED,
  };
  const { store } = from.parts;
  const start = source === undefined ? {} : { start: () => store.fork({ from: source.id, as: id, at: graphOf(origin).leaf }) };
  const plugins = buildPlugins(origin, assignment.authority, { isFresh: request.plugins === "fresh" });
  return materialize(from.parts, { plugins, state, opening: nodes, ...start });
}

function originOf(from: ResidentSession, id: SessionId, { relation, start }: SessionCreateRequest): Origin {
  const parent = relation?.kind === "root" ? undefined : relation === undefined ? from : reachable(from, relation.parent);
  const source = start === undefined || start.kind === "empty" ? undefined : start.kind === "current_session" ? from : reachable(from, start.id);
  return { id, from, parent, source, sourceState: source?.state };
}

/** The id that was asked for, if it is free; else one that derives from where the session that asks stands. */
async function newId(from: ResidentSession, request: SessionCreateRequest): Promise<SessionId> {
  const { sessions, store } = from.parts;
  const isTaken = async (id: SessionId): Promise<boolean> => sessions.find(id) !== undefined || (await store.exists(id));
  const wanted = request.sessionId?.trim() ?? "";
  if (wanted === "") {
    for (let number = 1; ; number += 1) {
      const id = sessionId(`${from.id}:child:${from.state.revision}.${number}`);
      if (!(await isTaken(id))) return id;
    }
  }
  const id = sessionId(wanted);
  if (!(await isTaken(id))) return id;
  const message = `session ${from.id}: expected a new id for the session to create, found ${id}, which exists`;
  throw new MarlingError("duplicate_session", message, { details: { sessionId: id } });
}

function assignmentOf({ from, parent, source }: Origin, request: SessionCreateRequest): FrameAssignment {
  const inherited: SessionPolicy = (source ?? from).policy;
  const policy = decodePolicy({ ...inherited, ...request.policy }, "request.policy");
  if (request.policy?.model !== undefined) modelOf(from, policy.model);
  const { toolAccess, subagent, pluginOptions, usageSource = "child" } = request;
  const held = (parent ?? from).frame.assignment.authority;
  return { policy, authority: narrowAuthority(held, { toolAccess, subagent, pluginOptions }), usageSource };
}

/** The graph that the new session begins with, and the nodes of it that are not shared with the source. */
function startGraph(origin: Origin, assignment: FrameAssignment, { initialNodes = [] }: SessionCreateRequest): Appended {
  const { id, source } = origin;
  const base = source === undefined ? createGraph({ sessionId: id, assignment }) : withAssignment(forkGraph(graphOf(origin), { sessionId: id }), assignment);
  const own = source === undefined ? base.path.toArray() : [];
  if (initialNodes.length === 0) return { graph: base, nodes: own };
  const operation = { sessionId: id, operation: "seed", ordinal: 0 };
  const seeded = appendToGraph(base, bodiesOf(initialNodes, { operation }), operation);
  return { graph: seeded.graph, nodes: [...own, ...seeded.nodes] };
}

function graphOf({ from, sourceState }: Origin): SessionGraph {
  return (sourceState ?? from.state).graph;
}

function buildPlugins({ id, from, parent }: Origin, authority: SessionAuthority, { isFresh }: { readonly isFresh: boolean }): PluginSession {
  if (isFresh) return from.parts.plugins.buildSession(id, { parent: parent?.id, authority });
  return from.plugins.forkForChildSession(id, parent?.id, authority);
}

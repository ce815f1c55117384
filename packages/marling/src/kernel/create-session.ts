// Sessions that plugins and tools ask for.
//   CS1  a new session has at most the authority of the one that asks, and of the parent it is given, which a host may have
//        given more; of a budget, what is left.
//   CS2  it reaches no further than that one does: parents and starts are itself or sessions below it.
//   CS3  it begins with a commit of the session it starts from; what lands there meanwhile is not part of it.
//   CS5  what an effect asks for is named after the effect: every run of it finds the same session, whatever was committed
//        in between.
//   CS4  a failure leaves nothing behind: no registered plugins, no stored session.

import { sha256 } from "../base/digest.ts";
import { MarlingError } from "../base/errors.ts";
import { type SessionId, sessionId } from "../model/ids.ts";
import { decodePolicy, type SessionPolicy } from "../model/policy.ts";
import { narrowAuthority } from "../plugin/fork.ts";
import type { PluginSession } from "../plugin/plugin-session.ts";
import { decodeSessionCreateRequest, type SessionCreateRequest } from "../plugin/session-create.ts";
import { bodiesOf } from "../session/append-node.ts";
import type { FrameAssignment, SessionAuthority } from "../session/frame.ts";
import { type Appended, appendToGraph, createGraph, forkGraph, withAssignment } from "../session/graph.ts";
import { requireBindings } from "./bindings.ts";
import { modelOf } from "./model-binding.ts";
import { materialize } from "./open-session.ts";
import type { ResidentSession } from "./resident-session.ts";
import { reachable } from "./session-reach.ts";
import { NOTHING_SAVED, type SessionState, storedAssignment } from "./session-state.ts";
import { tokensLeft } from "./spending.ts";

/** What a new session is made from. */
interface Origin {
  readonly id: SessionId;
  readonly from: ResidentSession;
  readonly parent: ResidentSession | undefined;
  /** What it runs with where nothing else is asked for. */
  readonly policy: SessionPolicy;
  /** The session whose history it begins with, if there is one, and where that stood. */
  readonly source: ResidentSession | undefined;
  readonly start: SessionState | undefined;
  /** The effect that asks for it. */
  readonly cause: string | undefined;
}

/** A session that was made, with its id kept until it is open, or one that an earlier run of the same effect made. */
export type MadeSession =
  | { readonly kind: "made"; readonly session: ResidentSession; release(): void }
  | { readonly kind: "known"; readonly id: SessionId };

export async function createSession(
  from: ResidentSession,
  raw: SessionCreateRequest,
  cause: string | undefined,
): Promise<MadeSession> {
  const request = decodeSessionCreateRequest(raw);
  const place = await newId(from, request, cause);
  const { id, release } = place;
  if (release === undefined) return { kind: "known", id };
  try {
    const origin = { ...originOf(from, id, request), cause };
    return { kind: "made", session: await makeSession(origin, request), release };
  } catch (thrown) {
    release();
    throw thrown;
  }
}

async function makeSession(origin: Origin, request: SessionCreateRequest): Promise<ResidentSession> {
  const { id, parent, source, start } = origin;
  const { parts } = origin.from;
  const assignment = assignmentOf(origin, request);
  const { graph, nodes } = startGraph(origin, assignment, request);
  const state: SessionState = {
    graph,
    revision: 0,
    turnIndex: start?.turnIndex ?? 0,
    ledger: [],
    lastPromptUsage: undefined,
    parentSessionId: parent?.id,
    operations: 0,
    saved: NOTHING_SAVED,
  };
  const plugins = buildPlugins(origin, assignment.authority, { isFresh: request.plugins === "fresh" });
  const { firstTurnInput } = request;
  const materials = { plugins, state, opening: nodes, firstTurnInput };
  if (start === undefined) return materialize(parts, materials);
  const { sessionId: from, leaf } = start.graph;
  const share = () => parts.store.fork({ from, as: id, at: leaf });
  return materialize(parts, { ...materials, source, start: share });
}

function originOf(
  from: ResidentSession,
  id: SessionId,
  request: SessionCreateRequest,
): Omit<Origin, "cause"> {
  const source = sourceOf(from, request);
  if (source !== undefined) requireBindings(source);
  const { policy } = source ?? from;
  return { id, from, parent: parentOf(from, request), policy, source, start: source?.state };
}

/** The session whose history the new one begins with, if any. */
function sourceOf(from: ResidentSession, { start }: SessionCreateRequest): ResidentSession | undefined {
  if (start === undefined || start.kind === "empty") return undefined;
  return start.kind === "current_session" ? from : reachable(from, start.id);
}

function parentOf(from: ResidentSession, { relation }: SessionCreateRequest): ResidentSession | undefined {
  if (relation?.kind === "root") return undefined;
  return relation === undefined ? from : reachable(from, relation.parent);
}

interface NewId {
  readonly id: SessionId;
  /** Gives the id back; from then on the store says whether it is taken. Missing when the session is there already. */
  readonly release?: () => void;
}

/** The id that was asked for, if it is free; else one that derives from where the session that asks stands. */
async function newId(
  from: ResidentSession,
  request: SessionCreateRequest,
  cause: string | undefined,
): Promise<NewId> {
  const wanted = request.sessionId?.trim() ?? "";
  if (wanted === "") return derivedId(from, cause);
  const id = sessionId(wanted);
  const release = await reserve(from, id);
  if (release !== undefined) return { id, release };
  if (await isMadeBy(from, id, cause)) return { id };
  const message = `session ${from.id}: expected a new id for the session to create, found ${id}, which exists`;
  throw new MarlingError("duplicate_session", message, { details: { sessionId: id } });
}

async function derivedId(from: ResidentSession, cause: string | undefined): Promise<NewId> {
  const place = cause === undefined ? from.state.revision : sha256(cause).slice(0, 16);
  for (let number = 1; ; number += 1) {
    const id = sessionId(`${from.id}:child:${place}.${number}`);
    const release = await reserve(from, id);
    if (release !== undefined) return { id, release };
    if (await isMadeBy(from, id, cause)) return { id };
  }
}

/** Whether a session was made by the same effect, in an earlier run of it. */
async function isMadeBy(
  { parts }: ResidentSession,
  id: SessionId,
  cause: string | undefined,
): Promise<boolean> {
  if (cause === undefined) return false;
  const open = parts.sessions.find(id);
  if (open !== undefined) return open.frame.assignment.cause === cause;
  const stored = await parts.store.load(id, { isPartial: true });
  return stored !== undefined && storedAssignment(stored).cause === cause;
}

async function reserve({ parts }: ResidentSession, id: SessionId): Promise<(() => void) | undefined> {
  return (await parts.store.exists(id)) ? undefined : parts.sessions.reserve(id);
}

function assignmentOf(origin: Origin, request: SessionCreateRequest): FrameAssignment {
  const { from } = origin;
  const policy = decodePolicy({ ...origin.policy, ...request.policy }, "request.policy");
  if (request.policy?.model !== undefined) modelOf(from, policy.model);
  const { toolAccess, subagent, pluginOptions, budget, paths, usageSource = "child" } = request;
  const authority = narrowAuthority(authorityHeld(origin), {
    toolAccess,
    subagent,
    pluginOptions,
    budget,
    paths,
  });
  const made = origin.cause === undefined ? {} : { cause: origin.cause };
  return { policy, authority, usageSource, ...made };
}

/** What both the parent and the one that asks may do; a host may have given the parent more than those above it. */
function authorityHeld({ from, parent = from }: Origin): SessionAuthority {
  if (parent === from) return authorityLeft(from);
  const { subagent, ...held } = authorityLeft(parent);
  const { toolAccess, budget, paths } = authorityLeft(from);
  const met = narrowAuthority(held, { toolAccess, budget, paths });
  return subagent === undefined ? met : { ...met, subagent };
}

/** What a session may do, with no larger a budget than what is left of its own. */
function authorityLeft(session: ResidentSession): SessionAuthority {
  const { authority } = session.frame.assignment;
  const tokens = tokensLeft(session);
  return tokens === undefined ? authority : { ...authority, budget: { tokens } };
}

/** The graph that the new session begins with, and the nodes of it that are not shared with the source. */
function startGraph(
  { id, start }: Origin,
  assignment: FrameAssignment,
  { initialNodes = [] }: SessionCreateRequest,
): Appended {
  const base =
    start === undefined
      ? createGraph({ sessionId: id, assignment })
      : withAssignment(forkGraph(start.graph, { sessionId: id }), assignment);
  const own = start === undefined ? base.path.toArray() : [];
  if (initialNodes.length === 0) return { graph: base, nodes: own };
  const operation = { sessionId: id, operation: "seed", ordinal: 0 };
  const seeded = appendToGraph(base, bodiesOf(initialNodes, { operation, graph: base }), operation);
  return { graph: seeded.graph, nodes: [...own, ...seeded.nodes] };
}

function buildPlugins(
  { id, from, parent }: Origin,
  authority: SessionAuthority,
  { isFresh }: { readonly isFresh: boolean },
): PluginSession {
  if (isFresh) return from.parts.plugins.buildSession(id, { parent: parent?.id, authority });
  return from.plugins.forkForChildSession(id, parent?.id, authority);
}

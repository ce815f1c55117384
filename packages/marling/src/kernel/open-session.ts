// Opening a session: stored state becomes a resident one, in an order that plugins and protocols rely on.
//   O1  build (declared state is restored, then `ready`, then restore), protocol initialize, materialize, protocol
//       restore, execution state, the commit of a new session, `session_restored`, the policy that was asked for.
//   O2  a failure anywhere leaves nothing behind: no registered plugin session, no resident, no stored session.
//   O3  of runtimes that begin a session at once one does, and the others open what it began.

import { MarlingError } from "../base/errors.ts";
import type { SessionId } from "../model/ids.ts";
import type { JsonObject } from "../model/json.ts";
import type { MessageInput } from "../model/message.ts";
import { decodePolicy, type SessionPolicy } from "../model/policy.ts";
import { narrowAuthority, requestOf } from "../plugin/fork.ts";
import { PluginOptions } from "../plugin/plugin-options.ts";
import type { PluginSession } from "../plugin/plugin-session.ts";
import { decodePluginSnapshot } from "../plugin/snapshot.ts";
import { decodeProtocolOptions } from "../session/decode-frame.ts";
import {
  type AuthorityChange,
  type FrameAssignment,
  FULL_AUTHORITY,
  type ProtocolTurnOptions,
  type SessionAuthority,
} from "../session/frame.ts";
import { createGraph, currentFrame, withAssignment, withProtocolOptions } from "../session/graph.ts";
import type { SessionNode } from "../session/node.ts";
import type { Announcement, StoredSession } from "../store/contract.ts";
import type { ToolState } from "../tool/contract.ts";
import { allBindingsOf, type Bindings, BOUND, bindingsOf, needsBinding } from "./bindings.ts";
import { commitChange, isContended } from "./commit.ts";
import { configureSession } from "./configure.ts";
import { restoreExecutionState } from "./execution-state.ts";
import { tell } from "./lifecycle.ts";
import type { KernelParts } from "./parts.ts";
import { ResidentSession } from "./resident-session.ts";
import { restoreProtocol, savedMarks } from "./restore-session.ts";
import { hostServices } from "./services.ts";
import {
  decodeFork,
  decodeState,
  NOTHING_SAVED,
  type SavedMarks,
  type SessionState,
  type StoredFork,
  WORK_OF_ANOTHER,
} from "./session-state.ts";
import { SessionWork } from "./session-work.ts";
import { callSlot, callSlotNow } from "./slot-call.ts";
import { storeFault } from "./store-fault.ts";
import { traceIssues } from "./trace-issues.ts";

export interface OpenOptions {
  readonly policy: Partial<SessionPolicy>;
  readonly pluginOptions: JsonObject | undefined;
  readonly parent: string | undefined;
  /** The authority of the parent, which a new session's is cut to. */
  readonly parentAuthority?: SessionAuthority | undefined;
  /** What a new session is restricted to. */
  readonly limits?: AuthorityChange | undefined;
  /** The stored state was forked from another session and has not been opened since. */
  readonly isFork?: boolean;
  /** Its unfinished turns are checked too: nobody asked for it who could be told when they are taken up. */
  readonly isUnasked?: boolean;
}

export interface OpenedSession {
  readonly session: ResidentSession;
  /** Inputs that were admitted so far. */
  readonly inputs: number;
  /** Commits that listeners may not have been told of. */
  readonly unannounced: readonly Announcement[];
}

/** Opens a stored session, or begins a new one. */
export async function openSession(
  parts: KernelParts,
  id: SessionId,
  options: OpenOptions,
): Promise<OpenedSession> {
  const stored = await loadSession(parts, id);
  if (stored !== undefined) return openStored(parts, stored, options);
  try {
    return { session: await beginSession(parts, id, options), inputs: 0, unannounced: [] };
  } catch (thrown) {
    const begun = isContended(thrown) ? await loadSession(parts, id) : undefined;
    if (begun === undefined) throw thrown;
    return openStored(parts, begun, options);
  }
}

/** Opens what a session was forked into. Nodes that the source has in memory are shared with it; else they are read. */
export async function openFork(
  parts: KernelParts,
  forked: StoredFork,
  source: ResidentSession | undefined,
): Promise<OpenedSession> {
  const options = { policy: {}, pluginOptions: undefined, parent: undefined, isFork: true };
  const before = source && decodeFork(forked, source.state.graph, { isLive: !parts.store.isDurable });
  if (before === undefined) return openSession(parts, forked.sessionId, options);
  const bindings = await bound(parts, forked, options);
  const session = await reopenSession(parts, { stored: forked, before, bindings, source }, options);
  return { session, inputs: forked.inputs, unannounced: forked.unannounced };
}

async function loadSession({ store }: KernelParts, id: SessionId): Promise<StoredSession | undefined> {
  return store.load(id, { isPartial: true }).catch((thrown: unknown) => {
    throw storeFault(thrown, id);
  });
}

async function openStored(
  parts: KernelParts,
  stored: StoredSession,
  options: OpenOptions,
): Promise<OpenedSession> {
  const { inputs, unannounced } = stored;
  const bindings = await bound(parts, stored, options);
  const before = decodeState(stored, { isLive: !parts.store.isDurable });
  const session = await reopenSession(parts, { stored, before, bindings }, options);
  if (options.isFork !== true) session.work.show(stored.components);
  return { session, inputs, unannounced };
}

async function beginSession(
  parts: KernelParts,
  id: SessionId,
  options: OpenOptions,
): Promise<ResidentSession> {
  const assignment: FrameAssignment = {
    policy: decodePolicy({ model: "default", maxTurns: parts.turnBudget, ...options.policy }),
    authority: narrowAuthority(options.parentAuthority ?? FULL_AUTHORITY, {
      ...requestOf(options.limits ?? {}),
      pluginOptions: options.pluginOptions,
    }),
  };
  const state: SessionState = {
    graph: createGraph({ sessionId: id, assignment }),
    revision: 0,
    turnIndex: 0,
    ledger: [],
    lastPromptUsage: undefined,
    parentSessionId: options.parent,
    operations: 0,
    saved: NOTHING_SAVED,
  };
  const plugins = parts.plugins.buildSession(id, { parent: options.parent, authority: assignment.authority });
  return materialize(parts, { plugins, state, opening: state.graph.path.toArray() });
}

/** What a stored session needs; throws `needs_binding` when this runtime lacks some of it. */
async function bound(parts: KernelParts, stored: StoredFork, options: OpenOptions): Promise<Bindings> {
  const { policy, isUnasked = false } = options;
  const read = isUnasked ? allBindingsOf : bindingsOf;
  const bindings = await read(parts, stored, policy.model);
  if (bindings.missing.length > 0) throw needsBinding(stored.sessionId, bindings.missing);
  return bindings;
}

interface Reopened {
  readonly stored: StoredFork;
  readonly bindings: Bindings;
  /** Its state as it was stored. */
  readonly before: SessionState;
  readonly source?: ResidentSession | undefined;
}

async function reopenSession(
  parts: KernelParts,
  { stored, before, bindings, source }: Reopened,
  options: OpenOptions,
): Promise<ResidentSession> {
  const { isFork = false, parent } = options;
  if (parent !== undefined && parent !== before.parentSessionId) throw otherParent(before, parent);
  const { assignment } = currentFrame(before.graph);
  const { pluginOptions } = assignment.authority;
  const authority = {
    ...assignment.authority,
    pluginOptions: { ...pluginOptions, ...options.pluginOptions },
  };
  const snapshot = stored.components.plugins && decodePluginSnapshot(stored.components.plugins);
  const toolState = stored.components.tools as unknown as ToolState | undefined;
  const plugins = parts.plugins.buildSession(stored.sessionId, {
    parent: before.parentSessionId,
    authority,
    isFork,
    snapshot,
    toolState,
  });
  const state: SessionState = {
    ...before,
    graph: withAssignment(before.graph, { ...assignment, authority }),
    saved: isFork ? savedOfFork(stored) : savedMarks(plugins, { snapshot, toolState }),
  };
  const opening = isFork ? { opening: [] } : {};
  return materialize(parts, { plugins, state, source, bindings, policy: options.policy, ...opening });
}

export interface Materials {
  readonly plugins: PluginSession;
  readonly state: SessionState;
  readonly bindings?: Bindings;
  /** The nodes that a new session begins with. */
  readonly opening?: readonly SessionNode[];
  /** The session that it shares the beginning of its history with, where that is open. */
  readonly source?: ResidentSession | undefined;
  /** Puts the history that a new session shares with another into the store, just before its own first commit. */
  start?(): Promise<StoredFork>;
  /** What a stored session shall run with from now on. */
  readonly policy?: Partial<SessionPolicy>;
  /** What a new session has for its first turn. */
  readonly firstTurnInput?: MessageInput | undefined;
}

/** Makes a session resident from its plugins and state; a new one is committed when nothing can fail any more. */
export async function materialize(parts: KernelParts, materials: Materials): Promise<ResidentSession> {
  const { plugins, state, source, opening, bindings = BOUND, policy = {} } = materials;
  try {
    const session = new ResidentSession(parts, {
      plugins,
      state,
      source,
      services: hostServices,
      work: (made) => new SessionWork(made),
    });
    session.bindings = bindings;
    plugins.bindHost(() => session.services);
    plugins.runner.onThrown = (thrown) => session.running?.control.onThrown?.(thrown);
    await initializeProtocol(session);
    configureProtocol(session);
    await restoreProtocol(session);
    await restoreExecutionState(session);
    const shared = await materials.start?.();
    if (shared !== undefined)
      session.adopt({ ...session.state, revision: shared.revision, saved: savedOfFork(shared) });
    session.work.begin(materials.firstTurnInput);
    if (opening !== undefined) {
      await commitChange(session, { operation: "open", change: (graph) => ({ graph, nodes: opening }) });
    }
    const restored = () =>
      ({ kind: "session_restored", sessionId: session.id, state: session.readView() }) as const;
    await traceIssues(session, "lifecycle_hook_failed", await tell(session, restored));
    await configureSession(session, policy);
    return session;
  } catch (thrown) {
    parts.plugins.unregisterSession(plugins.sessionId);
    await plugins.dispose();
    throw thrown;
  }
}

/** A fork begins with nothing written of its own, and with nothing of what goes on beside the turns of the other. */
function savedOfFork({ components }: StoredFork): SavedMarks {
  return components.work === undefined ? NOTHING_SAVED : { ...NOTHING_SAVED, work: WORK_OF_ANOTHER };
}

async function initializeProtocol(session: ResidentSession): Promise<void> {
  const { protocolSession } = session.plugins;
  const site = { slot: "protocol.session", callback: "initializeSession" } as const;
  await callSlot(session, site, () => protocolSession.initializeSession?.({ sessionId: session.id }));
}

/** Lets the protocol apply its options at every opening; synchronous by contract. */
function configureProtocol(session: ResidentSession): void {
  const { protocolSession } = session.plugins;
  const set = (raw: ProtocolTurnOptions, scope: "current" | "all"): void => {
    const options = decodeProtocolOptions(raw);
    session.adopt({ ...session.state, graph: withProtocolOptions(session.state.graph, options, scope) });
  };
  const context = {
    get protocolTurnOptions() {
      return session.frame.protocolOptions;
    },
    setProtocolTurnOptions: (options: ProtocolTurnOptions) => set(options, "current"),
    setProtocolTurnOptionsAllFrames: (options: ProtocolTurnOptions) => set(options, "all"),
  };
  const materialization = {
    pluginOptions: PluginOptions.of(session.frame.assignment.authority.pluginOptions),
    isRootSession: session.state.parentSessionId === undefined,
  };
  const site = { slot: "protocol.session", callback: "configureRuntimeOnMaterialize" } as const;
  callSlotNow(session, site, () => protocolSession.configureRuntimeOnMaterialize?.(context, materialization));
}

export function unknownSession(id: SessionId): MarlingError {
  return new MarlingError("unknown_session", `no session ${id}`, { details: { sessionId: id } });
}

function otherParent({ graph, parentSessionId }: SessionState, parent: string): MarlingError {
  const message = `option parent: expected ${parentSessionId ?? "none"}, the parent that session ${graph.sessionId} has, found ${parent}`;
  return new MarlingError("invalid_options", message, { details: { option: "parent" } });
}

// Opening a session: stored state becomes a resident one, in an order that plugins and protocols rely on.
//   O1  build (declared state is restored, then `ready`, then restore), protocol initialize, materialize, protocol
//       restore, execution state, `session_restored`.
//   O2  a failure anywhere leaves nothing behind: no registered plugin session, no resident.

import { MarlingError } from "../base/errors.ts";
import type { SessionId } from "../model/ids.ts";
import type { JsonObject } from "../model/json.ts";
import { type SessionPolicy, decodePolicy } from "../model/policy.ts";
import { PluginOptions } from "../plugin/plugin-options.ts";
import type { PluginSession } from "../plugin/plugin-session.ts";
import { decodePluginSnapshot } from "../plugin/snapshot.ts";
import { type FrameAssignment, FULL_AUTHORITY, type ProtocolTurnOptions } from "../session/frame.ts";
import { createGraph, withAssignment, withProtocolOptions } from "../session/graph.ts";
import type { SessionNode } from "../session/node.ts";
import type { StoredSession } from "../store/contract.ts";
import type { ToolState } from "../tool/contract.ts";
import { commitChange } from "./commit.ts";
import { restoreExecutionState } from "./execution-state.ts";
import type { KernelParts } from "./parts.ts";
import { ResidentSession } from "./resident-session.ts";
import { hostServices } from "./services.ts";
import { NOTHING_SAVED, type SessionState, decodeState } from "./session-state.ts";

export interface OpenOptions {
  readonly policy: Partial<SessionPolicy>;
  readonly pluginOptions: JsonObject | undefined;
  readonly parent: string | undefined;
  /** The stored state was forked from another session and has not been opened since. */
  readonly isFork?: boolean;
}

/** Opens a stored session, or begins a new one. */
export async function openSession(parts: KernelParts, id: SessionId, options: OpenOptions): Promise<{ readonly session: ResidentSession; readonly inputs: number }> {
  const stored = await parts.store.load(id);
  if (stored === undefined) return { session: await beginSession(parts, id, options), inputs: 0 };
  return { session: await reopenSession(parts, stored, options), inputs: stored.inputs };
}

async function beginSession(parts: KernelParts, id: SessionId, options: OpenOptions): Promise<ResidentSession> {
  const assignment: FrameAssignment = {
    policy: decodePolicy({ model: "default", maxTurns: parts.turnBudget, ...options.policy }),
    authority: { ...FULL_AUTHORITY, pluginOptions: options.pluginOptions ?? {} },
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

async function reopenSession(parts: KernelParts, stored: StoredSession, options: OpenOptions): Promise<ResidentSession> {
  const before = decodeState(stored);
  const frame = before.graph.frames.at(-1);
  if (frame === undefined) throw new MarlingError("missing_frame", `session ${stored.sessionId}: expected a frame, found none`);
  const { assignment } = frame;
  const authority = { ...assignment.authority, pluginOptions: { ...assignment.authority.pluginOptions, ...options.pluginOptions } };
  const policy = decodePolicy({ ...assignment.policy, ...options.policy });
  const state = { ...before, graph: withAssignment(before.graph, { ...assignment, policy, authority }) };
  const { components } = stored;
  const plugins = parts.plugins.buildSession(stored.sessionId, {
    parent: before.parentSessionId,
    authority,
    ...(options.isFork === true ? { isFork: true } : {}),
    ...(components.plugins === undefined ? {} : { snapshot: decodePluginSnapshot(components.plugins) }),
    ...(components.tools === undefined ? {} : { toolState: components.tools as unknown as ToolState }),
  });
  return materialize(parts, { plugins, state, ...(options.isFork === true ? { opening: [] } : {}) });
}

/** Makes a session resident from its plugins and state; a new one is committed with the nodes it begins with. */
export async function materialize(
  parts: KernelParts,
  { plugins, state, opening }: { readonly plugins: PluginSession; readonly state: SessionState; readonly opening?: readonly SessionNode[] },
): Promise<ResidentSession> {
  try {
    const session = new ResidentSession(parts, { plugins, state, services: hostServices });
    plugins.bindHost(session.services);
    await plugins.protocolSession.initializeSession?.({ sessionId: session.id });
    configureProtocol(session);
    if (opening !== undefined) await commitChange(session, { operation: `${session.id}:open`, change: (graph) => ({ graph, nodes: opening }) });
    await restoreProtocol(session);
    await restoreExecutionState(session);
    if (plugins.hasRuntimeEventHooks) await plugins.emitRuntimeEvent({ kind: "session_restored", sessionId: session.id, state: session.readView() }, parts.probe);
    return session;
  } catch (thrown) {
    parts.plugins.unregisterSession(plugins.sessionId);
    await plugins.dispose();
    throw thrown;
  }
}

export async function restoreProtocol(session: ResidentSession): Promise<void> {
  await session.plugins.protocolSession.restoreSession?.({ sessionId: session.id }, session.readView().toJSON());
}

/** Lets the protocol apply its options at every opening; synchronous by contract. */
function configureProtocol(session: ResidentSession): void {
  const { protocolSession } = session.plugins;
  if (protocolSession.configureRuntimeOnMaterialize === undefined) return;
  const set = (options: ProtocolTurnOptions, scope: "current" | "all"): void => {
    session.adopt({ ...session.state, graph: withProtocolOptions(session.state.graph, options, scope) });
  };
  const returned: unknown = protocolSession.configureRuntimeOnMaterialize(
    {
      get protocolTurnOptions() {
        return session.frame.protocolOptions;
      },
      setProtocolTurnOptions: (options) => set(options, "current"),
      setProtocolTurnOptionsAllFrames: (options) => set(options, "all"),
    },
    {
      pluginOptions: PluginOptions.of(session.frame.assignment.authority.pluginOptions),
      isRootSession: session.state.parentSessionId === undefined,
    },
  );
  if (returned instanceof Promise) {
    throw new MarlingError("hook_must_be_synchronous", `session ${session.id}: expected configureRuntimeOnMaterialize to be synchronous, found a promise`);
  }
}

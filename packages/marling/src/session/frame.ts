// Frames: durable boundaries of the context inside a session. The model sees the nodes of the current frame only.

import type { FrameId, NodeId } from "../model/ids.ts";
import type { Json, JsonObject } from "../model/json.ts";
import type { SessionPolicy } from "../model/policy.ts";

/** What a session may do, as a value that is stored with it. A child's is narrower than its parent's; more is given by the host alone. */
export interface SessionAuthority {
  readonly toolAccess: ToolAccess;
  readonly subagent?: SubagentContext;
  readonly pluginOptions: JsonObject;
  /** What the session and those below it may use; without it, there is no limit. */
  readonly budget?: SessionBudget;
  /** Files and folders that tools may reach for it, relative to their root; without it all, empty none. */
  readonly paths?: readonly string[];
}

/** What a host restricts of what a session may do; what is left out is not restricted. */
export interface AuthorityLimits {
  /** Exactly these tools are listed and can be called; empty none. */
  readonly tools?: readonly string[];
  /** Tools that are not listed and cannot be called, not even by a grant. */
  readonly hiddenTools?: readonly string[];
  /** Files and folders that tools may reach, relative to their root; empty none. */
  readonly paths?: readonly string[];
  /** What the session and those below it may use, from its beginning. */
  readonly budget?: SessionBudget;
}

/** Other limits: members that are given stand in the place of what holds, `undefined` lifts what holds. */
export type AuthorityChange = { readonly [M in keyof AuthorityLimits]?: AuthorityLimits[M] | undefined };

export interface SessionBudget {
  /** Tokens in and out, of all model calls. */
  readonly tokens: number;
}

export interface ToolAccess {
  /** When not empty, exactly these tools are listed, in this order. */
  readonly tools: readonly string[];
  readonly hiddenTools: readonly string[];
}

export interface SubagentContext {
  readonly parentSessionId: string;
  readonly capability: string;
  readonly depth: number;
  readonly maxDepth: number;
}

/** What a frame runs with; inherited by the next frame. */
export interface FrameAssignment {
  readonly policy: SessionPolicy;
  readonly authority: SessionAuthority;
  readonly usageSource?: string;
  /** What the session was made by, when that was an effect of another one. */
  readonly cause?: string;
}

/** Options of the protocol, opaque to the kernel. */
export interface ProtocolTurnOptions {
  readonly schemaVersion: number;
  readonly payload: Json;
}

export interface Frame {
  readonly id: FrameId;
  readonly previousFrameId?: FrameId;
  readonly status: "active" | "superseded";
  /** `initial`, `switch`, `compaction`, or a label of the plugin that opened it. */
  readonly reason: string;
  readonly openedBy?: NodeId;
  readonly assignment: FrameAssignment;
  readonly protocolOptions: ProtocolTurnOptions;
  /** A content address of the code executor's state, when it has any. */
  readonly executionState?: string;
}

export const NO_PROTOCOL_OPTIONS: ProtocolTurnOptions = Object.freeze({
  schemaVersion: 1,
  payload: Object.freeze({}),
});
export const FULL_AUTHORITY: SessionAuthority = Object.freeze({
  toolAccess: Object.freeze({ tools: Object.freeze([]), hiddenTools: Object.freeze([]) }),
  pluginOptions: Object.freeze({}),
});

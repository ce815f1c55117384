// Nodes: the facts of a session's history. Each has one parent; none ever changes.

import type { FrameId, NodeId, PluginId, SessionId } from "../model/ids.ts";
import type { Json } from "../model/json.ts";
import type { Message, MessageInput } from "../model/message.ts";
import type { AuthorityLimits } from "./frame.ts";

export type NodeBody =
  | { readonly kind: "message"; readonly message: Message }
  | { readonly kind: "protocol_event"; readonly pluginId: PluginId; readonly payload: Json }
  | { readonly kind: "plugin"; readonly type: string; readonly body: Json }
  | { readonly kind: "frame_open"; readonly frameId: FrameId; readonly reason: string }
  | ({ readonly kind: "authority_change" } & AuthorityRecord)
  | ({ readonly kind: "plugin_retired" } & RetirementRecord);

/** That a host changed what a session may do. Nothing but the kernel writes it, with the change. */
export interface AuthorityRecord {
  readonly reason: string;
  /** Who did it, as the host says. */
  readonly actor?: string;
  /** When, in milliseconds since 1970. */
  readonly at: number;
  readonly before: AuthorityLimits;
  readonly after: AuthorityLimits;
}

/** That a session runs without a plugin from here on. Nothing but the kernel writes it. */
export interface RetirementRecord {
  readonly pluginId: PluginId;
  /** As the runtime that retired it says. */
  readonly reason: string;
  /** When, in milliseconds since 1970. */
  readonly at: number;
}

export type SessionNode = NodeBody & {
  readonly id: NodeId;
  readonly parentId?: NodeId;
  /** The depth in the graph: the first node has 0. */
  readonly generation: number;
  readonly frameId: FrameId;
  readonly causedBy?: Json;
};

/** A node before it has its place in the graph. Frames are opened by `openFrame` alone. */
export type NodeDraft = Exclude<NodeBody, { readonly kind: "frame_open" }> & { readonly causedBy?: Json };

/** A node as hosts and plugins write it. */
export type AppendNode = (
  | { readonly kind: "message"; readonly message: MessageInput }
  | { readonly kind: "plugin"; readonly type: string; readonly body: unknown }
  | { readonly kind: "protocol_event"; readonly payload: unknown }
) & { readonly causedBy?: unknown };

/** Where the ids of appended nodes come from: the n-th node of an operation has the same id in every run. */
export interface AppendOperation {
  readonly sessionId: SessionId;
  /** Unique in the session: a turn id, or the id of an append, a command or a compaction. */
  readonly operation: string;
  /** How many nodes the operation has appended before. */
  readonly ordinal: number;
  /** What caused the nodes that do not say so themselves. */
  readonly causedBy?: Json;
}

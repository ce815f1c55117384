// Branded ids, minted here and nowhere else, so that a turn id in the place of a session id does not compile.
// Ids are derived from what they belong to, never random, wherever replay can reach them.

import { MarlingError } from "../base/errors.ts";

declare const brand: unique symbol;
type Id<Name extends string> = string & { readonly [brand]: Name };

export type SessionId = Id<"session">;
export type TurnId = Id<"turn">;
export type NodeId = Id<"node">;
export type FrameId = Id<"frame">;
export type MessageId = Id<"message">;
export type CallId = Id<"call">;
export type InputId = Id<"input">;
export type EffectKey = Id<"effect">;
export type WaitKey = Id<"wait">;
export type PluginId = Id<"plugin">;
export type ToolId = Id<"tool">;

const LONGEST_ID = 512;
/** Ids that are put together from others have room for them. */
const LONGEST_DERIVED_ID = 4096;

/** What nearly every id consists of: ASCII that can be printed, and no blank at the beginning. */
const PLAIN = /^[!-~][ -~]*$/;

function decodeId<T extends string>(kind: string, raw: unknown, longest = LONGEST_ID): T {
  if (typeof raw !== "string") {
    throw refuse(kind, `expected a string, found ${raw === null ? "null" : typeof raw}`);
  }
  if (raw.length <= longest && raw !== "__proto__" && PLAIN.test(raw)) return raw as T;
  if (raw.trim() === "") throw refuse(kind, "expected a non-blank string, found a blank one");
  if (raw.length > longest) throw refuse(kind, `expected at most ${longest} characters, found ${raw.length}`);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused here
  if (/[\u0000-\u001f\u007f]/.test(raw)) throw refuse(kind, "expected no control characters, found one");
  if (/\p{Surrogate}/u.test(raw))
    throw refuse(kind, "expected well-formed text, found half a surrogate pair");
  if (raw === "__proto__") throw refuse(kind, "expected another name than __proto__");
  return raw as T;
}

function refuse(kind: string, reason: string): MarlingError {
  return new MarlingError("invalid_id", `${kind} id: ${reason}`, { details: { kind } });
}

export const sessionId = (raw: unknown): SessionId => decodeId("session", raw);
/** The name of a tenant, by the rules of ids. */
export const tenantName = (raw: unknown): string => decodeId<string>("tenant", raw);
export const turnId = (raw: unknown): TurnId => decodeId("turn", raw);
export const nodeId = (raw: unknown): NodeId => decodeId("node", raw, LONGEST_DERIVED_ID);
export const frameId = (raw: unknown): FrameId => decodeId("frame", raw, LONGEST_DERIVED_ID);
export const messageId = (raw: unknown): MessageId => decodeId("message", raw, LONGEST_DERIVED_ID);
export const callId = (raw: unknown): CallId => decodeId("call", raw);
export const inputId = (raw: unknown): InputId => decodeId("input", raw);
export const effectKey = (raw: unknown): EffectKey => decodeId("effect", raw, LONGEST_DERIVED_ID);
export const waitKey = (raw: unknown): WaitKey => decodeId("wait", raw, LONGEST_DERIVED_ID);
export const pluginId = (raw: unknown): PluginId => decodeId("plugin", raw);
export const toolId = (raw: unknown): ToolId => decodeId("tool", raw);

/** The n-th node that an operation of a session appends. The session is part of it: a fork has ids of its own. */
export const appendedNodeId = (session: SessionId, operation: string, ordinal: number): NodeId =>
  `n_${derived(session, operation, ordinal)}` as NodeId;

/** The message that an operation of a session appends as its n-th node, when whoever wrote it gave no id. */
export const appendedMessageId = (session: SessionId, operation: string, ordinal: number): MessageId =>
  `m_${derived(session, operation, ordinal)}` as MessageId;

/** Different parts never give the same text: the session has no slash left in it, the ordinal is behind the last one. */
function derived(session: SessionId, operation: string, ordinal: number): string {
  return `${session.replaceAll("%", "%25").replaceAll("/", "%2F")}/${operation}/${ordinal}`;
}

/** Who has what goes on beside the turns of a session is known by a lease of its own, under an id that no session can have. */
export const workLeaseId = (session: SessionId): SessionId => `${session}\u001fwork` as SessionId;

/** The frame that every session begins with. */
export const initialFrameId = (session: SessionId): FrameId => `${session}:frame:initial` as FrameId;

// What hooks and hosts read of a session. Immutable; handing one out costs nothing, whatever the length of the history.

import type { Message } from "../model/message.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { TokenUsage } from "../model/usage.ts";
import type { Frame, ProtocolTurnOptions } from "./frame.ts";
import type { SessionNode } from "./node.ts";

export interface SessionReadView {
  readonly sessionId: string;
  readonly policy: SessionPolicy;
  readonly turnIndex: number;
  readonly revision: number;
  readonly usage: TokenUsage;
  /** What the latest model call was sent, in tokens; absent before the first. */
  readonly lastPromptUsage: TokenUsage | undefined;
  readonly protocolOptions: ProtocolTurnOptions;
  readonly frames: readonly Frame[];
  readonly currentFrameId: string;
  /** The messages of the current frame with those in flight; made once, when first read. */
  readonly messages: readonly Message[];
  readonly messageCount: number;
  readonly lastMessage: Message | undefined;
  /** The last `count` messages; costs `count`. */
  tail(count: number): readonly Message[];
  /** The committed path through all frames, oldest first. */
  history(): readonly SessionNode[];
  toJSON(): SessionView;
}

/** The settled state of a session as plain JSON. */
export interface SessionView {
  readonly sessionId: string;
  readonly revision: number;
  readonly turnIndex: number;
  readonly policy: SessionPolicy;
  readonly usage: TokenUsage;
  readonly frames: readonly Frame[];
  readonly currentFrameId: string;
  readonly protocolOptions: ProtocolTurnOptions;
  readonly messages: readonly Message[];
}

/** A node of the history as plain JSON. */
export type HistoryNode = SessionNode;

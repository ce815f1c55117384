// The read view that hooks and hosts get of a session.
//   V1  making one touches no history; what it shows is put together when somebody reads it, and once.
//   V2  it never changes: later versions of the graph are other views.

import type { SharedList } from "../base/shared-list.ts";
import type { Message } from "../model/message.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { TokenUsage } from "../model/usage.ts";
import type { Frame, ProtocolTurnOptions } from "./frame.ts";
import { currentFrame, type SessionGraph } from "./graph.ts";
import type { SessionNode } from "./node.ts";
import type { SessionReadView, SessionView } from "./view.ts";

type Messages = readonly Message[] | SharedList<Message>;

export interface ReadViewParts {
  readonly graph: SessionGraph;
  readonly policy: SessionPolicy;
  readonly turnIndex: number;
  readonly revision: number;
  readonly usage: TokenUsage;
  readonly lastPromptUsage?: TokenUsage | undefined;
  /** Shown in place of the graph's messages, when a context transform made others of them. */
  readonly messages?: Messages | undefined;
  /** What a turn has added so far, shown behind the rest. It must not change later: hand over a version, not a buffer. */
  readonly inFlight?: Messages | undefined;
}

export function createReadView(parts: ReadViewParts): SessionReadView {
  return Object.freeze(new ReadView(parts));
}

const NOTHING: readonly Message[] = Object.freeze([]);

class ReadView implements SessionReadView {
  readonly sessionId: string;
  readonly policy: SessionPolicy;
  readonly turnIndex: number;
  readonly revision: number;
  readonly usage: TokenUsage;
  readonly lastPromptUsage: TokenUsage | undefined;
  readonly protocolOptions: ProtocolTurnOptions;
  readonly frames: readonly Frame[];
  readonly currentFrameId: string;
  readonly #graph: SessionGraph;
  readonly #settled: Messages;
  readonly #inFlight: Messages;
  #messages: readonly Message[] | undefined;

  constructor(parts: ReadViewParts) {
    const { graph } = parts;
    this.sessionId = graph.sessionId;
    this.policy = parts.policy;
    this.turnIndex = parts.turnIndex;
    this.revision = parts.revision;
    this.usage = parts.usage;
    this.lastPromptUsage = parts.lastPromptUsage;
    this.protocolOptions = currentFrame(graph).protocolOptions;
    this.frames = graph.frames;
    this.currentFrameId = graph.currentFrameId;
    this.#graph = graph;
    this.#settled = parts.messages ?? graph.messages;
    this.#inFlight = parts.inFlight ?? NOTHING;
  }

  get messages(): readonly Message[] {
    this.#messages ??= joined(arrayOf(this.#settled), arrayOf(this.#inFlight));
    return this.#messages;
  }

  get messageCount(): number {
    return this.#settled.length + this.#inFlight.length;
  }

  get lastMessage(): Message | undefined {
    return this.#inFlight.at(-1) ?? this.#settled.at(-1);
  }

  tail(count: number): readonly Message[] {
    const added = tailOf(this.#inFlight, count);
    if (added.length >= count) return added;
    return joined(tailOf(this.#settled, count - added.length), added);
  }

  history(): readonly SessionNode[] {
    return this.#graph.path.toArray();
  }

  toJSON(): SessionView {
    const {
      sessionId,
      revision,
      turnIndex,
      policy,
      usage,
      frames,
      currentFrameId,
      protocolOptions,
      messages,
    } = this;
    return {
      sessionId,
      revision,
      turnIndex,
      policy,
      usage,
      frames,
      currentFrameId,
      protocolOptions,
      messages,
    };
  }
}

function joined(settled: readonly Message[], added: readonly Message[]): readonly Message[] {
  if (added.length === 0) return settled;
  return Object.freeze([...settled, ...added]);
}

function arrayOf(messages: Messages): readonly Message[] {
  return "toArray" in messages ? messages.toArray() : messages;
}

function tailOf(messages: Messages, count: number): readonly Message[] {
  if ("tail" in messages) return messages.tail(count);
  return count > 0 ? messages.slice(-count) : [];
}

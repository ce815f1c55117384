// The seam to language models: one call in, one outcome out, deltas sideways. Types and obligations only.

import type { AnswerLimits } from "../model/answer-limits.ts";
import type { JsonObject } from "../model/json.ts";
import type { MessagePart, Role } from "../model/message.ts";
import type { ModelOutcome } from "../model/model-response.ts";
import type { TokenUsage } from "../model/usage.ts";

/** A message as a model is sent it. */
export interface ModelMessage {
  readonly role: Exclude<Role, "event">;
  readonly parts: readonly MessagePart[];
}

/** A tool as a model is told of it. */
export interface ToolSpec {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
}

export type ToolChoice = "auto" | "none" | "required";

export interface ModelRequest {
  /** The name under which the runtime knows the model. */
  readonly model: string;
  /** The system prompt; it stands nowhere else in the request. */
  readonly system: string;
  readonly messages: readonly ModelMessage[];
  readonly tools: readonly ToolSpec[];
  readonly toolChoice: ToolChoice;
  readonly parameters: JsonObject;
  readonly providerOptions: JsonObject;
  /** Sent, never stored. */
  readonly headers: Readonly<Record<string, string>>;
  /** A schema that the answer must follow, where the model can do that. */
  readonly outputSchema?: JsonObject;
  readonly scope: { readonly sessionId: string; readonly frameId: string; readonly requestId: string };
}

/** What arrives while a call runs. Deltas are suffixes: a piece is never sent twice. */
export type ModelStreamPart =
  | { readonly kind: "text_delta"; readonly text: string }
  | { readonly kind: "reasoning_delta"; readonly text: string }
  | { readonly kind: "usage"; readonly usage: TokenUsage }
  /** The port gave up on its attempt and begins again: what it sent so far is void. */
  | { readonly kind: "attempt_reset"; readonly reason: string; readonly retryAfterMs: number };

/** Receives parts in order. Synchronous, never throws. */
export type ModelSink = (part: ModelStreamPart) => void;

/** What a call has beside its request. */
export interface ModelCallOptions {
  readonly sink: ModelSink;
  readonly signal: AbortSignal;
  /**
   * What the answer may have; the defaults of the runtime where it is missing. A port reads no further when `answerBytes` or
   * `answerCalls` is reached, and fails with `answer_limit`. The runtime checks all of them too, and keeps `answerMs`.
   */
  readonly limits?: AnswerLimits;
  /** Reads the bytes of attachments that are in the store; nothing when they are gone. */
  readonly blobs?: { get(ref: string): Promise<Uint8Array | undefined> };
}

/**
 * A language model.
 * Contract: `call` makes one request. It never throws: a failure is an outcome, an abort is a failure of kind
 * `cancelled`. Parts go to the sink in the order they arrive, before `call` resolves.
 */
export interface ModelPort {
  readonly id: string;
  readonly contextWindow?: number;
  readonly maxOutputTokens?: number;
  call(request: ModelRequest, options: ModelCallOptions): Promise<ModelOutcome>;
}

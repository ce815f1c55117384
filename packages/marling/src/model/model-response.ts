// What a model call came to: a response in parts, or a failure. Plain data, recorded as it is.

import type { Json, JsonObject } from "./json.ts";
import type { TokenUsage } from "./usage.ts";

export type ResponsePart =
  | {
      readonly kind: "text";
      readonly text: string;
      readonly phase?: "commentary" | "final_answer";
      readonly replay?: JsonObject;
    }
  | { readonly kind: "reasoning"; readonly text: string; readonly replay?: JsonObject }
  /** `args` is the text as the model wrote it; whether it is JSON is found out by whoever runs the call. */
  | {
      readonly kind: "tool_call";
      readonly callId: string;
      readonly name: string;
      readonly args: string;
      readonly replay?: JsonObject;
    };

export type FinishReason =
  | "stop"
  | "tool_use"
  | "output_limit"
  | "context_overflow"
  | "content_filter"
  | "provider_error"
  | "cancelled"
  | "unknown";

export interface ModelResponse {
  readonly parts: readonly ResponsePart[];
  readonly usage: TokenUsage;
  readonly finish: FinishReason;
  /** What the provider itself reported: served model, response id. Never filled from the request. */
  readonly evidence?: JsonObject;
}

export type ModelFailureKind =
  | "rate_limit"
  | "overloaded"
  | "auth"
  | "context_overflow"
  | "content_filter"
  | "invalid_request"
  | "network"
  | "timeout"
  | "truncated_stream"
  /** The answer reached a limit of the runtime, and was left. */
  | "answer_limit"
  | "cancelled"
  | "unknown";

export interface ModelFailure {
  readonly kind: ModelFailureKind;
  readonly message: string;
  readonly retryable: boolean;
  readonly retryAfterMs?: number;
  readonly code?: string;
  readonly usage?: TokenUsage;
  readonly raw?: Json;
}

export type ModelOutcome =
  | { readonly kind: "response"; readonly response: ModelResponse }
  | { readonly kind: "failure"; readonly failure: ModelFailure };

/** The words of a response: its text parts; commentary is left out when there is a final answer. */
export function responseText(response: ModelResponse): string {
  return visibleTexts(response).join("\n\n");
}

export function visibleTexts(response: ModelResponse): readonly string[] {
  const texts = response.parts.filter((part) => part.kind === "text");
  const hasFinal = texts.some((part) => part.phase === "final_answer");
  return texts
    .filter((part) => !hasFinal || part.phase !== "commentary")
    .map((part) => part.text)
    .filter((text) => text !== "");
}

// How an answer says that it is over.
//   LA3  an end without a reason is no end: the stream was cut off, and nothing that it said is acted upon.

import type { FinishReason, ModelFailure } from "../model/model-response.ts";

/** What the end of a stream comes to: a reason, or that the answer was broken off. */
export type Finish =
  | { readonly kind: "finished"; readonly reason: FinishReason; readonly raw?: string }
  | { readonly kind: "cut_off"; readonly raw?: string }
  | { readonly kind: "failed"; readonly raw?: string };

/** Words of providers for an answer that they did not finish. */
const CUT_OFF: ReadonlySet<string> = new Set([
  "abort",
  "aborted",
  "interrupted",
  "network_error",
  "insufficient_system_resource",
]);

/**
 * The end of a stream by the reason that the adapter knows it as and by the provider's own word for it. Calls that were
 * made are the reason, whatever a provider says of a stop.
 */
export function finishOf(
  reason: FinishReason | undefined,
  raw: string | undefined,
  hasCalls: boolean,
): Finish {
  const given = raw === undefined ? {} : { raw };
  if (raw !== undefined && CUT_OFF.has(raw)) return { kind: "cut_off", ...given };
  if (raw === "model_context_window_exceeded") return { kind: "finished", reason: "context_overflow", raw };
  if (reason === undefined && raw === undefined) return { kind: "cut_off" };
  if (reason === "stop" && hasCalls) return { kind: "finished", reason: "tool_use", ...given };
  return { kind: "finished", reason: reason ?? "unknown", ...given };
}

/** Why what came is not a whole answer; nothing when it is one. */
export function brokenOff(finish: Finish | undefined): ModelFailure | undefined {
  if (finish === undefined || finish.kind === "cut_off") return unfinished(finish?.raw);
  if (finish.kind === "finished") return undefined;
  const message = `the provider broke off the answer${finish.raw === undefined ? "" : `: ${finish.raw}`}`;
  return { kind: "unknown", message, retryable: true };
}

/** Whether the model is done with what it began: an answer that was limited may end in the middle of a call. */
export function isWhole(reason: FinishReason): boolean {
  return reason === "stop" || reason === "tool_use" || reason === "unknown";
}

export function unfinished(reason?: string): ModelFailure {
  const message = `the stream ended before the answer did${reason === undefined ? "" : `: ${reason}`}`;
  return { kind: "truncated_stream", message, retryable: true };
}

/** A count of tokens; what a provider does not report is 0. */
export function tokenCount(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? Math.max(0, Math.round(value)) : 0;
}

// How a stream says that it is over, and what it cost.
//   LA3  an end without a reason is no end: the stream was cut off, and nothing that it said is acted upon.

import type { FinishReason } from "../../model/model-response.ts";
import type { TokenUsage } from "../../model/usage.ts";
import { membersOf } from "./members-of.ts";

/** What a `finish` part comes to: a reason, or that the answer was broken off. */
export type Finish =
  | { readonly kind: "finished"; readonly reason: FinishReason; readonly raw?: string }
  | { readonly kind: "cut_off"; readonly raw?: string }
  | { readonly kind: "failed"; readonly raw?: string };

const REASONS: { readonly [unified: string]: FinishReason } = {
  stop: "stop",
  "tool-calls": "tool_use",
  length: "output_limit",
  "content-filter": "content_filter",
};

/** Words of providers for an answer that they did not finish. */
const CUT_OFF: ReadonlySet<string> = new Set([
  "abort",
  "aborted",
  "interrupted",
  "network_error",
  "insufficient_system_resource",
]);

/** Reads the reason of a `finish` part. Calls that were made are the reason, whatever a provider says of a stop. */
export function readFinish(part: unknown, hasCalls: boolean): Finish {
  const { unified, raw } = reasonOf(part);
  const given = raw === undefined ? {} : { raw };
  if (unified === "error") return { kind: "failed", ...given };
  if (unified === "interrupted" || (raw !== undefined && CUT_OFF.has(raw)))
    return { kind: "cut_off", ...given };
  if (raw === "model_context_window_exceeded") return { kind: "finished", reason: "context_overflow", raw };
  const reason = unified === undefined ? undefined : REASONS[unified];
  if (reason === undefined && raw === undefined) return { kind: "cut_off" };
  if (reason === "stop" && hasCalls) return { kind: "finished", reason: "tool_use", ...given };
  return { kind: "finished", reason: reason ?? "unknown", ...given };
}

/** Usage in our five buckets; what a provider does not report is 0. */
export function readUsage(raw: unknown): TokenUsage {
  const { inputTokens, outputTokens } = membersOf(raw);
  const input = membersOf(inputTokens);
  const output = membersOf(outputTokens);
  const cacheRead = count(input.cacheRead);
  const cacheWrite = count(input.cacheWrite);
  return {
    input:
      typeof input.noCache === "number"
        ? count(input.noCache)
        : count(count(input.total) - cacheRead - cacheWrite),
    output: count(output.total),
    cacheRead,
    cacheWrite,
    reasoning: count(output.reasoning),
  };
}

/** Specifications before v3 had the reason as a text; some models still do. */
function reasonOf(part: unknown): { readonly unified?: string; readonly raw?: string } {
  const { finishReason } = membersOf(part);
  if (typeof finishReason === "string") return { unified: finishReason };
  const { unified, raw } = membersOf(finishReason);
  return {
    ...(typeof unified === "string" ? { unified } : {}),
    ...(typeof raw === "string" ? { raw } : {}),
  };
}

function count(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? Math.max(0, Math.round(value)) : 0;
}

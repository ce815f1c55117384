// How a stream of the AI SDK says that it is over, and what it cost.

import type { FinishReason } from "../../model/model-response.ts";
import type { TokenUsage } from "../../model/usage.ts";
import { type Finish, finishOf, tokenCount } from "../finish.ts";
import { membersOf } from "../members-of.ts";

const REASONS: { readonly [unified: string]: FinishReason } = {
  stop: "stop",
  "tool-calls": "tool_use",
  length: "output_limit",
  "content-filter": "content_filter",
};

/** Reads the reason of a `finish` part. */
export function readFinish(part: unknown, hasCalls: boolean): Finish {
  const { unified, raw } = reasonOf(part);
  const given = raw === undefined ? {} : { raw };
  if (unified === "error") return { kind: "failed", ...given };
  if (unified === "interrupted") return { kind: "cut_off", ...given };
  return finishOf(unified === undefined ? undefined : REASONS[unified], raw, hasCalls);
}

/** Usage in our five buckets; what a provider does not report is 0. */
export function readUsage(raw: unknown): TokenUsage {
  const { inputTokens, outputTokens } = membersOf(raw);
  const input = membersOf(inputTokens);
  const output = membersOf(outputTokens);
  const cacheRead = tokenCount(input.cacheRead);
  const cacheWrite = tokenCount(input.cacheWrite);
  return {
    input:
      typeof input.noCache === "number"
        ? tokenCount(input.noCache)
        : tokenCount(tokenCount(input.total) - cacheRead - cacheWrite),
    output: tokenCount(output.total),
    cacheRead,
    cacheWrite,
    reasoning: tokenCount(output.reasoning),
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

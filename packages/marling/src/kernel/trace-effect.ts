// What the trace is told of effects. Model calls and tool attempts have records of their own; the others are told when
// they take time, or when an earlier run had their outcome.

import type { EffectKind } from "../effects/contract.ts";
import { type SessionTrace, type TraceSpan, traceFailure } from "./session-trace.ts";
import { TurnParked } from "./turn-parked.ts";

const OWN_RECORD: ReadonlySet<EffectKind> = new Set(["model_call", "tool_attempt"]);
const TAKES_TIME: ReadonlySet<EffectKind> = new Set(["wait", "timer", "code_cell", "direct_completion"]);

interface EndedEffect {
  readonly key: string;
  readonly kind: EffectKind;
  readonly replayed: boolean;
  readonly failed?: { readonly thrown: unknown };
}

/** Opens the span of an effect. The returned function tells the trace how the effect ended. */
export function tracedEffect(
  trace: SessionTrace | undefined,
  parentId: string | undefined,
  { key, kind }: Pick<EndedEffect, "key" | "kind">,
): ((ended: Pick<EndedEffect, "replayed" | "failed">) => void) | undefined {
  if (trace === undefined) return undefined;
  const span = trace.open(parentId);
  return (ended) => traceEffect(trace, span, { key, kind, ...ended });
}

function traceEffect(trace: SessionTrace, span: TraceSpan, ended: EndedEffect): void {
  const { key, kind: effect, replayed, failed } = ended;
  if (replayed) trace.countReplay();
  if (OWN_RECORD.has(effect) || !(replayed || TAKES_TIME.has(effect))) return;
  span.close("effect", { effect, key, replayed, ...howItEnded(failed) });
}

function howItEnded(failed: EndedEffect["failed"]): {
  readonly outcome: "done" | "parked" | "failed";
  readonly code?: string;
} {
  if (failed === undefined) return { outcome: "done" };
  if (failed.thrown instanceof TurnParked) return { outcome: "parked" };
  return { outcome: "failed", code: traceFailure(failed.thrown).code };
}

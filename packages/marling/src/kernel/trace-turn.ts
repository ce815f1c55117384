// What the trace is told of a run of a turn.

import type { TurnOutcome, TurnReport } from "../model/turn.ts";
import { NO_USAGE } from "../model/usage.ts";
import type { TraceTurnOutcome } from "../trace/contract.ts";
import type { SessionTrace } from "./session-trace.ts";
import { traceFailure } from "./session-trace.ts";
import { TurnParked } from "./turn-parked.ts";

export function traceTurnEnd(trace: SessionTrace, report: TurnReport): void {
  const { outcome, revision, usage, childUsage, text } = report;
  const content = trace.wantsContent ? { content: { text } } : {};
  trace.endTurn({ outcome: outcomeOf(outcome), revision, usage, childUsage, ...content });
}

/** A run that came to no commit: the turn sleeps, or goes on somewhere else. */
export function traceTurnLeft(trace: SessionTrace, thrown: unknown): void {
  const outcome: TraceTurnOutcome =
    thrown instanceof TurnParked
      ? { kind: "parked", waits: thrown.waits.map(waitOf) }
      : { kind: "interrupted", code: traceFailure(thrown).code };
  trace.endTurn({ outcome, usage: NO_USAGE, childUsage: [] });
}

function outcomeOf(outcome: TurnOutcome): TraceTurnOutcome {
  if (outcome.kind === "finished") return { kind: "finished", by: outcome.by };
  const { reason, code } = outcome;
  return { kind: "stopped", reason, ...(code === undefined ? {} : { code }) };
}

function waitOf({ name, due }: TurnParked["waits"][number]): {
  readonly name: string;
  readonly due?: number;
} {
  return { name, ...(due === undefined ? {} : { due }) };
}

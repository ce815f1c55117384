// The end of a turn that cannot resume: it was recovered too often, or asks for something else than was recorded.
//   ET1  what is recorded of it is replayed and committed; nothing else is performed.
//   ET2  a call without a recorded outcome is `unknown_outcome` where it may have begun, else it is cancelled.

import { type ToolOutput, toolCancelled } from "../model/tool-output.ts";
import { cancelBelow } from "./child-turns.ts";
import { COMPACTION_KEY, compactBeforeTurn } from "./compact.ts";
import { isRepeatable, unknownOutcome } from "./cut-attempt.ts";
import type { DispatchCall } from "./dispatch.ts";
import type { FinalizedTurn } from "./finalize.ts";
import { reportIssues } from "./lifecycle.ts";
import { CONTEXT_SCOPE } from "./prepare.ts";
import { cameTo } from "./prepare-call.ts";
import { faultIssue, faultOutcome, type TurnFault } from "./turn-fault.ts";
import { adoptInner, isRecorded, type TurnRun } from "./turn-run.ts";

/** Ends a turn before its first phase. No model is shown its context, so transforms do not run; what they used counts. */
export async function endAtRecords(turn: TurnRun, fault: TurnFault): Promise<void> {
  turn.control.end(fault);
  await adoptInner(turn, CONTEXT_SCOPE);
  if (await isRecorded(turn, COMPACTION_KEY)) await compactBeforeTurn(turn, undefined);
}

/** A turn as it is committed when it is ending. The turns that it started are cancelled, as those of a cancelled turn are. */
export async function endTurn(turn: TurnRun, finalized: FinalizedTurn): Promise<FinalizedTurn> {
  const { ending } = turn.control;
  if (ending === undefined) return finalized;
  await adoptInner(turn);
  await cancelBelow(turn);
  reportIssues(turn, [faultIssue(ending)]);
  return { ...finalized, outcome: faultOutcome(ending) };
}

/** The output of a call at which a turn ended. */
export async function endedCall(turn: TurnRun, call: DispatchCall, round: number): Promise<ToolOutput> {
  const hasBegun = (await cameTo(turn, call, round))?.kind === "ran";
  return hasBegun ? unknownOutcome(call.name) : toolCancelled("The turn ended before the call.");
}

/**
 * The output of a call that was not prepared in an earlier run as it is now: hooks may have been added since. An attempt
 * that may run again leaves no mark, so such a call may have begun.
 */
export async function endedUnprepared(turn: TurnRun, call: DispatchCall, round: number): Promise<ToolOutput> {
  const manifest = call.grant?.manifest ?? turn.session.resolvedToolCatalog().manifest(call.name);
  const mayHaveBegun = manifest !== undefined && isRepeatable(manifest);
  return mayHaveBegun ? unknownOutcome(call.name) : endedCall(turn, call, round);
}

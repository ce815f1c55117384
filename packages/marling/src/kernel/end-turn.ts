// The end of a turn that cannot resume: it was recovered too often, or asks for something else than was recorded.
//   ET1  what is recorded of it is replayed and committed; nothing else is performed.
//   ET2  a call without a recorded outcome is `unknown_outcome` where it may have begun, else it is cancelled.

import { type ToolOutput, toolCancelled } from "../model/tool-output.ts";
import { cancelBelow } from "./child-turns.ts";
import { unknownOutcome } from "./cut-attempt.ts";
import type { DispatchCall } from "./dispatch.ts";
import type { FinalizedTurn } from "./finalize.ts";
import { reportIssues } from "./lifecycle.ts";
import { cameTo } from "./prepare-call.ts";
import { faultIssue, faultOutcome } from "./turn-fault.ts";
import { adoptInner, type TurnRun } from "./turn-run.ts";

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

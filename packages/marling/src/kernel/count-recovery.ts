// A turn that ends its process every time must not do so for ever.
//   RV1  a recovery is counted in the store before the turn runs. The fourth in a row ends the turn.
//   RV2  a recovery counts unless an outcome was recorded since the one before, or a wait of the turn is over since. Marks
//        that something began, and those of recoveries, are no outcomes.
//   RV3  a turn that recovery ends is replayed as far as it is recorded, and commits that: finished calls, joined inputs,
//        state and usage, with unknown outcomes for calls that were cut.
//   RV4  that replay runs no hook, no attempt and no model call. Where it is cut three times as well, the turn ends with
//        its input alone.

import type { EffectKey } from "../model/ids.ts";
import { RECOVERY_MARK } from "../model/journal.ts";
import { refuseNewer } from "../model/outcome-version.ts";
import type { InboxRow, Store } from "../store/contract.ts";
import { TurnFault } from "./turn-fault.ts";
import { decodeProgress, partId } from "./turn-progress.ts";

export const MAX_RECOVERIES = 3;
/** How often the replay that ends a turn is tried. */
const MAX_ENDINGS = 3;

/** Why a turn ends instead of resuming. */
export interface Refusal {
  readonly fault: TurnFault;
  /** Whether the turn commits what is recorded of it. */
  readonly keepsRecords: boolean;
}

/** The number of a recovery since the turn last made progress, and why it ends the turn if it is one too many. */
export interface CountedRecovery {
  readonly attempt: number;
  readonly refusal: Refusal | undefined;
}

/** Counts one more recovery of a turn. */
export async function countRecovery(
  { journal, waits }: Store,
  { sessionId, turnId, progress }: InboxRow,
  lease: number | undefined,
): Promise<CountedRecovery> {
  if (journal === undefined) return { attempt: 1, refusal: undefined };
  // A part that was committed took its marks with it: the next part counts from nothing.
  const part = partId(turnId, decodeProgress(progress, `turn ${turnId}`)?.switches ?? 0);
  const known = await journal.read(sessionId, part);
  refuseNewer(known); // Not counted: it says nothing about the turn.
  const made = await waits.read(sessionId, turnId);
  const over = made.filter(({ resolution, isOver }) => isOver || resolution !== undefined).length;
  const mark = `${RECOVERY_MARK}${over}.`;
  const since = known.slice(known.findLastIndex(({ status }) => status === "done") + 1);
  const attempt = since.filter(({ key }) => key.startsWith(mark)).length + 1;
  const marks = known.filter(({ key }) => key.startsWith(RECOVERY_MARK)).length;
  const key = `${mark}${marks + 1}` as EffectKey;
  await journal.append([{ sessionId, turnId: part, key, status: "started" }], lease);
  return { attempt, refusal: refusalAt(attempt) };
}

function refusalAt(attempt: number): Refusal | undefined {
  if (attempt <= MAX_RECOVERIES) return undefined;
  const message = `expected the turn to end after at most ${MAX_RECOVERIES} recoveries without progress, found it interrupted once more`;
  const fault = new TurnFault("recovery_exhausted", message);
  return { fault, keepsRecords: attempt <= MAX_RECOVERIES + MAX_ENDINGS };
}

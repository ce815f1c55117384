// A turn that ends its process every time must not do so for ever.
//   RV1  a recovery is counted, in the store, before the turn runs; the one after the last allowed ends the turn instead.
//   RV2  a turn that slept and was woken has got on: counting begins anew with every wait that is over.

import type { EffectKey } from "../model/ids.ts";
import { refuseNewer } from "../model/outcome-version.ts";
import type { InboxRow, Store } from "../store/contract.ts";
import { TurnFault } from "./turn-fault.ts";

export const MAX_RECOVERIES = 3;
const MARK = "recovery.";

/** Which recovery of a turn this is since it last got on, and the fault that ends the turn when it is one too many. */
export interface CountedRecovery {
  readonly attempt: number;
  readonly fault: TurnFault | undefined;
}

/** Counts one more recovery of a turn. */
export async function countRecovery(
  { journal, waits }: Store,
  { sessionId, turnId }: InboxRow,
  lease: number | undefined,
): Promise<CountedRecovery> {
  if (journal === undefined) return { attempt: 1, fault: undefined };
  const known = await journal.read(sessionId, turnId);
  refuseNewer(known); // Not counted: it says nothing about the turn.
  const made = await waits.read(sessionId, turnId);
  const over = made.filter(({ resolution, isOver }) => isOver || resolution !== undefined).length;
  const mark = `${MARK}${over}.`;
  const recoveries = known.filter(({ key }) => key.startsWith(mark)).length;
  const attempt = recoveries + 1;
  if (recoveries >= MAX_RECOVERIES) {
    const message = `expected the turn to end after at most ${MAX_RECOVERIES} recoveries, found it interrupted once more`;
    return { attempt, fault: new TurnFault("recovery_exhausted", message) };
  }
  const key = `${mark}${attempt}` as EffectKey;
  await journal.append([{ sessionId, turnId, key, status: "started" }], lease);
  return { attempt, fault: undefined };
}

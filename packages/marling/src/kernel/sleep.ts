// A call that can only wait puts its turn to sleep, on every store alike for whoever looks.
//   SL1  where outcomes are remembered the turn leaves memory; where they are not it stays, and counts as asleep once every
//        call of it that has begun waits.

import { type ParkedOn, TurnParked } from "./turn-parked.ts";
import type { TurnRun } from "./turn-run.ts";

/** Who waits, and whether that may put the turn to sleep. */
export interface Sleeper {
  readonly callId: string;
  readonly canPark: boolean;
}

/** Throws where the turn can be left to the store. Else the wait is a live one, over with the returned call. */
export function sleepOn(turn: TurnRun, wait: ParkedOn, { callId, canPark }: Sleeper): () => void {
  if (!canPark) return () => undefined;
  if (turn.session.parts.effects.remembers === true) throw new TurnParked([wait]);
  return turn.control.sleeps(callId, wait);
}

// A pause inside a turn. The time it is due is written before it begins, so that a crash in it makes it no longer.

import { isJsonObject } from "../model/json.ts";
import { performEffect, type TurnRun } from "./turn-run.ts";

/** Long pauses are slept in parts: the wall clock may move meanwhile. */
const SLICE_MS = 60_000;

export interface Pause {
  readonly key: string;
  readonly ms: number;
  readonly signal: AbortSignal;
}

export async function performTimer(turn: TurnRun, { key, ms, signal }: Pause): Promise<void> {
  const { clock } = turn.session.parts;
  const effect = { key, kind: "timer", plan: { due: clock.now() + ms } } as const;
  await performEffect(turn, effect, async (_scope, plan) => {
    const due = isJsonObject(plan) && typeof plan.due === "number" ? plan.due : clock.now() + ms;
    // A clock that went backwards makes nobody wait longer than was asked for.
    let left = Math.min(due - clock.now(), ms);
    while (left > 0) {
      const slice = Math.min(left, SLICE_MS);
      await clock.sleep(slice, { signal });
      left = Math.min(left - slice, due - clock.now());
    }
    return null;
  });
}

// What an observer of a session is told. Plain JSON, made to be sent over a wire as it is.

import type { TurnEvent } from "../model/turn.ts";
import type { HistoryNode, SessionView } from "../session/view.ts";

export interface ObserveOptions {
  /** The cursor of the last observation that was seen: what follows it is told. Without one, observation starts now. */
  readonly cursor?: string | undefined;
  /** Aborting it ends the observation, and nothing else. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Why observations are missing. `too_old`: what the observer asks for is not kept any more. `too_slow`: it was let go
 * before the observer had read it. `other_process`: the cursor is of another process or of an earlier opening of the
 * session in this one, or another process has moved the session on.
 */
export type GapReason = "too_old" | "too_slow" | "other_process";

/** Every one has the cursor to go on from behind it. Cursors are opaque: keep them, send them back, compare nothing. */
export type SessionObservation =
  /** Live and provisional: `turn_started` voids what the turn showed since its last commit, as `attempt_reset` does for a round. */
  | {
      readonly kind: "event";
      readonly cursor: string;
      readonly turnId: string;
      readonly event: TurnEvent;
    }
  /** Settled: by a turn, whose events so far are void in favour of `nodes`, or beside turns. */
  | {
      readonly kind: "committed";
      readonly cursor: string;
      readonly revision: number;
      readonly turnId?: string;
      /** What the history has more than before; none when something else changed, such as the policy. */
      readonly nodes: readonly HistoryNode[];
    }
  /** Replace everything with `view`; what follows belongs behind it. */
  | {
      readonly kind: "gap";
      readonly cursor: string;
      readonly reason: GapReason;
      readonly view: SessionView;
      /** The turn that runs: its events since its last commit follow, the first of them only when it `isWhole`. */
      readonly inFlight?: { readonly turnId: string; readonly isWhole: boolean };
    };

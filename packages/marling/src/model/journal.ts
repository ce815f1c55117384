// What is known of turns that are not committed yet: written by effects, kept by stores.

import type { EffectKey, SessionId, TurnId } from "./ids.ts";
import type { Json } from "./json.ts";

/** One step of an effect inside a turn that is not committed yet. */
export interface JournalRecord {
  readonly sessionId: SessionId;
  readonly turnId: TurnId;
  readonly key: EffectKey;
  /** `started`: it may have begun; `done`: its outcome is known. */
  readonly status: "started" | "done";
  /** What is known: of `done` the outcome, of `started` what was planned, if anything. */
  readonly outcome?: Json;
}

/** What happened inside turns that are not committed yet. */
export interface JournalStore {
  /**
   * Writes records of one session in one transaction, all before it resolves; the first outcome of a key is kept.
   * With the generation of a lease that is not the session's any more it is `lease_lost`, and nothing is written.
   */
  append(records: readonly JournalRecord[], lease?: number): Promise<void>;
  /** All records of a turn, in the order they were written. */
  read(sessionId: SessionId, turnId: TurnId): Promise<readonly JournalRecord[]>;
}

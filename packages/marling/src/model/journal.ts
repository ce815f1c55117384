// What is known of turns that are not committed yet: written by effects, kept by stores.

import type { EffectKey, SessionId, TurnId } from "./ids.ts";
import { isJsonObject, type Json } from "./json.ts";

/** What the keys of records begin with that count recoveries: no effect has them. */
export const RECOVERY_MARK = "recovery.";

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

const NONE: readonly string[] = Object.freeze([]);

/** The effects that enclose an effect, outermost first, as its outcome names them in `within`. */
export function enclosingEffects(outcome: Json | undefined): readonly string[] {
  const within = isJsonObject(outcome) ? outcome.within : undefined;
  return Array.isArray(within) ? (within as readonly string[]) : NONE;
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

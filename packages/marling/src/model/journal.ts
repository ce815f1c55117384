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
  readonly outcome?: Json;
}

/** What happened inside turns that are not committed yet. */
export interface JournalStore {
  /** Writes records in one transaction, all before it resolves; the first outcome of a key is kept. */
  append(records: readonly JournalRecord[]): Promise<void>;
  /** All records of a turn, in the order they were written. */
  read(sessionId: SessionId, turnId: TurnId): Promise<readonly JournalRecord[]>;
}

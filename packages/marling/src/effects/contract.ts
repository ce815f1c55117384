// The one seam to the world: everything nondeterministic in a turn is an effect with a deterministic key.

import type { EffectKey, SessionId, TurnId } from "../model/ids.ts";
import type { Json } from "../model/json.ts";

export type EffectKind =
  | "environment"
  | "hook_phase"
  | "model_call"
  | "tool_attempt"
  | "code_cell"
  | "direct_completion"
  | "checkpoint"
  | "wait"
  | "timer";

export interface TurnName {
  readonly sessionId: SessionId;
  readonly turnId: TurnId;
  /** The generation of the lease that whoever asks holds; what is written under another is refused. */
  readonly lease?: number | undefined;
  /** Aborted when the turn is cancelled or lost: what is refused is not written again for long. */
  readonly signal?: AbortSignal | undefined;
}

export interface EffectRequest extends TurnName {
  /** `<round>.<kind>.<discriminator>`, unique in the turn and the same in every run of it. */
  readonly key: EffectKey;
  readonly kind: EffectKind;
}

/**
 * Performs effects.
 * Contract: `run` calls `perform` at most once per key and returns its outcome, or returns the outcome that is known
 * for the key without calling it. Outcomes are plain JSON. What `perform` throws is a fault of the machinery: it is
 * passed on and never remembered.
 */
export interface EffectHost {
  /** Whether outcomes outlive the process: then a turn can go on in another one, and may sleep in none. */
  readonly remembers?: boolean;
  /** A turn begins that nobody can have begun before: there is nothing to be read of it. */
  begin?(turn: TurnName): void;
  run<T>(
    request: EffectRequest,
    perform: (plan: Json | undefined) => Promise<T>,
    options?: EffectOptions<T>,
  ): Promise<T>;
  /** Whether the outcome of an effect is known. This and what follows may be answered at once. */
  knows?(turn: TurnName, key: EffectKey): boolean | Promise<boolean>;
  /** Whether an effect has begun, as its mark or its outcome says. */
  hasBegun?(turn: TurnName, key: EffectKey): boolean | Promise<boolean>;
  /** Whether outcomes of an earlier run are known that this run has neither come to nor left behind. */
  isReplaying?(turn: TurnName): boolean | Promise<boolean>;
  /** Those outcomes, in the order in which they were recorded. */
  ahead?(turn: TurnName): readonly Json[] | Promise<readonly Json[]>;
  /**
   * The run is done with an effect, or without a key with the turn. Returns the outermost outcomes of earlier runs that
   * the effect encloses and this run has not come to; they are no longer ahead. An outcome names the effects that enclose
   * it in `within`.
   */
  leave?(turn: TurnName, key?: EffectKey): readonly Json[] | Promise<readonly Json[]>;
  /**
   * Writes what is known of a turn and not written yet: all of it before the turn is left alone, and what was paid for
   * before code that is no effect. A host may write more than it is asked for. `once` is `all`, tried once.
   */
  flush?(turn: TurnName, what: "all" | "paid" | "once"): Promise<void>;
  /**
   * A fault ended this run of the turn. Outcomes that could not be written are kept for a later run in this process;
   * without it, `forget` is called.
   */
  abandon?(turn: TurnName): void;
  /** The turn is committed, or left alone for a while: nothing of it need be kept in memory. */
  forget?(turn: TurnName): void;
}

export interface EffectOptions<T> {
  /** What an effect is to come to, such as the time that a timer is due: written before it begins, the first one kept. */
  readonly plan?: Json;
  /**
   * The outcome of an effect that began in an earlier run and whose end is not known. With it, the beginning is written
   * before `perform` is called, and such an effect is never performed again.
   */
  cut?(): Promise<T>;
}

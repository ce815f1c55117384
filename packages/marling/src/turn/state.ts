// The state of a turn between two effects: plain JSON, so that it can be stored and restored as it is.
// The history before the turn is not in it; the state grows with what the turn adds and with nothing else.

import type { EffectKey } from "../model/ids.ts";
import type { Json } from "../model/json.ts";
import type { Message } from "../model/message.ts";
import type { PendingCall } from "../model/tool-call.ts";
import type { CheckpointKind } from "../model/turn.ts";
import type { TokenUsage } from "../model/usage.ts";
import type { MachineOutcome, TurnRecord } from "./effect.ts";
import type { AfterCheckpoint } from "./protocol.ts";

export const MACHINE_VERSION = 1;

export type Phase =
  | { readonly kind: "awaiting_environment"; readonly key: EffectKey }
  | { readonly kind: "awaiting_model"; readonly key: EffectKey }
  | { readonly kind: "awaiting_tools"; readonly key: EffectKey; readonly calls: readonly PendingCall[] }
  | {
      readonly kind: "awaiting_code";
      readonly key: EffectKey;
      readonly language: string;
      readonly code: string;
    }
  | {
      readonly kind: "awaiting_checkpoint";
      readonly key: EffectKey;
      readonly checkpoint: CheckpointKind;
      readonly onEmpty: AfterCheckpoint;
    }
  | { readonly kind: "done"; readonly outcome: MachineOutcome };

export interface MachineState {
  readonly version: typeof MACHINE_VERSION;
  readonly turnId: string;
  readonly phase: Phase;
  readonly round: number;
  readonly maxRounds: number | "unbounded";
  readonly syncsEnvironment: boolean;
  /** Effects asked for so far; part of no key, checked by the invariants. */
  readonly effects: number;
  /** How often each kind of effect was asked for in this round; it makes keys unique. */
  readonly asked: Readonly<Record<string, number>>;
  readonly mintedIds: number;
  /** The round beyond which the turn ends as `max_turns`, once one was scheduled. */
  readonly finalRound?: number;
  readonly contextWindow?: number;
  readonly usage: TokenUsage;
  /** Everything the turn added, in order; what was there when it began excluded. */
  readonly records: readonly TurnRecord[];
  /** The last message before the turn's own records, when there is one. */
  readonly before?: Message;
  readonly driverState?: Json;
}

/** What a turn begins with. */
export interface TurnPlan {
  readonly turnId: string;
  readonly maxRounds: number | "unbounded";
  readonly syncsEnvironment: boolean;
  readonly contextWindow?: number;
  /** Records the turn begins with: the input, and what hooks enqueued before it. */
  readonly records: readonly TurnRecord[];
  readonly before?: Message;
}

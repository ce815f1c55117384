// A protocol decides what a turn does next, in actions. It is pure: the same view and answer give the same actions.

import type { MessageId } from "../model/ids.ts";
import type { Json } from "../model/json.ts";
import type { Message } from "../model/message.ts";
import type { ModelResponse } from "../model/model-response.ts";
import type { CompletedCall, PendingCall } from "../model/tool-call.ts";
import type { CheckpointKind, TurnEvent } from "../model/turn.ts";
import type { CodeResult, MachineOutcome, TurnRecord } from "./effect.ts";

/** What happens after a checkpoint that delivered nothing. */
export type AfterCheckpoint =
  | { readonly kind: "next_round" }
  | { readonly kind: "finish"; readonly outcome: MachineOutcome };

/**
 * One thing a driver wants. A list is applied in order and holds exactly one `start_*`, which takes effect after the
 * rest of the list, or a `finish`, which ends the turn where it stands. A list without either ends the turn as
 * `runtime_error` with code `protocol_failed`, and nothing of it is applied.
 */
export type DriverAction =
  | { readonly kind: "emit"; readonly event: TurnEvent }
  | { readonly kind: "append"; readonly records: readonly TurnRecord[] }
  /** At most one model call per round. */
  | { readonly kind: "start_model" }
  | { readonly kind: "start_tools"; readonly calls: readonly PendingCall[] }
  | { readonly kind: "start_code"; readonly language: string; readonly code: string }
  | {
      readonly kind: "start_checkpoint";
      readonly checkpoint: CheckpointKind;
      readonly onEmpty: AfterCheckpoint;
    }
  | { readonly kind: "advance_round" }
  /** One more model call is allowed, with this message before it; then the turn ends as `max_turns`. */
  | { readonly kind: "schedule_final_round"; readonly text: string }
  | { readonly kind: "set_state"; readonly state: Json }
  | { readonly kind: "finish"; readonly outcome: MachineOutcome };

/** What a driver may look at. */
export interface DriverView {
  readonly turnId: string;
  readonly round: number;
  readonly maxRounds: number | "unbounded";
  /** True when the round about to begin would be one too many. */
  readonly isOverBudget: boolean;
  /** True in the round that `schedule_final_round` allowed. */
  readonly isFinalRound: boolean;
  readonly lastMessage: Message | undefined;
  /** The driver's own memory in this turn. */
  readonly state: Json | undefined;
  /** A fresh id for a message of this round; the same in every run. */
  messageId(role: string): MessageId;
  /** Whether a call of this turn has the id already. */
  hasCall(callId: string): boolean;
}

/** Contract: total, synchronous, never throws for a recorded answer. A throw ends the turn as `protocol_failed`. */
export interface ProtocolDriver {
  /** What the model is told before the one call beyond the budget that late input is granted. */
  readonly finalRoundText?: string;
  prepareRound(view: DriverView): readonly DriverAction[];
  onModelResponse(view: DriverView, response: ModelResponse): readonly DriverAction[];
  /** Exactly one completed call for each that was started, in the same order. */
  onToolResults(view: DriverView, calls: readonly CompletedCall[]): readonly DriverAction[];
  /** Without it, `start_code` is refused. */
  onCodeResult?(view: DriverView, result: CodeResult): readonly DriverAction[];
}

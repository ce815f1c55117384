// What a turn asks for, and what comes back. Plain JSON: an effect can be asked for again with the same key.

import type { EffectKey } from "../model/ids.ts";
import type { Json } from "../model/json.ts";
import type { Message } from "../model/message.ts";
import type { ModelOutcome } from "../model/model-response.ts";
import type { CompletedCall, PendingCall } from "../model/tool-call.ts";
import type { CheckpointKind, TurnOutcome } from "../model/turn.ts";

export type TurnEffect =
  /** The prompt and the tools of a round. */
  | { readonly kind: "environment"; readonly key: EffectKey; readonly round: number }
  | { readonly kind: "model_call"; readonly key: EffectKey; readonly round: number }
  /** All calls of one response, in the order of the response. */
  | {
      readonly kind: "tool_calls";
      readonly key: EffectKey;
      readonly round: number;
      readonly calls: readonly PendingCall[];
    }
  | {
      readonly kind: "code_cell";
      readonly key: EffectKey;
      readonly round: number;
      readonly language: string;
      readonly code: string;
    }
  | {
      readonly kind: "checkpoint";
      readonly key: EffectKey;
      readonly round: number;
      readonly checkpoint: CheckpointKind;
    };

/** Messages that reached the turn at a checkpoint. */
export interface Delivery {
  /** Stored: inputs of the user first, then what plugins enqueued. */
  readonly messages: readonly Message[];
}

export interface CodeResult {
  readonly output: string;
  readonly error?: string;
  readonly finish?: Json;
  readonly calls: readonly CompletedCall[];
}

/** An outcome answers the effect with its key; one that answers nothing changes nothing. */
export type EffectOutcome =
  | { readonly kind: "environment"; readonly key: EffectKey }
  | { readonly kind: "model_call"; readonly key: EffectKey; readonly result: ModelCallResult }
  | { readonly kind: "tool_calls"; readonly key: EffectKey; readonly calls: readonly CompletedCall[] }
  | { readonly kind: "code_cell"; readonly key: EffectKey; readonly result: CodeResult }
  | { readonly kind: "checkpoint"; readonly key: EffectKey; readonly delivery: Delivery };

export type ModelCallResult =
  | ModelOutcome
  /** The protocol chose to go on in another frame instead of calling the model. */
  | { readonly kind: "switch_frame"; readonly key: string; readonly task: string };

/** How the machine ends: as its caller sees it, or going on in another frame. */
export type MachineOutcome =
  | TurnOutcome
  | {
      readonly kind: "switch_frame";
      readonly key: string;
      readonly task: string;
      readonly nodes: readonly Json[];
    };

/** What a turn adds to the history, in order. */
export type TurnRecord =
  | { readonly kind: "message"; readonly message: Message }
  | { readonly kind: "protocol_event"; readonly pluginId: string; readonly payload: Json };

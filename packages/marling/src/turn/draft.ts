// A turn between two steps: the state without a phase, and the events told so far. A step ends by asking for one
// effect or by ending the turn; both are here, so that keys and ids are made in one place.
//   T2   the key of an effect is `<round>.<name>`, and `<round>.<name>.<n>` from the second one of that name in a round.
//   T9   ids of messages count up through the turn; nothing but the turn's own course decides them.
//   T11  a turn that ends leaves no tool call without a result.

import { unreachable } from "../base/unreachable.ts";
import { effectKey, type MessageId } from "../model/ids.ts";
import type { Message, MessagePart, Role } from "../model/message.ts";
import type { TurnEvent } from "../model/turn.ts";
import type { MachineOutcome, TurnEffect, TurnRecord } from "./effect.ts";
import type { MachineState, Phase } from "./state.ts";
import { unansweredCallResults } from "./tool-results.ts";

export type Step =
  | {
      readonly kind: "effect";
      readonly state: MachineState;
      readonly effect: TurnEffect;
      readonly events: readonly TurnEvent[];
    }
  | {
      readonly kind: "done";
      readonly state: MachineState;
      readonly outcome: MachineOutcome;
      readonly events: readonly TurnEvent[];
    };

export type Progress = Omit<MachineState, "phase">;

export interface Draft {
  readonly state: Progress;
  readonly events: readonly TurnEvent[];
}

type AwaitingPhase = Exclude<Phase, { kind: "done" }>;
type WithoutKey<P> = P extends AwaitingPhase ? Omit<P, "key"> : never;

/** A phase that has no key yet. */
export type Wanted = WithoutKey<AwaitingPhase>;

/** The state as a draft; its phase is left behind. */
export function draftOf(state: MachineState): Draft {
  const { phase: _, ...progress } = state;
  return { state: progress, events: [] };
}

export function emit(draft: Draft, event: TurnEvent): Draft {
  return { ...draft, events: [...draft.events, event] };
}

export function appendRecords(draft: Draft, records: readonly TurnRecord[]): Draft {
  if (records.length === 0) return draft;
  return { ...draft, state: { ...draft.state, records: [...draft.state.records, ...records] } };
}

/** Appends a message of the machine's own, under a fresh id. */
export function say(draft: Draft, role: Role, parts: readonly MessagePart[]): Draft {
  const { state } = draft;
  const message: Message = Object.freeze({ id: mintId(state, role), role, parts });
  const counted = { ...draft, state: { ...state, mintedIds: state.mintedIds + 1 } };
  return appendRecords(counted, [{ kind: "message", message }]);
}

/** The id that the next minted message has. Not read but derived, from a turn id that was checked: it cannot fail. */
export function mintId(state: Pick<Progress, "turnId" | "round" | "mintedIds">, role: string): MessageId {
  return `${state.turnId}.${state.round}.${role}.${state.mintedIds}` as MessageId;
}

export function advanceRound(draft: Draft): Draft {
  return { ...draft, state: { ...draft.state, round: draft.state.round + 1, asked: {} } };
}

/** Whether the current round has asked for an effect of this name. */
export function hasAsked(state: Progress, name: "environment" | "model_call"): boolean {
  return state.asked[name] !== undefined;
}

/** Ends the step by asking for an effect. */
export function ask(draft: Draft, wanted: Wanted): Step {
  const { round, asked, effects } = draft.state;
  const name = effectName(wanted);
  const count = (asked[name] ?? 0) + 1;
  const key = effectKey(count === 1 ? `${round}.${name}` : `${round}.${name}.${count}`);
  const phase: AwaitingPhase = { ...wanted, key };
  const state = { ...draft.state, effects: effects + 1, asked: { ...asked, [name]: count }, phase };
  return { kind: "effect", state, effect: effectOf(phase, round), events: draft.events };
}

/** Ends the turn, with a result for every call that still has none. */
export function end(draft: Draft, outcome: MachineOutcome): Step {
  const missing = unansweredCallResults(draft.state.records);
  const closed = missing.length === 0 ? draft : say(draft, "tool", missing);
  return {
    kind: "done",
    state: { ...closed.state, phase: { kind: "done", outcome } },
    outcome,
    events: closed.events,
  };
}

/** Ends the turn because the driver broke its contract; `draft` is what stood before it did. */
export function fault(draft: Draft, message: string): Step {
  const issue = { kind: "protocol", code: "protocol_failed", message, retryable: false };
  return end(emit(draft, { kind: "error", issue }), {
    kind: "stopped",
    reason: "runtime_error",
    code: issue.code,
    message,
  });
}

/** The effect that a phase waits for: the same value however often it is asked. */
export function effectOf(phase: AwaitingPhase, round: number): TurnEffect {
  const { key } = phase;
  switch (phase.kind) {
    case "awaiting_environment":
      return { kind: "environment", key, round };
    case "awaiting_model":
      return { kind: "model_call", key, round };
    case "awaiting_tools":
      return { kind: "tool_calls", key, round, calls: phase.calls };
    case "awaiting_code":
      return { kind: "code_cell", key, round, language: phase.language, code: phase.code };
    case "awaiting_checkpoint":
      return { kind: "checkpoint", key, round, checkpoint: phase.checkpoint };
    default:
      return unreachable(phase);
  }
}

function effectName(wanted: Wanted): string {
  switch (wanted.kind) {
    case "awaiting_environment":
      return "environment";
    case "awaiting_model":
      return "model_call";
    case "awaiting_tools":
      return "tool_calls";
    case "awaiting_code":
      return "code_cell";
    case "awaiting_checkpoint":
      return `checkpoint.${wanted.checkpoint}`;
    default:
      return unreachable(wanted);
  }
}

// The turn machine: decides what happens next, does nothing. All its rules are in SPEC.md beside this file.
//   T1  begin, resume and stop are total and pure: no recorded outcome makes them throw.
//   T2  the n-th effect of a turn has the same key in every run, and no other effect of the turn has it.
//   T3  an outcome that does not answer the outstanding effect changes nothing.
//   T7  a step costs what its round adds and a copy of references to what the turn added, never what was before the turn.

import { unreachable } from "../base/unreachable.ts";
import type { Message, Role } from "../model/message.ts";
import type { ModelFailure, ModelResponse } from "../model/model-response.ts";
import { addUsage, isNoUsage, NO_USAGE, type TokenUsage } from "../model/usage.ts";
import { assistantParts } from "./assistant-parts.ts";
import {
  appendRecords,
  type Draft,
  draftOf,
  effectOf,
  emit,
  end,
  fault,
  type Progress,
  type Step,
  say,
} from "./draft.ts";
import type {
  CodeResult,
  Delivery,
  EffectOutcome,
  MachineOutcome,
  ModelCallResult,
  TurnEffect,
  TurnRecord,
} from "./effect.ts";
import type { ProtocolDriver } from "./protocol.ts";
import { consult, openRound, openRoundForLateInput, prepareRound } from "./round.ts";
import { MACHINE_VERSION, type MachineState, type Phase, type TurnPlan } from "./state.ts";
import { type TerminalStop, terminalStop } from "./terminal-stop.ts";
import { alignResults } from "./tool-results.ts";

export type { Step } from "./draft.ts";

interface Reached {
  readonly phase: Extract<Phase, { kind: "awaiting_checkpoint" }>;
  readonly delivery: Delivery;
}

const DELIVERABLE: ReadonlySet<Role> = new Set(["user", "system", "event"]);

/** Begins a turn: the first effect, or the end when the plan allows no model call. */
export function begin(plan: TurnPlan, driver: ProtocolDriver): Step {
  const { turnId, maxRounds, syncsEnvironment, records, contextWindow, before } = plan;
  const state: Progress = {
    version: MACHINE_VERSION,
    turnId,
    round: 0,
    maxRounds,
    syncsEnvironment,
    effects: 0,
    asked: {},
    mintedIds: 0,
    usage: NO_USAGE,
    records,
    ...(contextWindow === undefined ? {} : { contextWindow }),
    ...(before === undefined ? {} : { before }),
  };
  return openRound({ state, events: [] }, driver);
}

/**
 * Goes on with the outcome of the outstanding effect. Any other outcome, late, repeated or unknown, returns the same
 * state object and the outstanding effect again; a turn that is done stays done.
 */
export function resume(state: MachineState, outcome: EffectOutcome, driver: ProtocolDriver): Step {
  const { phase } = state;
  if (phase.kind === "done" || phase.key !== outcome.key) return again(state);
  const draft = draftOf(state);
  if (phase.kind === "awaiting_environment" && outcome.kind === "environment") {
    return prepareRound(draft, driver);
  }
  if (phase.kind === "awaiting_model" && outcome.kind === "model_call") {
    return onModelCall(draft, outcome.result, driver);
  }
  if (phase.kind === "awaiting_tools" && outcome.kind === "tool_calls") {
    const calls = alignResults(phase.calls, outcome.calls);
    return consult(draft, driver, (view) => driver.onToolResults(view, calls));
  }
  if (phase.kind === "awaiting_code" && outcome.kind === "code_cell") {
    return onCodeCell(draft, outcome.result, driver);
  }
  if (phase.kind === "awaiting_checkpoint" && outcome.kind === "checkpoint") {
    return onCheckpoint(draft, { phase, delivery: outcome.delivery }, driver);
  }
  return again(state);
}

/** Ends the turn from outside with what it has recorded so far; a turn that is done keeps its outcome. */
export function stop(state: MachineState, outcome: MachineOutcome): Step {
  return state.phase.kind === "done" ? again(state) : end(draftOf(state), outcome);
}

/** The outstanding effect, the same as when it was first asked for; none when the turn is done. */
export function pendingEffect({ phase, round }: MachineState): TurnEffect | undefined {
  return phase.kind === "done" ? undefined : effectOf(phase, round);
}

function again(state: MachineState): Step {
  const { phase } = state;
  if (phase.kind === "done") return { kind: "done", state, outcome: phase.outcome, events: [] };
  return { kind: "effect", state, effect: effectOf(phase, state.round), events: [] };
}

function onModelCall(draft: Draft, result: ModelCallResult, driver: ProtocolDriver): Step {
  switch (result.kind) {
    case "response":
      return onResponse(draft, result.response, driver);
    case "failure":
      return onFailure(draft, result.failure);
    case "switch_frame":
      return onSwitchFrame(draft, result);
    default:
      return unreachable(result);
  }
}

function onResponse(draft: Draft, response: ModelResponse, driver: ProtocolDriver): Step {
  const counted = countUsage(draft, response.usage);
  const stopped = terminalStop(response, draft.state.contextWindow);
  if (stopped === undefined)
    return consult(counted, driver, (view) => driver.onModelResponse(view, response));
  const words = assistantParts(response);
  return stopWith(words.length === 0 ? counted : say(counted, "assistant", words), stopped);
}

function onFailure(draft: Draft, failure: ModelFailure): Step {
  const { kind, code = kind, message, retryable, usage = NO_USAGE } = failure;
  const counted = isNoUsage(usage) ? draft : countUsage(draft, usage);
  if (kind === "cancelled") return stopWith(counted, { reason: "cancelled", message, retryable });
  return stopWith(counted, { reason: "provider_error", code, message, retryable });
}

/** Ends the turn as stopped; whoever watches is told why, unless it was asked for. */
function stopWith(draft: Draft, stopped: TerminalStop): Step {
  const { reason, message, retryable, code = reason } = stopped;
  const outcome: MachineOutcome = {
    kind: "stopped",
    reason,
    message,
    ...(stopped.code === undefined ? {} : { code }),
  };
  if (reason === "cancelled") return end(draft, outcome);
  return end(emit(draft, { kind: "error", issue: { kind: "model", code, message, retryable } }), outcome);
}

function onSwitchFrame(draft: Draft, to: { readonly key: string; readonly task: string }): Step {
  const { key, task } = to;
  if (key.trim() !== "" && task.trim() !== "")
    return end(draft, { kind: "switch_frame", key, task, nodes: [] });
  return fault(
    draft,
    "expected a non-blank key and task to switch frames before a model call, found a blank one",
  );
}

function countUsage(draft: Draft, usage: TokenUsage): Draft {
  const { round } = draft.state;
  const total = addUsage(draft.state.usage, usage);
  return emit({ ...draft, state: { ...draft.state, usage: total } }, { kind: "usage", round, usage, total });
}

function onCodeCell(draft: Draft, result: CodeResult, driver: ProtocolDriver): Step {
  const decide = driver.onCodeResult?.bind(driver);
  if (decide === undefined)
    return fault(draft, "expected a driver with onCodeResult for a code result, found none");
  return consult(draft, driver, (view) => decide(view, result));
}

function onCheckpoint(draft: Draft, { phase, delivery }: Reached, driver: ProtocolDriver): Step {
  const messages = acceptedMessages(delivery, draft.state.records);
  if (messages.length === 0) {
    const { onEmpty } = phase;
    return onEmpty.kind === "finish" ? end(draft, onEmpty.outcome) : openRound(draft, driver);
  }
  const delivered = appendRecords(
    draft,
    messages.map((message) => ({ kind: "message", message })),
  );
  return phase.checkpoint === "before_completion"
    ? openRoundForLateInput(delivered, driver)
    : openRound(delivered, driver);
}

/** Messages that may be delivered to a running turn, each of them once. */
function acceptedMessages({ messages }: Delivery, records: readonly TurnRecord[]): readonly Message[] {
  if (messages.length === 0) return messages;
  const known = new Set(records.map((record) => (record.kind === "message" ? record.message.id : undefined)));
  return messages.filter(({ id, role }) => {
    if (!DELIVERABLE.has(role) || known.has(id)) return false;
    known.add(id);
    return true;
  });
}

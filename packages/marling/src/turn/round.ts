// Rounds: what must hold before the model is called, and how a driver's actions become the next step.
//   T8   a round has at most one model call; opening a round after it begins the next one.
//   T20  no driver can call the model beyond the budget, except once in a scheduled final round.
//   T21  a driver that throws or returns an impossible list ends the turn, with nothing of the list applied.

import { messageOf } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import type { Message } from "../model/message.ts";
import {
  advanceRound,
  appendRecords,
  ask,
  type Draft,
  emit,
  end,
  fault,
  hasAsked,
  mintId,
  type Progress,
  type Step,
  say,
} from "./draft.ts";
import type { MachineOutcome } from "./effect.ts";
import type { DriverAction, DriverView, ProtocolDriver } from "./protocol.ts";
import { hasCallIn } from "./tool-results.ts";

type StartAction = Extract<DriverAction, { kind: `start_${string}` }>;
type PlainAction = Exclude<DriverAction, StartAction | { kind: "finish" }>;

const DEFAULT_FINAL_ROUND_TEXT =
  "The limit of model calls in this turn is reached. This is the last one: answer now, without calling tools.";

/** Begins a round: its environment if that is asked for, then the driver. */
export function openRound(draft: Draft, driver: ProtocolDriver): Step {
  const opened = hasAsked(draft.state, "model_call") ? advanceRound(draft) : draft;
  if (!isRoundAllowed(opened.state)) return end(opened, maxTurnsReached(opened.state));
  if (needsEnvironment(opened.state)) return ask(opened, { kind: "awaiting_environment" });
  return prepareRound(opened, driver);
}

/** Asks the driver what the round, whose environment is there, begins with. */
export function prepareRound(draft: Draft, driver: ProtocolDriver): Step {
  return consult(draft, driver, (view) => driver.prepareRound(view));
}

/** Begins the round that late input asks for. If it is one too many, it is the final one; after that one, the turn ends. */
export function openRoundForLateInput(draft: Draft, driver: ProtocolDriver): Step {
  const next = advanceRound(draft);
  if (isRoundAllowed(next.state)) return openRound(next, driver);
  const text = driver.finalRoundText ?? DEFAULT_FINAL_ROUND_TEXT;
  return openRound(scheduleFinalRound(next, text), driver);
}

/** Asks the driver and applies what it answers. */
export function consult(
  draft: Draft,
  driver: ProtocolDriver,
  decide: (view: DriverView) => readonly DriverAction[],
): Step {
  const minter = { minted: draft.state.mintedIds };
  let actions: readonly DriverAction[];
  try {
    actions = decide(viewOf(draft.state, minter));
  } catch (thrown) {
    return fault(draft, `the protocol driver threw: ${messageOf(thrown)}`);
  }
  const counted = { ...draft, state: { ...draft.state, mintedIds: minter.minted } };
  return applyActions(counted, actions, driver);
}

function applyActions(draft: Draft, actions: readonly DriverAction[], driver: ProtocolDriver): Step {
  let next = draft;
  let start: StartAction | undefined;
  for (const action of actions) {
    if (action.kind === "finish") return end(next, action.outcome);
    if (isPlain(action)) {
      next = applyAction(next, action);
      continue;
    }
    if (start !== undefined)
      return fault(draft, `expected one start, found ${start.kind} and ${action.kind}`);
    start = action;
  }
  if (start === undefined) return fault(draft, "expected a start or a finish, found neither");
  const problem = problemOf(next.state, start, driver);
  return problem === undefined ? applyStart(next, start, driver) : fault(draft, problem);
}

function isPlain(action: DriverAction): action is PlainAction {
  return !action.kind.startsWith("start_") && action.kind !== "finish";
}

function applyAction(draft: Draft, action: PlainAction): Draft {
  switch (action.kind) {
    case "emit":
      return emit(draft, action.event);
    case "append":
      return appendRecords(draft, action.records);
    case "advance_round":
      return advanceRound(draft);
    case "schedule_final_round":
      return scheduleFinalRound(draft, action.text);
    case "set_state":
      return { ...draft, state: { ...draft.state, driverState: action.state } };
    default:
      return unreachable(action);
  }
}

/** Why the driver may not start this, if so. */
function problemOf(state: Progress, start: StartAction, driver: ProtocolDriver): string | undefined {
  if (start.kind === "start_model" && hasAsked(state, "model_call")) {
    return `expected one model call in round ${state.round}, found a second start_model without advance_round`;
  }
  if (start.kind === "start_code" && driver.onCodeResult === undefined) {
    return "expected a driver with onCodeResult behind start_code, found none";
  }
  return undefined;
}

function applyStart(draft: Draft, start: StartAction, driver: ProtocolDriver): Step {
  switch (start.kind) {
    case "start_model":
      return startModel(draft, driver);
    case "start_tools":
      return ask(draft, { kind: "awaiting_tools", calls: start.calls });
    case "start_code":
      return ask(draft, { kind: "awaiting_code", language: start.language, code: start.code });
    case "start_checkpoint":
      return ask(draft, {
        kind: "awaiting_checkpoint",
        checkpoint: start.checkpoint,
        onEmpty: start.onEmpty,
      });
    default:
      return unreachable(start);
  }
}

function startModel(draft: Draft, driver: ProtocolDriver): Step {
  const { state } = draft;
  if (!isRoundAllowed(state)) return end(draft, maxTurnsReached(state));
  if (needsEnvironment(state)) return openRound(draft, driver);
  return ask(draft, { kind: "awaiting_model" });
}

function scheduleFinalRound(draft: Draft, text: string): Draft {
  const { state } = draft;
  if (state.finalRound !== undefined) return draft;
  const finalRound = nextModelRound(state);
  return say({ ...draft, state: { ...state, finalRound } }, "system", [{ kind: "text", text }]);
}

function isRoundAllowed({ round, maxRounds, finalRound }: Progress): boolean {
  if (finalRound !== undefined) return round <= finalRound;
  return maxRounds === "unbounded" || round < maxRounds;
}

function needsEnvironment(state: Progress): boolean {
  return state.syncsEnvironment && !hasAsked(state, "environment");
}

function maxTurnsReached({ maxRounds, finalRound }: Progress): MachineOutcome {
  const calls = finalRound === undefined ? `the ${maxRounds} model calls` : "the final model call";
  const message = `the turn made ${calls} that it was allowed`;
  return { kind: "stopped", reason: "max_turns", message };
}

/** The round in which the model is called next. */
function nextModelRound(state: Progress): number {
  return hasAsked(state, "model_call") ? state.round + 1 : state.round;
}

function viewOf(state: Progress, minter: { minted: number }): DriverView {
  const { turnId, round, maxRounds } = state;
  return {
    turnId,
    round,
    maxRounds,
    isOverBudget: maxRounds !== "unbounded" && nextModelRound(state) >= maxRounds,
    isFinalRound: state.finalRound === round,
    lastMessage: lastMessage(state),
    state: state.driverState,
    messageId: (role) => {
      const id = mintId({ turnId, round, mintedIds: minter.minted }, role);
      minter.minted += 1;
      return id;
    },
    hasCall: (callId) => hasCallIn(state.records, callId),
  };
}

function lastMessage({ records, before }: Progress): Message | undefined {
  const record = records.findLast((candidate) => candidate.kind === "message");
  return record?.kind === "message" ? record.message : before;
}

// Drive: the loop between the machine, which decides, and the effects, which are performed.

import { isPromise } from "../base/deferred.ts";
import type { TurnOutcome } from "../model/turn.ts";
import type { Awaitable } from "../plugin/hooks.ts";
import type { MachineOutcome, TurnEffect, TurnRecord } from "../turn/effect.ts";
import type { ProtocolDriver } from "../turn/protocol.ts";
import type { MachineState } from "../turn/state.ts";
import { begin, resume, type Step, stop } from "../turn/step.ts";
import { cancelBelow } from "./child-turns.ts";
import { reportIssues } from "./lifecycle.ts";
import { modelOf } from "./model-binding.ts";
import { perform } from "./perform.ts";
import type { PreparedTurn } from "./prepare.ts";
import { budgetOutcome } from "./spending.ts";
import { faultOutcome } from "./turn-fault.ts";
import { attemptKey, isRecorded, isReplaying, type TurnRun } from "./turn-run.ts";

export interface DrivenTurn {
  readonly records: readonly TurnRecord[];
  readonly outcome: MachineOutcome;
}

/**
 * Drives a prepared turn to its outcome. A cancelled turn stops after the effect that was running; what an earlier run of
 * it has come to is part of it first.
 */
export async function drive(turn: TurnRun, prepared: PreparedTurn): Promise<DrivenTurn> {
  if (prepared.outcome !== undefined) return { records: prepared.records, outcome: prepared.outcome };
  const { driver } = turn.session.turnPreamble();
  const { trace } = turn.session;
  let step = tell(turn, first(turn, prepared, driver));
  while (step.kind === "effect") {
    const { state, effect } = step;
    trace?.enterRound(effect.round);
    try {
      const ended = isAsked(turn, step) ? await endedFromOutside(turn, step) : undefined;
      const next = ended ?? goOn(turn, { state, effect }, driver);
      step = tell(turn, isPromise(next) ? await next : next);
    } catch (thrown) {
      step = endedHere(turn, state, thrown);
    }
  }
  trace?.leaveRound();
  if (!turn.control.isCancelled) return { records: step.state.records, outcome: step.outcome };
  await cancelBelow(turn);
  return { records: step.state.records, outcome: turn.control.outcome() };
}

/** The step at which a turn that is ending finds no record. */
function endedHere({ control }: TurnRun, state: MachineState, thrown: unknown): Step {
  if (control.ending === undefined || thrown !== control.ending) throw thrown;
  return stop(state, faultOutcome(control.ending));
}

/** Performs an effect and goes on with its outcome; at once where nothing is waited for. */
function goOn(
  turn: TurnRun,
  { state, effect }: Pick<Extract<Step, { kind: "effect" }>, "state" | "effect">,
  driver: ProtocolDriver,
): Awaitable<Step> {
  const performed = perform(turn, effect, state.records);
  return isPromise(performed)
    ? performed.then((outcome) => resume(state, outcome, driver))
    : resume(state, performed, driver);
}

function first(turn: TurnRun, prepared: PreparedTurn, driver: ProtocolDriver): Step {
  const { session } = turn;
  const { contextWindow } = modelOf(session);
  const before = turn.shown.at(-1 - turn.shownRecords);
  const plan = {
    turnId: turn.scope,
    maxRounds: session.policy.maxTurns,
    syncsEnvironment: session.turnPreamble().syncsEnvironment,
    records: prepared.records,
    ...(contextWindow === undefined ? {} : { contextWindow }),
    ...(before === undefined ? {} : { before }),
  };
  return begin(plan, driver);
}

/** Whether somebody has asked the turn to end, or the budget does. */
function isAsked(turn: TurnRun, step: Step): boolean {
  const { control, forced } = turn;
  control.refuseLost();
  return control.isRequested || control.isCancelled || (forced ?? exhaustedBy(turn, step)) !== undefined;
}

async function endedFromOutside(turn: TurnRun, step: Step): Promise<Step | undefined> {
  const { control, forced } = turn;
  if (control.isRequested && !(await isKnown(turn, step))) control.apply();
  if (control.isCancelled) return stop(step.state, control.outcome());
  const exhausted = exhaustedBy(turn, step);
  if (exhausted !== undefined && !(await isKnown(turn, step))) return stop(step.state, exhausted);
  return forced === undefined ? undefined : stop(step.state, forced);
}

/** The end of a turn that would call a model with no budget left. */
function exhaustedBy({ session }: TurnRun, step: Step): TurnOutcome | undefined {
  return step.kind === "effect" && step.effect.kind === "model_call" ? budgetOutcome(session) : undefined;
}

/** Whether an earlier run has come to the effect of a step, or to a part of it. */
async function isKnown(turn: TurnRun, step: Step): Promise<boolean> {
  const { effects } = turn.session.parts;
  if (step.kind !== "effect" || effects.knows === undefined) return false;
  for (const key of keysOf(step.effect)) {
    if (await isRecorded(turn, key)) return true;
  }
  return isReplaying(turn);
}

function keysOf(effect: TurnEffect): readonly string[] {
  return effect.kind === "tool_calls"
    ? effect.calls.map(({ callId }) => attemptKey(callId, effect.round, 1))
    : [effect.key];
}

/** Passes on what the machine says; what it calls an error is in the report too. */
function tell(turn: TurnRun, step: Step): Step {
  for (const event of step.events) {
    if (event.kind === "error") reportIssues(turn, [event.issue]);
    else turn.emit(event);
  }
  return step;
}

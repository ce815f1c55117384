// Drive: the loop between the machine, which decides, and the effects, which are performed.

import type { EffectKey } from "../model/ids.ts";
import type { TurnOutcome } from "../model/turn.ts";
import { addUsage } from "../model/usage.ts";
import type { MachineOutcome, TurnEffect, TurnRecord } from "../turn/effect.ts";
import type { ProtocolDriver } from "../turn/protocol.ts";
import { begin, resume, type Step, stop } from "../turn/step.ts";
import { reportIssues } from "./lifecycle.ts";
import { modelOf } from "./model-binding.ts";
import { perform } from "./perform.ts";
import type { PreparedTurn } from "./prepare.ts";
import { nameOf, type TurnRun } from "./turn-run.ts";

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
  let step = tell(turn, first(turn, prepared, driver));
  while (step.kind === "effect") {
    const { state, effect } = step;
    step = tell(
      turn,
      (await endedFromOutside(turn, step)) ??
        resume(state, await perform(turn, effect, state.records), driver),
    );
  }
  return {
    records: step.state.records,
    outcome: turn.control.isCancelled ? turn.control.outcome() : step.outcome,
  };
}

function first(turn: TurnRun, prepared: PreparedTurn, driver: ProtocolDriver): Step {
  const { session } = turn;
  const { contextWindow } = modelOf(session);
  const before = turn.shown.at(-2);
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

async function endedFromOutside(turn: TurnRun, step: Step): Promise<Step | undefined> {
  const { control } = turn;
  control.refuseLost();
  if (control.isRequested && !(await isKnown(turn, step))) control.apply();
  if (control.isCancelled) return stop(step.state, control.outcome());
  if (step.kind === "effect" && step.effect.kind === "model_call" && !(await isKnown(turn, step))) {
    const exhausted = budgetOutcome(turn);
    if (exhausted !== undefined) return stop(step.state, exhausted);
  }
  return turn.forced === undefined ? undefined : stop(step.state, turn.forced);
}

/** The end of a turn whose session, with those below it, has used what it may. */
function budgetOutcome({ session, log, spent, committedCalls }: TurnRun): TurnOutcome | undefined {
  const { budget } = session.frame.assignment.authority;
  if (budget === undefined) return undefined;
  const inTurn = [...log.modelCalls.slice(committedCalls), ...spent].map(({ usage }) => usage);
  const { input, output, cacheRead, cacheWrite } = inTurn.reduce(addUsage, session.readView().usage);
  const used = input + output + cacheRead + cacheWrite;
  if (used < budget.tokens) return undefined;
  const message = `expected at most ${budget.tokens} tokens, found ${used} used`;
  return { kind: "stopped", reason: "incomplete", code: "budget_exhausted", message };
}

/** Whether an earlier run has come to the effect of a step, or to a part of it. */
async function isKnown(turn: TurnRun, step: Step): Promise<boolean> {
  const { effects } = turn.session.parts;
  if (step.kind !== "effect" || effects.knows === undefined) return false;
  for (const key of keysOf(step.effect)) {
    if (await effects.knows(nameOf(turn), key as EffectKey)) return true;
  }
  return effects.isReplaying?.(nameOf(turn)) ?? false;
}

function keysOf(effect: TurnEffect): readonly string[] {
  return effect.kind === "tool_calls"
    ? effect.calls.map(({ callId }) => `${effect.round}.tool.${callId}.1`)
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

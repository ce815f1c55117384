// The wait for a result that comes later, through the completion key that a tool took.
//   CO1  the wait is an effect: what arrived, or that nothing did, is recorded.
//   CO2  what arrives is checked against the tool's output schema and seen by the hooks after calls, like any result.
//   CO3  work that nobody waits for any more is told so by the call's signal, unless the tool asked to keep it going.
//   CO4  where outcomes are remembered, a turn does not wait in memory: it is parked, and a later run finds the value.
//        Code of a tool or a sandbox that runs meanwhile cannot be parked; then the wait is a live one.
//   CO5  the time it is given counts from when the tool returned, in every run.

import type { LinkedSignal } from "../base/linked-signal.ts";
import { unreachable } from "../base/unreachable.ts";
import type { Json } from "../model/json.ts";
import {
  type PendingResult,
  reviveToolOutput,
  type ToolOutput,
  toolCancelled,
  toolFailure,
  toolSuccess,
} from "../model/tool-output.ts";
import type { Resolution, WaitName } from "../store/contract.ts";
import { checkToolOutput } from "../tool/output.ts";
import { afterCall } from "./after-call.ts";
import type { ReadyCall } from "./prepare-call.ts";
import { sleepOn } from "./sleep.ts";
import { type EffectOf, performEffect, type TurnRun } from "./turn-run.ts";

export interface CompletionWait {
  readonly pending: PendingResult;
  /** Wall time at which the tool said that its result comes later. */
  readonly since: number;
  readonly round: number;
  readonly signal: LinkedSignal;
  readonly canPark: boolean;
}

/** How a wait ended. Plain JSON. */
type Arrival =
  | { readonly kind: "ok"; readonly value: Json }
  | { readonly kind: "error"; readonly code: string; readonly message: string }
  | { readonly kind: "timeout" | "cancelled" };

/** What the wait of a call is known by. */
export function completionName({ session, acceptedId, turnId }: TurnRun, callId: string): WaitName {
  const name = turnId === acceptedId ? callId : `${turnId}/${callId}`;
  return { sessionId: session.id, turnId: acceptedId, name };
}

export async function awaitCompletion(
  turn: TurnRun,
  ready: ReadyCall,
  wait: CompletionWait,
): Promise<{ readonly output: ToolOutput; readonly durationMs: number }> {
  const { callId, name } = ready.call;
  const { pending, round, signal } = wait;
  if (pending.onCancel === "keep_external_work") signal.release();
  turn.emit({ kind: "waiting", callId, name });
  const effect: EffectOf<Measured> = {
    key: `${round}.wait.${callId}`,
    kind: "wait",
    ended: () => measureResolved(turn, callId, wait),
  };
  const { arrival, waitedMs } = await performEffect(turn, effect, () => measure(turn, callId, wait));
  if (arrival.kind === "timeout") giveUp(turn, ready, wait);
  const show = async (scope: TurnRun): Promise<ToolOutput> => {
    const { call, manifest } = ready;
    return afterCall(scope, {
      call,
      manifest,
      output: await outputOf(scope, ready, arrival),
      durationMs: waitedMs,
    });
  };
  const after: EffectOf<ToolOutput> = {
    key: `${round}.after.${callId}`,
    kind: "hook_phase",
    // A result that the hooks after calls have not seen is not shown.
    ended: async () => (turn.session.plugins.runner.has("tool_calls.after") ? undefined : show(turn)),
  };
  const output = await performEffect(turn, after, show);
  return { output: reviveToolOutput(output), durationMs: waitedMs };
}

interface Measured {
  readonly arrival: Arrival;
  readonly waitedMs: number;
}

/** A wait of a turn that is ending: the value counts if it is there. */
async function measureResolved(
  turn: TurnRun,
  callId: string,
  { since }: CompletionWait,
): Promise<Measured | undefined> {
  const { clock, waits } = turn.session.parts;
  const row = await waits.find(completionName(turn, callId));
  if (row?.resolution === undefined) return undefined;
  return {
    arrival: arrivalOf(row.resolution),
    waitedMs: Math.max(0, Math.round(clock.now() - since)),
  };
}

async function measure(turn: TurnRun, callId: string, wait: CompletionWait): Promise<Measured> {
  const { clock } = turn.session.parts;
  const name = completionName(turn, callId);
  const { deadlineMs } = wait.pending;
  const due = deadlineMs === undefined ? undefined : wait.since + deadlineMs;
  const known = await arrivalSoFar(turn, name, due);
  const sleep = (): Promise<Arrival> => {
    const wake = sleepOn(turn, { name: name.name, due }, { callId, canPark: wait.canPark });
    return firstOf(turn, name, due).finally(wake);
  };
  const arrival = known ?? (await sleep());
  return { arrival, waitedMs: Math.max(0, Math.round(clock.now() - wait.since)) };
}

/** What the wait came to by now; nothing when it goes on. */
async function arrivalSoFar(
  turn: TurnRun,
  name: WaitName,
  due: number | undefined,
): Promise<Arrival | undefined> {
  const { clock, waits } = turn.session.parts;
  const row = await waits.find(name);
  if (row?.resolution !== undefined) return arrivalOf(row.resolution);
  if (turn.control.isCancelled) return giveUpWaiting(turn, name, "cancelled");
  // An earlier run may have given up and been cut before that was recorded; it holds, whatever the clock says now.
  const isLate = row?.isOver === true || (due !== undefined && due <= clock.now());
  return isLate ? giveUpWaiting(turn, name, "timeout") : undefined;
}

/** A live wait: the value, the deadline or the end of the turn, whichever is first. */
async function firstOf(turn: TurnRun, name: WaitName, due: number | undefined): Promise<Arrival> {
  const { clock, waits } = turn.session.parts;
  const { signal } = turn.control;
  const over = new AbortController();
  const end = (): void => over.abort();
  const stopTimer =
    due === undefined ? turn.control.waits() : clock.after(Math.max(0, due - clock.now()), end);
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  try {
    const resolution = await waits.arrival(name, over.signal);
    if (resolution !== undefined) return arrivalOf(resolution);
    turn.control.refuseLost();
    return await giveUpWaiting(turn, name, turn.control.isCancelled ? "cancelled" : "timeout");
  } finally {
    stopTimer();
    signal.removeEventListener("abort", end);
  }
}

/** Ends the wait, unless a value was first. */
async function giveUpWaiting(turn: TurnRun, name: WaitName, kind: "timeout" | "cancelled"): Promise<Arrival> {
  const { waits } = turn.session.parts;
  const row = await waits.end({ ...name, lease: turn.lease });
  return row?.resolution === undefined ? { kind } : arrivalOf(row.resolution);
}

function arrivalOf(resolution: Resolution): Arrival {
  return "ok" in resolution ? { kind: "ok", value: resolution.ok } : { kind: "error", ...resolution.error };
}

function giveUp(turn: TurnRun, { call }: ReadyCall, { pending, signal }: CompletionWait): void {
  const message = `The tool ${call.name} was not completed within ${pending.deadlineMs} ms.`;
  if (pending.onCancel === "cancel_external_work") signal.abort(new DOMException(message, "TimeoutError"));
  if (pending.onTimeout === "fail_turn") {
    turn.forced ??= { kind: "stopped", reason: "tool_error", code: "tool_completion_timeout", message };
  }
}

async function outputOf(turn: TurnRun, { call }: ReadyCall, arrival: Arrival): Promise<ToolOutput> {
  const { name, grant } = call;
  switch (arrival.kind) {
    case "ok": {
      const validator = grant === undefined ? turn.session.tools().outputValidator(name) : undefined;
      return checkToolOutput(toolSuccess(arrival.value), name, { validator });
    }
    case "error":
      return toolFailure({
        code: arrival.code,
        message: arrival.message,
        class: "execution",
        source: "tool",
      });
    case "timeout":
      return toolFailure({
        code: "tool_completion_timeout",
        class: "timeout",
        source: "runtime",
        message: `The tool ${name} was not completed in time.`,
      });
    case "cancelled":
      return toolCancelled("The turn was cancelled while the call was waiting.");
    default:
      return unreachable(arrival);
  }
}

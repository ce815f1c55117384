// The wait for a result that comes later, through the completion key that a tool took.
//   CO1  the wait is an effect: what arrived, or that nothing did, is recorded.
//   CO2  what arrives is checked against the tool's output schema and seen by the hooks after calls, like any result.
//   CO3  work that nobody waits for any more is told so by the call's signal, unless the tool asked to keep it going.

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
import { checkToolOutput } from "../tool/output.ts";
import { afterCall } from "./after-call.ts";
import type { ReadyCall } from "./prepare-call.ts";
import { performEffect, type TurnRun } from "./turn-run.ts";
import type { Resolution } from "./waits.ts";

export interface CompletionWait {
  readonly pending: PendingResult;
  readonly round: number;
  readonly signal: LinkedSignal;
}

/** How a wait ended. Plain JSON. `lost` is a key that was made by a process that is gone. */
type Arrival =
  | { readonly kind: "ok"; readonly value: Json }
  | { readonly kind: "error"; readonly code: string; readonly message: string }
  | { readonly kind: "timeout" | "cancelled" | "lost" };

/** What the wait of a call is known by. */
export function completionName({ session, turnId }: TurnRun, callId: string): string {
  return `${session.id}/${turnId}/${callId}`;
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
  const effect = { key: `${round}.wait.${callId}`, kind: "wait" } as const;
  const { arrival, waitedMs } = await performEffect(turn, effect, () => measure(turn, callId, pending));
  if (arrival.kind === "timeout") giveUp(turn, ready, wait);
  const after = { key: `${round}.after.${callId}`, kind: "hook_phase" } as const;
  const output = await performEffect(turn, after, async (scope) => {
    const { call, manifest } = ready;
    return afterCall(scope, {
      call,
      manifest,
      output: await outputOf(scope, ready, arrival),
      durationMs: waitedMs,
    });
  });
  return { output: reviveToolOutput(output), durationMs: waitedMs };
}

async function measure(
  turn: TurnRun,
  callId: string,
  { deadlineMs }: PendingResult,
): Promise<{ readonly arrival: Arrival; readonly waitedMs: number }> {
  const { clock, waits } = turn.session.parts;
  const arrived = waits.arrival(completionName(turn, callId));
  if (arrived === undefined) return { arrival: { kind: "lost" }, waitedMs: 0 };
  const startedAt = clock.monotonic();
  const arrival = await firstOf(turn, arrived, deadlineMs);
  return { arrival, waitedMs: Math.round(clock.monotonic() - startedAt) };
}

function firstOf(
  turn: TurnRun,
  arrived: Promise<Resolution>,
  deadlineMs: number | undefined,
): Promise<Arrival> {
  const { clock } = turn.session.parts;
  const { signal } = turn.control;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => done({ kind: "cancelled" });
    const stopTimer =
      deadlineMs === undefined ? undefined : clock.after(deadlineMs, () => done({ kind: "timeout" }));
    const done = (arrival: Arrival): void => {
      stopTimer?.();
      signal.removeEventListener("abort", onAbort);
      resolve(arrival);
    };
    arrived.then((resolution) => done(arrivalOf(resolution)), reject);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
  });
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
    case "lost":
      return toolFailure({
        code: "tool_completion_lost",
        class: "internal",
        source: "runtime",
        message: `The tool ${name} can no longer be completed: its key was lost with the process that made it.`,
      });
    default:
      return unreachable(arrival);
  }
}

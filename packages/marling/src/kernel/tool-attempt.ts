// Running a call: attempts, the wait for a result that comes later, and the hooks after it.
//   TA1  one attempt is one effect, with the hooks after it and the attachments of its result inside.
//   TA2  all attempts of a call share its idempotency key and its completion key.

import { messageOf } from "../base/errors.ts";
import type { Json } from "../model/json.ts";
import { type PendingResult, type ToolOutput, isPendingResult, pendingResult, toolCancelled, toolFailure, toolSuccess } from "../model/tool-output.ts";
import type { NestedCall, NestedReply, ToolContext } from "../tool/contract.ts";
import { maxAttemptsOf, runAttempts, toolIdempotencyKey } from "../tool/dispatch.ts";
import { storeAttachments } from "../tool/output.ts";
import { type AttachmentKeeper, keepAttachment, refuseAttachment, writeAttachment } from "./attachments.ts";
import { type DispatchOptions, dispatchCalls } from "./dispatch.ts";
import { nestedCalls } from "./nested-calls.ts";
import type { ReadyCall } from "./prepare-call.ts";
import { afterToolCall } from "./tool-hooks.ts";
import { type TurnRun, performEffect } from "./turn-run.ts";
import type { Resolution } from "./waits.ts";

/** What the attempts of one call share. */
interface CallRun {
  readonly turn: TurnRun;
  readonly ready: ReadyCall;
  readonly options: DispatchOptions;
  completionKey: string | undefined;
  nested: number;
}

export async function runCall(turn: TurnRun, ready: ReadyCall, options: DispatchOptions): Promise<ToolOutput> {
  const run: CallRun = { turn, ready, options, completionKey: undefined, nested: 0 };
  const { clock } = turn.session.parts;
  const { signal } = turn.control;
  const { result } = await runAttempts({
    policy: ready.manifest.retry,
    attempt: (number) => attempt(run, number),
    sleep: (ms) => clock.sleep(ms, { signal }),
    signal,
  });
  return isPendingResult(result) ? awaitCompletion(run, result) : result;
}

async function attempt(run: CallRun, number: number): Promise<ToolOutput | PendingResult> {
  const { turn, ready, options } = run;
  const perform = () => performAttempt(run, number);
  if (ready.manifest.isOrchestrating === true) return perform();
  return performEffect(turn, { key: `${options.round}.tool.${ready.call.callId}.${number}`, kind: "tool_attempt" }, perform);
}

async function performAttempt(run: CallRun, number: number): Promise<ToolOutput | PendingResult> {
  const startedAt = run.turn.session.parts.clock.monotonic();
  const result = await execute(run, number);
  if (!isPendingResult(result)) return afterwards(run, result, startedAt);
  if (run.completionKey !== undefined) return result;
  const message = `The tool ${run.ready.call.name} returned a pending result without taking its completion key first.`;
  return afterwards(run, toolFailure({ code: "pending_tool_missing_completion_key", class: "internal", source: "runtime", message }), startedAt);
}

async function execute(run: CallRun, number: number): Promise<ToolOutput | PendingResult> {
  const { turn, ready } = run;
  const { name } = ready.call;
  const registry = turn.session.tools();
  const { grant } = ready.call;
  const context = toolContext(run, number);
  return turn.session.plugins.runTool(name, () =>
    grant === undefined ? registry.execute(ready.prepared, context) : registry.executeGranted(grant, ready.prepared, context),
  );
}

/** Stores what the output carries and runs the hooks after the call on it. */
async function afterwards(run: CallRun, output: ToolOutput, startedAt: number): Promise<ToolOutput> {
  const { turn, ready } = run;
  const { session } = turn;
  const keeper = keeperOf(turn);
  const kept = await storeAttachments(output, (source) => keepAttachment(keeper, source), { allow: (source) => refuseAttachment(keeper, source, ready.call.name) });
  try {
    return await afterToolCall(turn, {
      sessionId: session.id,
      toolName: ready.call.name,
      callId: ready.call.callId,
      args: ready.args,
      argumentProjection: ready.manifest.argumentProjection,
      turnContext: turn.context,
      host: session.host("tool"),
      result: kept,
      durationMs: Math.round(session.parts.clock.monotonic() - startedAt),
    });
  } catch (thrown) {
    return toolFailure({ code: "after_tool_call_failed", class: "internal", source: "plugin", message: messageOf(thrown) });
  }
}

async function awaitCompletion(run: CallRun, pending: PendingResult): Promise<ToolOutput> {
  const { turn, ready, completionKey } = run;
  const { waits, clock } = turn.session.parts;
  const key = completionKey as string;
  const startedAt = clock.monotonic();
  turn.emit({ kind: "waiting", callId: ready.call.callId, name: ready.call.name });
  const arrived = await firstOf(run, waits.arrival(key), pending.deadlineMs);
  waits.settle(key);
  if (arrived === "timeout" && pending.onTimeout === "fail_turn") {
    const message = `The tool ${ready.call.name} was not completed within ${pending.deadlineMs} ms.`;
    turn.forced = { kind: "stopped", reason: "tool_error", code: "tool_completion_timeout", message };
  }
  return afterwards(run, completionOutput(run, arrived), startedAt);
}

async function firstOf(run: CallRun, arrival: Promise<Resolution>, deadlineMs: number | undefined): Promise<Resolution | "timeout" | "cancelled"> {
  const { clock } = run.turn.session.parts;
  const { signal } = run.turn.control;
  return new Promise((resolve) => {
    const stopTimer = deadlineMs === undefined ? () => {} : clock.after(deadlineMs, () => done("timeout"));
    const onAbort = (): void => done("cancelled");
    const done = (result: Resolution | "timeout" | "cancelled"): void => {
      stopTimer();
      signal.removeEventListener("abort", onAbort);
      resolve(result);
    };
    if (signal.aborted) done("cancelled");
    else signal.addEventListener("abort", onAbort, { once: true });
    arrival.then(done, () => done("cancelled"));
  });
}

function completionOutput({ ready }: CallRun, arrived: Resolution | "timeout" | "cancelled"): ToolOutput {
  if (arrived === "cancelled") return toolCancelled("The turn was cancelled while the call was waiting.");
  if (arrived === "timeout") {
    return toolFailure({ code: "tool_completion_timeout", class: "timeout", source: "runtime", message: `The tool ${ready.call.name} was not completed in time.` });
  }
  return "ok" in arrived ? toolSuccess(arrived.ok) : toolFailure({ ...arrived.error, class: "execution", source: "tool" });
}

function toolContext(run: CallRun, number: number): ToolContext {
  const { turn, ready } = run;
  const { session } = turn;
  const { callId, name, grant } = ready.call;
  const context: ToolContext = {
    sessionId: session.id,
    turnId: turn.turnId,
    callId,
    frameId: session.frameId,
    attempt: number,
    maxAttempts: maxAttemptsOf(ready.manifest.retry),
    signal: turn.control.signal,
    idempotencyKey: toolIdempotencyKey({ sessionId: session.id, turnId: turn.turnId, callId, toolId: ready.manifest.id }),
    progress: (message) => turn.emit({ kind: "tool_progress", callId, name, message }),
    completionKey: async () => {
      run.completionKey ??= session.parts.waits.mint();
      return run.completionKey;
    },
    pending: (options) => pendingResult(options),
    callTools: (calls) => callNested(run, calls),
    attachments: { put: (bytes, mediaType) => writeAttachment(keeperOf(turn), bytes, mediaType) },
  };
  return Object.freeze(grant === undefined ? context : { ...context, binding: grant.binding as Json });
}

async function callNested(run: CallRun, calls: readonly NestedCall[]): Promise<readonly NestedReply[]> {
  const { turn, ready, options } = run;
  const list = nestedCalls(calls, { parentCallId: ready.call.callId, from: run.nested });
  run.nested += calls.length;
  return dispatchCalls(turn, list, { path: "tool", round: options.round, parentCallId: ready.call.callId });
}

function keeperOf(turn: TurnRun): AttachmentKeeper {
  return { blobs: turn.session.parts.store.blobs, policy: turn.session.parts.attachmentPolicy };
}

// Dispatch: the one way in which any tool is called.
//   DP1  every call, whatever asked for it, passes the same steps: catalog, contract, hooks, validation, approval,
//        prepare, attempts, hooks, projection.
//   DP2  the calls of one list are prepared one after the other, then run at once; results are in call order.
//   DP3  each call has exactly one start and one finish event, those that end in preparation included.

import { messageOf } from "../base/errors.ts";
import type { CompletedCall, ModelToolReturn, PendingCall } from "../model/tool-call.ts";
import { type ToolCallRecord, type ToolOutput, toolCancelled } from "../model/tool-output.ts";
import { runConcurrently } from "../tool/dispatch.ts";
import type { ExecutionGrant } from "../tool/contract.ts";
import { type PreparedDispatch, prepareCall, settled } from "./prepare-call.ts";
import { runCall } from "./tool-attempt.ts";
import type { TurnRun } from "./turn-run.ts";

/** Who may ask for a call. A new path does not compile without a line here and a test that walks it. */
export const DISPATCH_PATHS = {
  model: "the calls of one model response",
  tool: "a tool that calls other tools: batch, and any tool through ctx.callTools",
  code: "code that runs in the session's executor",
} as const;
export type DispatchPath = keyof typeof DISPATCH_PATHS;

export interface DispatchOptions {
  readonly path: DispatchPath;
  readonly round: number;
  readonly parentCallId?: string;
}

/** A call with what authorises it, when that is not the catalog. */
export type DispatchCall = PendingCall & { readonly grant?: ExecutionGrant };

export async function dispatchCalls(turn: TurnRun, calls: readonly DispatchCall[], options: DispatchOptions): Promise<readonly CompletedCall[]> {
  const prepared: PreparedDispatch[] = [];
  for (const call of calls) prepared.push(await prepareOne(turn, call, options));
  const { clock, toolConcurrency } = turn.session.parts;
  const abandoned = new Set<PreparedDispatch>();
  const run = async (one: PreparedDispatch): Promise<CompletedCall | undefined> => {
    const result = await timed(turn, one, options);
    return abandoned.has(one) ? undefined : finish(turn, one, { ...result, options });
  };
  const results = await runConcurrently(prepared, run, {
    cap: toolConcurrency,
    signal: turn.control.signal,
    clock,
    isSerial: (one) => one.kind === "ready" && one.manifest.execution === "serial",
    cancelled: (one) => void abandoned.add(one),
  });
  const done = await Promise.all(prepared.map((one, index) => results[index] ?? finish(turn, one, { ...CANCELLED, options })));
  if (options.parentCallId === undefined) turn.log.toolCalls.push(...done.map(recordOf));
  return done;
}

async function prepareOne(turn: TurnRun, call: DispatchCall, options: DispatchOptions): Promise<PreparedDispatch> {
  const parent = options.parentCallId === undefined ? {} : { parentCallId: options.parentCallId };
  const prepared = turn.control.isCancelled
    ? settled(call, toolCancelled("The turn was cancelled before the call."))
    : await prepareCall(turn, call);
  turn.emit({ kind: "tool_started", callId: call.callId, name: call.name, args: prepared.args, ...parent });
  return prepared;
}

interface TimedOutput {
  readonly output: ToolOutput;
  readonly durationMs: number;
}

/** A call that was told to stop and did not answer in time may still take effect. */
const CANCELLED: TimedOutput = { output: toolCancelled("The call was cancelled; it may have taken effect."), durationMs: 0 };

async function timed(turn: TurnRun, prepared: PreparedDispatch, options: DispatchOptions): Promise<TimedOutput> {
  if (prepared.kind === "settled") return { output: prepared.output, durationMs: 0 };
  const { clock } = turn.session.parts;
  const startedAt = clock.monotonic();
  const output = await runCall(turn, prepared, options);
  return { output, durationMs: Math.round(clock.monotonic() - startedAt) };
}

async function finish(turn: TurnRun, prepared: PreparedDispatch, { output, durationMs, options }: TimedOutput & { readonly options: DispatchOptions }): Promise<CompletedCall> {
  const { call, args } = prepared;
  const parent = options.parentCallId === undefined ? {} : { parentCallId: options.parentCallId };
  const modelReturn = await project(turn, prepared, { output, durationMs });
  const completed: CompletedCall = { callId: call.callId, name: call.name, args, output, modelReturn, durationMs };
  turn.emit({ kind: "tool_finished", record: recordOf(completed), ...parent });
  return completed;
}

/** What the model is shown; a projector that fails is shown as its error, and the call stands. */
async function project(turn: TurnRun, { call, args }: PreparedDispatch, { output, durationMs }: TimedOutput): Promise<ModelToolReturn> {
  const { plugins, id } = turn.session;
  const { callId, name } = call;
  try {
    return await plugins.projectToolResult({ sessionId: id, callId, toolName: name, args, output, durationMs });
  } catch (thrown) {
    return { callId, toolName: name, parts: [{ kind: "text", text: messageOf(thrown) }] };
  }
}

function recordOf({ callId, name, args, output, durationMs }: CompletedCall): ToolCallRecord {
  return { callId, name, args, output, durationMs };
}

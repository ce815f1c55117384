// Dispatch: the one way in which any tool is called.
//   DP1  every call, whatever asked for it, passes the same steps: catalog, contract, hooks, validation, approval,
//        prepare, attempts, hooks, projection.
//   DP2  the calls of one list are prepared one after the other, then run at once; results are in call order, and so is
//        what calls leave behind for the turn.
//   DP3  each call has exactly one start and one finish event, those that end in preparation included.
//   DP4  a call that is given up after a cancellation may go on, but nothing of it counts any more.
//   DP5  who does not take part in a call is not waited for: hooks, policies, limits and projectors that are not there cost
//        it no promise.

import { isPromise } from "../base/deferred.ts";
import { messageOf } from "../base/errors.ts";
import type { CompletedCall, ModelToolReturn, PendingCall } from "../model/tool-call.ts";
import { type ToolCallRecord, type ToolOutput, toolCancelled, toolFailure } from "../model/tool-output.ts";
import type { Awaitable } from "../plugin/hooks.ts";
import { decodeAppendNodes } from "../session/append-node.ts";
import type { ExecutionGrant } from "../tool/contract.ts";
import { projectToolOutput } from "../tool/output.ts";
import { runConcurrently } from "../tool/run-concurrently.ts";
import { awaitApproval, undecided } from "./approval.ts";
import { endedCall, endedUnprepared } from "./end-turn.ts";
import {
  type PreparedDispatch,
  type PrepareOptions,
  prepareCall,
  type ReadyCall,
  settled,
} from "./prepare-call.ts";
import { type CallResult, runCall } from "./tool-attempt.ts";
import { inSpan, TracedCall } from "./trace-tool.ts";
import { TurnParked } from "./turn-parked.ts";
import { type EffectOf, isReplaying, joinScope, performEffect, scopeOf, type TurnRun } from "./turn-run.ts";

/**
 * Who may ask for a call. A new path does not compile without a line here and a test that walks it. `batch` is a tool
 * like any other, and a grant is what a tool or code may put beside a call: neither is a path of its own.
 */
export const DISPATCH_PATHS = {
  model: "the calls of one model response",
  tool: "a tool that calls other tools: batch, and any tool through ctx.callTools",
  code: "code that runs in the session's executor",
} as const;
export type DispatchPath = keyof typeof DISPATCH_PATHS;

const PROJECTOR = "tool_results.projector";

export interface DispatchOptions {
  readonly path: DispatchPath;
  readonly round: number;
  readonly parentCallId?: string;
  /** Whether a call that waits may put the turn to sleep. */
  readonly canPark: boolean;
}

/** A call with what authorises it, when that is not the catalog. */
export type DispatchCall = PendingCall & { readonly grant?: ExecutionGrant };

/** One call on its way. */
interface DispatchRun<Prepared extends PreparedDispatch = PreparedDispatch> {
  readonly prepared: Prepared;
  /** Where what the call leaves behind is kept until all calls are done. */
  scope: TurnRun;
  readonly traced: TracedCall | undefined;
  /** How far it was when it was given up, if it was. */
  abandoned: "running" | "waiting" | undefined;
  completed: CompletedCall | undefined;
  /** Set when it waits for something that may take long. */
  parked: TurnParked | undefined;
}

export async function dispatchCalls(
  turn: TurnRun,
  calls: readonly DispatchCall[],
  options: DispatchOptions,
): Promise<readonly CompletedCall[]> {
  const replaying = isReplaying(turn);
  const preparing = { ...options, isReplaying: isPromise(replaying) ? await replaying : replaying };
  const runs: DispatchRun[] = [];
  for (const call of calls) {
    const run = begin(turn, call, preparing);
    runs.push(isPromise(run) ? await run : run);
  }
  const running = runReady(turn, runs.filter(isReady), options);
  if (runs.every(isReady)) await running;
  else await Promise.all([running, ...runs.map((run) => finishSettled(run, options))]);
  const parked = runs.flatMap((run) => run.parked ?? []);
  if (parked.length > 0 && turn.control.ending === undefined) throw TurnParked.join(parked);
  for (const run of runs) if (run.parked !== undefined) await finishEnded(run, options);
  const done = runs.flatMap(({ completed }) => completed ?? []);
  for (const { scope } of runs) joinScope(turn, scope);
  // Calls that a tool makes are its own affair; those of code are in the result of its cell.
  if (options.path === "model") turn.log.toolCalls.push(...done.map(recordOf));
  return done;
}

function begin(
  turn: TurnRun,
  call: DispatchCall,
  options: DispatchOptions & PrepareOptions,
): Awaitable<DispatchRun> {
  const { trace } = turn.session;
  const span = trace?.open(turn.span);
  const scope = inSpan(scopeOf(turn), span);
  const start = (prepared: PreparedDispatch): DispatchRun => {
    const { callId, name, args } = prepared.call;
    const { parentCallId } = options;
    const traced = trace && span && new TracedCall(trace, { span, call: prepared.call, parentCallId });
    turn.emit({ kind: "tool_started", callId, name, args, ...parentOf(options) });
    return { prepared, scope, traced, abandoned: undefined, completed: undefined, parked: undefined };
  };
  if (turn.control.isCancelled)
    return start(settled(call, toolCancelled("The turn was cancelled before the call.")));
  const prepared =
    turn.control.ending === undefined
      ? prepareCall(scope, call, options)
      : prepareEnding(scope, call, options);
  return isPromise(prepared) ? prepared.then(start) : start(prepared);
}

/** As `prepareCall`, in a turn that is ending: hooks that an earlier run did not ask are not asked. */
async function prepareEnding(
  scope: TurnRun,
  call: DispatchCall,
  options: PrepareOptions,
): Promise<PreparedDispatch> {
  try {
    return await prepareCall(scope, call, options);
  } catch (thrown) {
    if (thrown !== scope.control.ending) throw thrown;
    return settled(call, await endedUnprepared(scope, call, options.round));
  }
}

function isReady(run: DispatchRun): run is DispatchRun<ReadyCall> {
  return run.prepared.kind === "ready";
}

async function runReady(
  turn: TurnRun,
  runs: readonly DispatchRun<ReadyCall>[],
  options: DispatchOptions,
): Promise<void> {
  const { clock, toolConcurrency } = turn.session.parts;
  await runConcurrently(runs, (run) => runToEnd(run, options), {
    cap: toolConcurrency,
    signal: turn.control.signal,
    clock,
    isSerial: ({ prepared }) => prepared.manifest.execution === "serial",
    cancelled: (run, phase) => {
      run.abandoned = phase;
    },
  });
  for (const run of runs) if (run.abandoned !== undefined) await finishAbandoned(turn, run, options);
}

/** Runs a call to its end, or until it can only wait: the calls beside it still run to theirs. */
async function runToEnd(run: DispatchRun<ReadyCall>, options: DispatchOptions): Promise<void> {
  const { callId } = run.prepared.call;
  const { round, canPark } = options;
  const isAtWork = canPark && run.prepared.manifest.isOrchestrating !== true;
  const rest = isAtWork ? run.scope.control.works(callId) : undefined;
  try {
    const prepared = run.prepared.approval === undefined ? run.prepared : await allowed(run, options);
    if (prepared.kind === "settled") {
      const result = { output: prepared.output, durationMs: 0, round };
      return finish(run, await conclude(run.scope, prepared, result), options);
    }
    const result = await runCall(run.scope, prepared, {
      round,
      canPark,
      isAbandoned: () => run.abandoned !== undefined,
      callTools: (scope, calls, nested) =>
        dispatchCalls(scope, calls, { path: "tool", round, parentCallId: callId, ...nested }),
    });
    if (run.abandoned !== undefined) return;
    const concluded = conclude(run.scope, prepared, { ...result, round });
    const completed = isPromise(concluded) ? await concluded : concluded;
    if (run.abandoned === undefined) finish(run, completed, options);
  } catch (thrown) {
    await leaveCall(run, options, thrown);
  } finally {
    rest?.();
  }
}

/** A call that can only wait, or at which its turn ended. */
async function leaveCall(
  run: DispatchRun<ReadyCall>,
  options: DispatchOptions,
  thrown: unknown,
): Promise<void> {
  const { ending } = run.scope.control;
  if (ending !== undefined && thrown === ending) return finishEnded(run, options);
  if (!(thrown instanceof TurnParked)) throw thrown;
  run.parked = thrown;
  run.traced?.park();
}

async function finishEnded(run: DispatchRun, options: DispatchOptions): Promise<void> {
  const { scope, prepared } = run;
  const { round } = options;
  const output = await endedCall(scope, prepared.call, round);
  const { callId, name, args } = prepared.call;
  const modelReturn = projectToolOutput({ callId, toolName: name, output });
  finish(run, { callId, name, args, output, durationMs: 0, modelReturn }, options);
}

/** The call when it may run; one that somebody has to allow waits for that here. */
async function allowed(
  { scope, prepared }: DispatchRun<ReadyCall>,
  { round, canPark }: DispatchOptions,
): Promise<PreparedDispatch> {
  const { approval, call } = prepared;
  if (approval === undefined) return prepared;
  const { question, digest, goOn } = approval;
  const output = await awaitApproval(scope, question, { round, canPark, digest });
  return output === undefined ? goOn(scope) : settled(call, output);
}

async function finishSettled(run: DispatchRun, options: DispatchOptions): Promise<void> {
  const { prepared, scope } = run;
  if (prepared.kind !== "settled") return;
  const result = { output: prepared.output, durationMs: 0, round: options.round };
  finish(run, await conclude(scope, prepared, result), options);
}

/** Answers for a call that was told to stop and gave no answer in time. What it left behind so far is dropped. */
async function finishAbandoned(
  turn: TurnRun,
  run: DispatchRun<ReadyCall>,
  options: DispatchOptions,
): Promise<void> {
  const output = abandonedOutput(run);
  run.scope = scopeOf(turn);
  const completed = await conclude(run.scope, run.prepared, { output, durationMs: 0, round: options.round });
  finish(run, completed, options);
}

/** Whether it had asked already depends on the store: one that somebody has to allow was not decided about, either way. */
function abandonedOutput({ abandoned, prepared }: DispatchRun<ReadyCall>): ToolOutput {
  if (abandoned === "running") return toolCancelled("The call was cancelled; it may have taken effect.");
  const { approval } = prepared;
  return approval === undefined
    ? toolCancelled("The call was cancelled before it began.")
    : undecided(approval.question);
}

function finish(run: DispatchRun, completed: CompletedCall, options: DispatchOptions): void {
  run.completed = completed;
  run.traced?.end(completed);
  run.scope.emit({ kind: "tool_finished", record: recordOf(completed), ...parentOf(options) });
}

/** A result as the turn takes it, with what the model is shown of it. */
function conclude(
  turn: TurnRun,
  { call }: PreparedDispatch,
  result: CallResult & { readonly round: number },
): Awaitable<CompletedCall> {
  const { callId, name, args } = call;
  const { durationMs, round } = result;
  const output = checkControl(result.output);
  const record = { callId, name, args, output, durationMs };
  if (turn.session.plugins.slotOwner(PROJECTOR) !== undefined) return project(turn, record, round);
  return { ...record, modelReturn: projectToolOutput({ callId, toolName: name, output }) };
}

/** A switch to a frame that could not be opened is a failed call, so that it does not fail the commit of the turn. */
function checkControl(output: ToolOutput): ToolOutput {
  if (output.control?.kind !== "switch_frame") return output;
  try {
    decodeAppendNodes(output.control.nodes, "switchFrame.nodes");
    return output;
  } catch (thrown) {
    return toolFailure({ code: "invalid_tool_output", class: "internal", message: messageOf(thrown) });
  }
}

/** What a projector shows the model; one that fails is shown as its error, and the call stands. */
async function project(
  turn: TurnRun,
  record: Omit<CompletedCall, "modelReturn">,
  round: number,
): Promise<CompletedCall> {
  const { plugins, id } = turn.session;
  const { name: toolName, ...shown } = record;
  const ask = async (): Promise<ModelToolReturn> => {
    try {
      return await plugins.projectToolResult({ sessionId: id, toolName, ...shown });
    } catch (thrown) {
      return { callId: record.callId, toolName, parts: [{ kind: "text", text: messageOf(thrown) }] };
    }
  };
  const effect: EffectOf<ModelToolReturn> = {
    key: `${round}.project.${record.callId}`,
    kind: "hook_phase",
    ended: async () => unprojected(record),
  };
  return { ...record, modelReturn: await performEffect(turn, effect, ask) };
}

/** A result of a turn that is ending that no projector has seen: the model is told how the call ended, and no more. */
function unprojected({
  callId,
  name,
  output,
}: Pick<CompletedCall, "callId" | "name" | "output">): ModelToolReturn {
  const { kind } = output.outcome;
  const isMade = kind === "success";
  const text = isMade
    ? `The call of ${name} finished. The turn ended before its result was shown.`
    : `The call of ${name} ended as ${kind === "failure" ? output.outcome.code : kind}.`;
  return { callId, toolName: name, parts: [{ kind: "text", text }] };
}

function recordOf({ callId, name, args, output, durationMs }: CompletedCall): ToolCallRecord {
  return { callId, name, args, output, durationMs };
}

function parentOf({ parentCallId }: DispatchOptions): { readonly parentCallId?: string } {
  return parentCallId === undefined ? {} : { parentCallId };
}

// Running a call: attempts, the wait for a result that comes later, and the hooks after it.
//   TA1  one attempt is one effect, with the hooks after it and the attachments of its result inside. A tool that only
//        calls others is none: its calls are.
//   TA2  all attempts of a call share its idempotency key and its completion key.
//   TA3  how long a call took is recorded with its effects, so that every run of the turn says the same.
//   TA5  calls run at once, but from the moment a call's state is applied until its outcome is known no other one's is:
//        what is recorded of one call never holds what another, which a crash may still cut, has added.
//   TA4  what a tool does after its attempt has ended, or after its call was given up, does not count.

import { isPromise } from "../base/deferred.ts";
import { MarlingError } from "../base/errors.ts";
import { LinkedSignal } from "../base/linked-signal.ts";
import { canonicalJson } from "../model/json.ts";
import type { CompletedCall } from "../model/tool-call.ts";
import {
  isPendingResult,
  type PendingResult,
  pendingResult,
  reviveToolOutput,
  type ToolOutput,
  toolCancelled,
  toolFailure,
} from "../model/tool-output.ts";
import type { Awaitable } from "../plugin/hooks.ts";
import type { ExecutableCall, NestedCall, NestedReply, ToolContext } from "../tool/contract.ts";
import { runAttempts } from "../tool/dispatch.ts";
import { failureFromThrown, thrownBehind } from "../tool/output.ts";
import { afterCall, hasAfterCall } from "./after-call.ts";
import { keepAttachments } from "./attachments.ts";
import { awaitCompletion, completionName } from "./completion.ts";
import { askAboutCut, endedAttempt, isRepeatable, unknownOutcome } from "./cut-attempt.ts";
import type { DispatchCall } from "./dispatch.ts";
import { nestedCalls } from "./nested-calls.ts";
import type { ReadyCall } from "./prepare-call.ts";
import { shutdownIn } from "./shutdown-fault.ts";
import { performTimer } from "./timer.ts";
import { toolContext } from "./tool-context.ts";
import { ToolLimit } from "./tool-limit.ts";
import { TracedToolAttempt } from "./trace-tool.ts";
import { TurnParked } from "./turn-parked.ts";
import {
  adoptInner,
  attemptKey,
  type EffectOf,
  joinScope,
  performEffect,
  scopeOf,
  type TurnRun,
} from "./turn-run.ts";

export interface CallOptions {
  readonly round: number;
  /** Whether a wait may put the turn to sleep: there is no code in memory that has to be there when it is over. */
  readonly canPark: boolean;
  /** Whether the call was given up. */
  isAbandoned(): boolean;
  /** Runs calls that the tool makes. */
  callTools(
    turn: TurnRun,
    calls: readonly DispatchCall[],
    options: { readonly canPark: boolean },
  ): Promise<readonly CompletedCall[]>;
}

export interface CallResult {
  readonly output: ToolOutput;
  readonly durationMs: number;
}

/** What the attempts of one call share. */
interface CallRun {
  readonly turn: TurnRun;
  readonly ready: ReadyCall;
  readonly options: CallOptions;
  readonly signal: LinkedSignal;
  /** The scope of the calls that an orchestrating tool makes; its attempts share it. */
  readonly calls: TurnRun | undefined;
  completionKey: string | undefined;
  /** Wall time at which a tool said that its result comes later. */
  pendingSince: number;
  durationMs: number;
}

/** One attempt while it runs. */
interface Attempt {
  readonly run: CallRun;
  readonly scope: TurnRun;
  readonly number: number;
  readonly limit: ToolLimit;
  readonly nestedIds: Set<string>;
  /** How long the calls it made took, those made at once counted as the longest of them. */
  nestedMs: number;
  isOver: boolean;
  /** Set when a call it made put the turn to sleep: whatever the tool makes of that, the turn sleeps. */
  parked: TurnParked | undefined;
  /** Lets the next call apply its state. */
  release: (() => void) | undefined;
}

/** What an attempt came to. Plain JSON. */
type Attempted = { readonly durationMs: number } & (
  | { readonly output: ToolOutput }
  | { readonly pending: PendingResult; readonly since: number }
);

export async function runCall(turn: TurnRun, ready: ReadyCall, options: CallOptions): Promise<CallResult> {
  const signal = new LinkedSignal(turn.control.signal);
  const run: CallRun = {
    turn,
    ready,
    options,
    signal,
    calls: ready.manifest.isOrchestrating === true ? bundleOf(turn, ready, options) : undefined,
    completionKey: undefined,
    pendingSince: 0,
    durationMs: 0,
  };
  try {
    const result = await (ready.manifest.retry === undefined ? attempt(run, 1) : attemptAll(run));
    if (run.calls !== undefined) await joinCalls(run, run.calls);
    if (!isPendingResult(result)) {
      if (run.completionKey !== undefined) await endCompletion(run);
      return { output: result, durationMs: run.durationMs };
    }
    const { round, canPark } = options;
    const wait = { pending: result, since: run.pendingSince, round, signal, canPark };
    const { output, durationMs } = await awaitCompletion(turn, ready, wait);
    return { output, durationMs: run.durationMs + durationMs };
  } finally {
    signal.release();
  }
}

/** A scope that encloses the calls of an orchestrating tool, as that of an attempt encloses those of another tool. */
function bundleOf(turn: TurnRun, { call }: ReadyCall, { round }: CallOptions): TurnRun {
  return scopeOf(turn, { within: attemptKey(call.callId, round, 1) });
}

/** The calls of an orchestrating tool are over: those of an earlier run that this run did not make still count. */
async function joinCalls({ turn, ready, options }: CallRun, calls: TurnRun): Promise<void> {
  await adoptInner(calls, attemptKey(ready.call.callId, options.round, 1));
  joinScope(turn, calls);
}

/** Attempts, as many as the policy of the tool allows. */
async function attemptAll(run: CallRun): Promise<ToolOutput | PendingResult> {
  const { control } = run.turn;
  let last: ToolOutput | PendingResult | undefined;
  try {
    const { result } = await runAttempts({
      policy: run.ready.manifest.retry,
      attempt: async (number) => {
        last = await attempt(run, number);
        return last;
      },
      sleep: (ms, next) => pause(run, ms, next),
      signal: control.signal,
    });
    return result;
  } catch (thrown) {
    if (last === undefined || control.ending === undefined || thrown !== control.ending) throw thrown;
    return last;
  }
}

/** A call that took a key was answered at once: whoever has the key is told that it is over. */
async function endCompletion({ turn, ready }: CallRun): Promise<void> {
  const { parts } = turn.session;
  await parts.waits.end({ ...completionName(turn, ready.call.callId), lease: turn.lease });
}

async function attempt(run: CallRun, number: number): Promise<ToolOutput | PendingResult> {
  const { turn, ready, options } = run;
  const { manifest, call } = ready;
  const told = tracedAttempt(run, number);
  const effect: EffectOf<Attempted> = {
    key: attemptKey(call.callId, options.round, number),
    kind: "tool_attempt",
    asks: { tool: call.name, args: canonicalJson(call.args) },
    ...(isRepeatable(manifest) ? {} : { cut: (scope) => recoverCut(startAttempt(run, scope, number), told) }),
    ...(told === undefined ? {} : { replayed: () => told.note("replayed") }),
    ended: () => endedAttempt(turn, ready, attemptKey(call.callId, options.round, number)),
  };
  const attempted =
    manifest.isOrchestrating === true
      ? await orchestrate(run, number)
      : await performEffect(turn, effect, (scope) => performAttempt(startAttempt(run, scope, number)));
  told?.end(attempted);
  run.durationMs += attempted.durationMs;
  if ("pending" in attempted) run.pendingSince = attempted.since;
  return "pending" in attempted ? pendingResult(attempted.pending) : reviveToolOutput(attempted.output);
}

function tracedAttempt({ turn, ready }: CallRun, attempt: number): TracedToolAttempt | undefined {
  const { trace } = turn.session;
  const { call, manifest } = ready;
  return trace && new TracedToolAttempt(trace.open(turn.span), { call, manifest, attempt });
}

function recoverCut(one: Attempt, told: TracedToolAttempt | undefined): Promise<Attempted> {
  told?.note("cut");
  return recoverAttempt(one);
}

/**
 * An attempt whose end is not known. If it took a completion key, whoever has it can still say how it ended; else plugins
 * are asked, and without an answer the model is told that nobody knows.
 */
async function recoverAttempt(one: Attempt): Promise<Attempted> {
  const { scope, run } = one;
  const { waits, clock } = scope.session.parts;
  const { call, manifest } = run.ready;
  if ((await waits.find(completionName(scope, call.callId))) !== undefined)
    return { pending: pendingResult(), since: clock.now(), durationMs: 0 };
  const decision = await askAboutCut(scope, run.ready);
  if (decision?.kind === "run_again") return performAttempt(one);
  const output = decision?.kind === "use" ? decision.output : unknownOutcome(call.name);
  return { output: await afterCall(scope, { call, manifest, output, durationMs: 0 }), durationMs: 0 };
}

function startAttempt(run: CallRun, scope: TurnRun, number: number): Attempt {
  const { turn, ready, signal } = run;
  return {
    run,
    scope,
    number,
    limit: new ToolLimit(ready.manifest, { call: signal, parts: turn.session.parts }),
    nestedIds: new Set(),
    nestedMs: 0,
    isOver: false,
    parked: undefined,
    release: undefined,
  };
}

async function performAttempt(one: Attempt): Promise<Attempted> {
  const { clock } = one.scope.session.parts;
  if (one.scope.control.isCancelled)
    return { output: toolCancelled("The turn was cancelled before the call."), durationMs: 0 };
  const startedAt = clock.monotonic();
  try {
    const result = await execute(one);
    const concluded = conclude(one, result, Math.round(clock.monotonic() - startedAt));
    return isPromise(concluded) ? await concluded : concluded;
  } finally {
    one.release?.();
  }
}

/** Runs a tool whose work is to call others. Its calls are effects; the hooks after it are one more. */
async function orchestrate(run: CallRun, number: number): Promise<Attempted> {
  const { turn, ready, options } = run;
  const one = startAttempt(run, run.calls ?? turn, number);
  const result = await execute(one);
  one.release?.();
  if (!turn.session.plugins.runner.has("tool_calls.after")) return conclude(one, result, one.nestedMs);
  const effect: EffectOf<Attempted> = {
    key: `${options.round}.after.${ready.call.callId}.${number}`,
    kind: "hook_phase",
    ended: () => endedBundle(one, result),
  };
  return performEffect(turn, effect, async (scope) => conclude({ ...one, scope }, result, one.nestedMs));
}

/** The result of an orchestrating tool in a turn that is ending: its hooks have seen every result that it is made of. */
async function endedBundle(
  { run, scope, nestedMs }: Attempt,
  result: ToolOutput | PendingResult,
): Promise<Attempted> {
  const { name } = run.ready.call;
  const output = isPendingResult(result) ? withoutKey(name) : result;
  return { output: await keepAttachments(scope.session.parts, output, name), durationMs: nestedMs };
}

async function execute(one: Attempt): Promise<ToolOutput | PendingResult> {
  const { run, scope } = one;
  const { call, manifest, payload } = run.ready;
  const { callId, name, args, grant } = call;
  const checked = run.ready.checked ?? (await run.ready.check());
  if (checked.kind === "refused") return checked.output;
  const carried = payload === undefined ? {} : { payload };
  const prepared: ExecutableCall = {
    toolId: manifest.id,
    name: manifest.name,
    callId,
    args,
    input: checked.input,
    ...carried,
  };
  const { plugins } = scope.session;
  const registry = scope.session.tools();
  const hasState = plugins.scopes.pluginIds.length > 0;
  const context = contextOf(one);
  const ask = (): Promise<ToolOutput | PendingResult> =>
    one.limit.answer(() =>
      grant === undefined
        ? registry.execute(prepared, context)
        : registry.executeGranted(grant, prepared, context),
    );
  const askAlone = async (): Promise<ToolOutput | PendingResult> => {
    const result = heard(one, refuseShutdown(one, await ask()));
    one.release = await scope.session.conclusions.acquire();
    return heard(one, result);
  };
  try {
    if (hasState) return await plugins.runTool(name, askAlone, { deltas: scope.deltas });
    return heard(one, refuseShutdown(one, await ask()));
  } catch (thrown) {
    if (thrown instanceof TurnParked) throw thrown;
    return refuseShutdown(one, failureFromThrown(thrown, name));
  } finally {
    one.isOver = true;
  }
}

/** What an answer counts as: nothing when the turn sleeps, and little when the call was given up. */
function heard({ run, parked }: Attempt, result: ToolOutput | PendingResult): ToolOutput | PendingResult {
  if (parked !== undefined) throw parked;
  return run.options.isAbandoned() ? toolCancelled("The call was given up.") : result;
}

/** A tool that failed because the runtime closes has not failed: its turn is left, or it was cancelled with it. */
function refuseShutdown(
  { scope: { control } }: Attempt,
  result: ToolOutput | PendingResult,
): ToolOutput | PendingResult {
  const thrown = isPendingResult(result) ? undefined : thrownBehind(result);
  if (thrown === undefined) return result;
  control.refuseLostBy(thrown);
  const isCut = control.isCancelled && shutdownIn(thrown) !== undefined;
  return isCut ? toolCancelled("The runtime was closed.") : result;
}

function conclude(
  one: Attempt,
  result: ToolOutput | PendingResult,
  durationMs: number,
): Awaitable<Attempted> {
  const { run, scope } = one;
  const { call, manifest } = run.ready;
  if (isPendingResult(result) && run.completionKey !== undefined) {
    return { pending: result, since: scope.session.parts.clock.now(), durationMs };
  }
  const output = isPendingResult(result) ? withoutKey(call.name) : result;
  if (run.options.isAbandoned() || !hasAfterCall(scope, output)) return { output, durationMs };
  return afterCall(scope, { call, manifest, output, durationMs }).then((shown) => ({
    output: shown,
    durationMs,
  }));
}

function withoutKey(name: string): ToolOutput {
  const message = `The tool ${name} returned a pending result without taking its completion key first.`;
  return toolFailure({
    code: "pending_tool_missing_completion_key",
    class: "internal",
    source: "runtime",
    message,
  });
}

async function pause({ turn, ready, options, signal }: CallRun, ms: number, next: number): Promise<void> {
  const key = `${options.round}.timer.${ready.call.callId}.${next}`;
  await performTimer(turn, { key, ms, signal: signal.signal });
}

function contextOf(one: Attempt): ToolContext {
  const { run, scope, number, limit } = one;
  const { call, manifest } = run.ready;
  const completionKey = async (): Promise<string> => {
    refuseEnded(one, "take a completion key");
    run.completionKey ??= await mintKey(scope, call.callId);
    return run.completionKey;
  };
  const callTools = (calls: readonly NestedCall[]): Promise<readonly NestedReply[]> => callNested(one, calls);
  const { round } = run.options;
  const ended = (what: string): void => refuseEnded(one, what);
  const init = { scope, call, manifest, round, number, limit, completionKey, callTools };
  return toolContext({ ...init, refuseEnded: ended });
}

async function mintKey(scope: TurnRun, callId: string): Promise<string> {
  const { parts } = scope.session;
  scope.control.refuseLost();
  return parts.waits.mint({
    ...completionName(scope, callId),
    kind: "completion",
    lease: scope.lease,
  });
}

async function callNested(one: Attempt, calls: readonly NestedCall[]): Promise<readonly NestedReply[]> {
  refuseEnded(one, "call other tools");
  const { run, scope, number, nestedIds } = one;
  const { callId } = run.ready.call;
  const parentCallId = number === 1 ? callId : `${callId}:attempt_${number}`;
  const wanted = nestedCalls(calls, { parentCallId, from: nestedIds.size, taken: nestedIds });
  const canPark = run.options.canPark && run.ready.manifest.isOrchestrating === true;
  const calling = (): Promise<readonly CompletedCall[]> => run.options.callTools(scope, wanted, { canPark });
  const replies = await one.limit.waitFor(calling).catch((thrown: unknown) => {
    if (thrown instanceof TurnParked) one.parked = thrown;
    throw thrown;
  });
  one.nestedMs += Math.max(0, ...replies.map(({ durationMs }) => durationMs));
  return replies;
}

function refuseEnded({ run, isOver }: Attempt, what: string): void {
  if (!isOver && !run.options.isAbandoned()) return;
  const { callId, name } = run.ready.call;
  const message = `tool ${name}: call ${callId} has ended and can no longer ${what}; await it before execute returns`;
  throw new MarlingError("stale_scope", message, { details: { callId, tool: name } });
}

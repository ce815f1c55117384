// One model call of a round: asked, streamed, tried again by decision, and handed to the machine as an outcome.
//   MC1  the stream-finished hooks are told once how a call ended, and once for each attempt that was given up before.
//   MC2  every attempt leaves a record with what it used, those included that failed, were reset or broken by a hook.
//   MC3  a call that an earlier run made is shown again as what counts of it: its last attempt, with the reasoning and
//        the text that hooks let through, and nothing of attempts that were given up.

import { unreachable } from "../base/unreachable.ts";
import type { ModelRequest } from "../llm/contract.ts";
import type { ModelOutcome, ModelResponse, ResponsePart } from "../model/model-response.ts";
import { RAW_ANSWER_VERSION } from "../model/outcome-version.ts";
import type { ModelCallRecord } from "../model/turn.ts";
import { NO_USAGE } from "../model/usage.ts";
import type { StreamFinishReason } from "../plugin/hook-context.ts";
import { serviceView } from "../plugin/host-services.ts";
import type { ModelCallResult, TurnEffect, TurnRecord } from "../turn/effect.ts";
import {
  finishAnswer,
  type HowItEnded,
  hasAnswerHooks,
  hookUnrecorded,
  howItFailed,
  type LiveAnswer,
  type RecordedCall,
  showAgain,
  showAnswer,
} from "./answer-hooks.ts";
import { callPort } from "./call-port.ts";
import { finishStream } from "./finish-stream.ts";
import { modelOf } from "./model-binding.ts";
import { decideOnFailure, FIRST_ATTEMPT, type RetryPlan } from "./model-error.ts";
import { buildRequest, patchRequest } from "./model-request.ts";
import { ModelStream, type StreamEnd } from "./model-stream.ts";
import type { ModelBinding } from "./parts.ts";
import { hostServices } from "./services.ts";
import { reach } from "./session-reach.ts";
import type { TraceSpan } from "./session-trace.ts";
import { callSlot } from "./slot-call.ts";
import { spend } from "./spending.ts";
import { type AttemptEnd, modelCallPayload, TracedAttempt } from "./trace-model.ts";
import { performEffect, showRecords, type TurnRun, viewOf } from "./turn-run.ts";
import { processServices } from "./work-host.ts";

type ModelEffect = Extract<TurnEffect, { kind: "model_call" }>;

interface ModelCall {
  readonly round: number;
  readonly records: readonly TurnRecord[];
  /** What its attempts came to, oldest first. */
  readonly made: ModelCallRecord[];
  readonly span: TraceSpan | undefined;
  /** The attempt whose answer waits for its hooks. */
  live: LiveAnswer | undefined;
}

interface Attempt {
  readonly span: TraceSpan | undefined;
  readonly number: number;
  readonly round: number;
  readonly binding: ModelBinding;
  readonly request: ModelRequest;
}

/** What a call or an attempt came to. Without a reason no stream was begun, or its end is not decided yet. */
interface Ended<Result extends ModelCallResult = ModelCallResult> {
  readonly result: Result;
  readonly reason?: Exclude<StreamFinishReason, "attempt_reset">;
  /** The texts that observers were shown; absent when they are the text of the response. */
  readonly prose?: readonly string[];
  /** Set when hooks of the answer are still to run. */
  readonly live?: LiveAnswer;
}

export async function performModelCall(
  turn: TurnRun,
  effect: ModelEffect,
  records: readonly TurnRecord[],
): Promise<ModelCallResult> {
  const { key, kind, round } = effect;
  const made: ModelCallRecord[] = [];
  const span = turn.session.trace?.open();
  const call: ModelCall = { round, records, made, span, live: undefined };
  const { model } = turn.session.policy;
  let isReplayed = false;
  const replayed = (recorded: RecordedCall): void => {
    isReplayed = true;
    if (recorded.raw === undefined) showAgain(turn, recorded, { round });
    else made.push(...recorded.calls);
  };
  // Not the model: a session that is opened anew may have another one, which goes on from what was said.
  const asks = { messages: messageIds(records, turn.askedRecords) };
  const formerly = (): typeof asks => ({ messages: messageIds(records) });
  const version = ({ raw }: RecordedCall): number | undefined =>
    raw === undefined ? undefined : RAW_ANSWER_VERSION;
  turn.askedRecords = records.length;
  showRecords(turn, records);
  try {
    const effect = { key, kind, replayed, asks, formerly, version };
    const answered = await performEffect<RecordedCall>(turn, effect, (scope) => callModel(scope, call));
    const { raw, result: outcome } = answered;
    const recorded =
      raw === undefined || outcome.kind === "switch_frame"
        ? answered
        : await finishAnswer(turn, { round, raw, result: outcome, made, isReplayed, live: call.live });
    const { calls, result } = recorded;
    span?.close("model_call", modelCallPayload({ round, model, calls, result, replayed: isReplayed }));
    turn.log.modelCalls.push(...calls);
    spend(turn.session, calls);
    return result;
  } catch (thrown) {
    span?.close("model_call", modelCallPayload({ round, model, calls: made, replayed: false }));
    turn.log.modelCalls.push(...made); // What was paid for stays in the report, whatever ended the turn.
    throw thrown;
  }
}

/**
 * What the turn has added since its call before this one, or since it began. What was there by then was asked for with the
 * earlier calls, which are the same in every run or ended it.
 */
function messageIds(records: readonly TurnRecord[], from = 0): string {
  const ids: string[] = [];
  for (let index = from; index < records.length; index += 1) {
    const record = records[index];
    if (record?.kind === "message") ids.push(record.message.id);
  }
  return ids.join("\n");
}

async function callModel(turn: TurnRun, call: ModelCall): Promise<RecordedCall> {
  const { made, round } = call;
  let answered: Ended;
  try {
    answered = await tryModels(turn, call);
  } catch (thrown) {
    if (made.length > 0) await finishStream(turn, "provider_error");
    throw thrown;
  }
  const { reason, result, prose, live } = answered;
  const hasHooks = live !== undefined || hasAnswerHooks(turn);
  if (reason === undefined || result.kind === "switch_frame" || !hasHooks)
    return { result, ...(prose === undefined ? {} : { prose }), calls: made };
  const raw = { reason, isStreamed: live?.stream.hasText === true };
  if (!turn.session.plugins.recordsRawAnswers)
    return hookUnrecorded(turn, { round, raw, result, made, isReplayed: false, live });
  call.live = live;
  return { result, calls: [...made], raw }; // The hooks replace the last record of `made`.
}

async function tryModels(turn: TurnRun, call: ModelCall): Promise<Ended> {
  const { round, records } = call;
  const { plugins } = turn.session;
  let plan: RetryPlan = { ...FIRST_ATTEMPT, model: turn.session.policy.model };
  for (let number = 1; ; number += 1) {
    const binding = modelOf(turn.session, plan.model);
    const request = buildRequest(turn, records, { binding, round });
    const elsewhere = number === 1 && hasBeforeCall(turn) ? await beforeCall(turn, request, call) : undefined;
    if (elsewhere !== undefined) return { result: elsewhere };
    const patched = plugins.hasModelRequestHooks ? await applyRequestHooks(turn, request, round) : request;
    if (turn.control.isCancelled) return cancelledCall(number);
    const ask = { number, round, binding, request: patched, span: call.span };
    const ended = await attempt(turn, ask, call.made);
    if (ended.result.kind !== "failure") return ended;
    const { failure } = ended.result;
    const next = await decideOnFailure(turn, { failure, attempt: number, round, plan, records });
    if (next === undefined)
      return { ...ended, reason: failure.kind === "cancelled" ? "cancelled" : "provider_error" };
    await finishStream(turn, "attempt_reset");
    turn.emit({
      kind: "attempt_reset",
      round,
      attempt: number,
      reason: failure.message,
      retryAfterMs: next.waitMs,
    });
    if (!(await pause(turn, next.waitMs))) return cancelledCall(number + 1);
    plan = next;
  }
}

function hasBeforeCall({ session }: TurnRun): boolean {
  return session.plugins.protocolSession.beforeLlmCall !== undefined;
}

/** Lets the protocol go elsewhere instead. Once per call: another attempt is the same call. */
async function beforeCall(
  turn: TurnRun,
  request: ModelRequest,
  { round, records }: ModelCall,
): Promise<ModelCallResult | undefined> {
  const { session } = turn;
  const { protocolSession } = session.plugins;
  const services = hostServices(session, turn);
  const context = {
    sessionId: session.id,
    sessions: serviceView(services, "state"),
    sessionGraph: serviceView(services, "graph"),
    directCompletions: serviceView(services, "direct"),
    processes: processServices(session, (id) => reach(session, id), {
      parentInvocation: `${turn.turnId}.${round}.model_call`,
      scope: turn,
    }),
    state: viewOf(turn, records),
    latestPromptUsage: latestUsage(turn),
  };
  const site = {
    slot: "protocol.session",
    callback: "beforeLlmCall",
    code: "before_llm_call_failed",
  } as const;
  const action = await callSlot(session, site, () => protocolSession.beforeLlmCall?.(context, request));
  return action === undefined ? undefined : { kind: "switch_frame", key: action.key, task: action.task };
}

/** What the latest call that came to an end was sent, in this turn or before it. */
function latestUsage({ log, session }: TurnRun): ModelCallRecord["usage"] | undefined {
  return (
    log.modelCalls.findLast(({ outcome }) => outcome === "completed")?.usage ?? session.state.lastPromptUsage
  );
}

async function applyRequestHooks(turn: TurnRun, request: ModelRequest, round: number): Promise<ModelRequest> {
  const { plugins, id } = turn.session;
  return plugins.transformModelRequest({ sessionId: id, round, request }, patchRequest);
}

async function attempt(turn: TurnRun, ask: Attempt, made: ModelCallRecord[]): Promise<Ended<ModelOutcome>> {
  const { round, binding, number } = ask;
  const common = { round, attempt: number, model: binding.name };
  const stream = new ModelStream(turn, {
    round,
    onReset: ({ reason, retryAfterMs }, usage = NO_USAGE) => {
      made.push({ ...common, outcome: "failed", code: "attempt_reset", message: reason, usage });
      turn.emit({ kind: "attempt_reset", round, attempt: number, reason, retryAfterMs });
    },
  });
  const { trace, parts } = turn.session;
  const traced = trace && new TracedAttempt(trace, { ...ask, parent: ask.span });
  const recordOf = (how: HowItEnded): ModelCallRecord => ({
    ...common,
    ...how,
    usage: stream.usage ?? NO_USAGE,
  });
  const finish = (end: AttemptEnd, how: HowItEnded): void => {
    const record = recordOf(how);
    made.push(record);
    traced?.end(record, end);
    turn.emit({ kind: "model_call", phase: "finished", round, record });
  };
  turn.emit({ kind: "model_call", phase: "started", round, model: binding.name });
  try {
    const { signal } = stream;
    const sink = traced === undefined ? stream.sink : traced.sink(stream.sink);
    const end = await stream.settle(callPort(parts, ask, { sink, signal, blobs: parts.store.blobs }));
    const ended = endedBy(stream, end);
    if (ended.reason !== undefined && hasAnswerHooks(turn, stream)) {
      made.push(recordOf(howItEnded(ended)));
      return { ...ended, live: { stream, trace: (record, result) => traced?.end(record, result) } };
    }
    const shown = showEnded(turn, ended, stream);
    finish(ended.result, howItEnded(ended));
    return { ...ended, ...shown };
  } catch (thrown) {
    finish({ kind: "thrown", thrown }, howItFailed(thrown));
    throw thrown;
  }
}

/** What an attempt came to, as the stream hooks left it. */
function endedBy(stream: ModelStream, end: StreamEnd): Ended<ModelOutcome> {
  switch (end.kind) {
    case "cancelled":
      return {
        result: { kind: "response", response: { ...spoken(stream), finish: "cancelled" } },
        reason: "cancelled",
      };
    case "aborted":
      return { result: { kind: "response", response: spoken(stream) }, reason: "aborted" };
    case "failure":
      return { result: { ...end, failure: { ...end.failure, usage: stream.usage ?? NO_USAGE } } };
    case "response":
      return { result: { kind: "response", response: asSeen(end.response, stream) }, reason: "complete" };
    default:
      return unreachable(end);
  }
}

function showEnded(turn: TurnRun, { result, reason }: Ended, stream: ModelStream): Pick<Ended, "prose"> {
  const isWhole = result.kind === "response" && reason === "complete";
  return isWhole ? showAnswer(turn, result.response, stream) : {};
}

/** What was said before the stream ended early. */
function spoken(stream: ModelStream): ModelResponse {
  const { text, usage = NO_USAGE } = stream;
  return { parts: text === "" ? [] : [{ kind: "text", text }], usage, finish: "stop" };
}

/** The response with the text that watchers saw, where hooks made another text of it. */
function asSeen(response: ModelResponse, stream: ModelStream): ModelResponse {
  const { usage = response.usage } = stream;
  if (!stream.isHooked || !stream.hasText) return { ...response, usage };
  const { text } = stream;
  const said = response.parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
  return { ...response, usage, parts: said === text ? response.parts : withText(response.parts, text) };
}

/** One text in the place of the first, or behind the reasoning when there was none. */
function withText(parts: readonly ResponsePart[], text: string): readonly ResponsePart[] {
  const first = parts.findIndex((part) => part.kind === "text");
  const place = first >= 0 ? first : parts.filter((part) => part.kind === "reasoning").length;
  const isOther = (part: ResponsePart): boolean => part.kind !== "text";
  const shown: ResponsePart = { ...(first < 0 ? {} : parts[first]), kind: "text", text };
  return [...parts.slice(0, place).filter(isOther), shown, ...parts.slice(place).filter(isOther)];
}

function howItEnded({ result, reason }: Ended<ModelOutcome>): HowItEnded {
  if (result.kind === "response") {
    const outcome = reason === "aborted" || reason === "cancelled" ? reason : "completed";
    return { outcome, finish: result.response.finish };
  }
  const { kind, code = kind, message } = result.failure;
  return { outcome: kind === "cancelled" ? "cancelled" : "failed", code, message };
}

async function pause(turn: TurnRun, waitMs: number): Promise<boolean> {
  if (waitMs > 0) {
    const { signal } = turn.control;
    await turn.session.parts.clock.sleep(waitMs, { signal }).catch((thrown: unknown) => {
      if (!signal.aborted) throw thrown;
    });
  }
  return !turn.control.isCancelled;
}

/** The turn was cancelled before the attempt with this number began. */
function cancelledCall(number: number): Ended {
  const failure = { kind: "cancelled", message: "the turn was cancelled", retryable: false } as const;
  return { result: { kind: "failure", failure }, ...(number === 1 ? {} : { reason: "cancelled" }) };
}

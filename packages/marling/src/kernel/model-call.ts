// One model call of a round: asked, streamed, tried again by decision, and handed to the machine as an outcome.
//   MC1  the stream-finished hooks are told once how a call ended, and once for each attempt that was given up before.
//   MC2  every attempt leaves a record with what it used, those included that failed, were reset or broken by a hook.
//   MC3  a call that an earlier run made is shown again as what counts of it: its last attempt, with the reasoning and
//        the text that hooks let through, and nothing of attempts that were given up.

import { isPromise } from "../base/deferred.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import type { ModelRequest } from "../llm/contract.ts";
import type { ModelOutcome, ModelResponse, ResponsePart } from "../model/model-response.ts";
import { visibleTexts } from "../model/model-response.ts";
import type { ModelCallRecord } from "../model/turn.ts";
import { NO_USAGE } from "../model/usage.ts";
import type { StreamFinishReason } from "../plugin/hook-context.ts";
import type { Awaitable } from "../plugin/hooks.ts";
import { serviceView } from "../plugin/host-services.ts";
import type { ModelCallResult, TurnEffect, TurnRecord } from "../turn/effect.ts";
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
import { callSlot, callSlotNow } from "./slot-call.ts";
import { spend } from "./spending.ts";
import { type AttemptEnd, modelCallPayload, TracedAttempt } from "./trace-model.ts";
import { emitPluginEvents, performEffect, showRecords, type TurnRun, viewOf } from "./turn-run.ts";
import { processServices } from "./work-host.ts";

type ModelEffect = Extract<TurnEffect, { kind: "model_call" }>;

interface ModelCall {
  readonly round: number;
  readonly records: readonly TurnRecord[];
  /** What its attempts came to, oldest first. */
  readonly made: ModelCallRecord[];
  readonly span: TraceSpan | undefined;
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
  /** What was shown, where it is not the text of the response. */
  readonly prose?: readonly string[];
}

/** A call as it is recorded. Plain JSON. */
interface RecordedCall extends Pick<Ended, "result" | "prose"> {
  readonly calls: readonly ModelCallRecord[];
}

export async function performModelCall(
  turn: TurnRun,
  effect: ModelEffect,
  records: readonly TurnRecord[],
): Promise<ModelCallResult> {
  const { key, kind, round } = effect;
  const made: ModelCallRecord[] = [];
  const span = turn.session.trace?.open();
  const { model } = turn.session.policy;
  let isReplayed = false;
  const replayed = (recorded: RecordedCall): void => {
    isReplayed = true;
    showAgain(turn, recorded, round);
  };
  // Not the model: a session that is opened anew may have another one, which goes on from what was said.
  const asks = { messages: messageIds(records, turn.askedRecords) };
  const formerly = (): typeof asks => ({ messages: messageIds(records) });
  turn.askedRecords = records.length;
  showRecords(turn, records);
  try {
    const recorded = await performEffect<RecordedCall>(
      turn,
      { key, kind, replayed, asks, formerly },
      (scope) => callModel(scope, { round, records, made, span }),
    );
    const { calls, result } = recorded;
    span?.close("model_call", modelCallPayload({ round, model, calls, result, replayed: isReplayed }));
    turn.log.modelCalls.push(...recorded.calls);
    spend(turn.session, recorded.calls);
    return recorded.result;
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
  try {
    const { reason, result, prose } = await tryModels(turn, call);
    const told = reason === undefined ? undefined : finishStream(turn, reason);
    if (told !== undefined) await told;
    return { result, ...(prose === undefined ? {} : { prose }), calls: call.made };
  } catch (thrown) {
    if (call.made.length > 0) await finishStream(turn, "provider_error");
    throw thrown;
  }
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
  const finish = (end: AttemptEnd, how: Omit<ModelCallRecord, keyof typeof common | "usage">): void => {
    const record = { ...common, ...how, usage: stream.usage ?? NO_USAGE };
    made.push(record);
    traced?.end(record, end);
    turn.emit({ kind: "model_call", phase: "finished", round, record });
  };
  turn.emit({ kind: "model_call", phase: "started", round, model: binding.name });
  try {
    const { signal } = stream;
    const sink = traced === undefined ? stream.sink : traced.sink(stream.sink);
    const end = await stream.settle(callPort(ask, { sink, signal, blobs: parts.store.blobs }));
    const concluded = conclude(turn, stream, end);
    const ended = isPromise(concluded) ? await concluded : concluded;
    finish(ended.result, howItEnded(ended));
    return ended;
  } catch (thrown) {
    const code = MarlingError.is(thrown) ? thrown.code : "runtime_error";
    finish({ kind: "thrown", thrown }, { outcome: "failed", code, message: messageOf(thrown) });
    throw thrown;
  }
}

/** What the attempt came to, after the response hooks; at once where there are none. */
function conclude(turn: TurnRun, stream: ModelStream, end: StreamEnd): Awaitable<Ended<ModelOutcome>> {
  switch (end.kind) {
    case "cancelled":
      return {
        result: { kind: "response", response: { ...spoken(stream), finish: "cancelled" } },
        reason: "cancelled",
      };
    case "aborted":
      return hasResponseHooks(turn)
        ? transformResponse(turn, spoken(stream)).then((result) => ({ result, reason: "aborted" }))
        : { result: { kind: "response", response: spoken(stream) }, reason: "aborted" };
    case "failure":
      return { result: { ...end, failure: { ...end.failure, usage: stream.usage ?? NO_USAGE } } };
    case "response": {
      const seen = asSeen(end.response, stream);
      return hasResponseHooks(turn)
        ? transformResponse(turn, seen).then(({ response }) => complete(turn, stream, response))
        : complete(turn, stream, seen);
    }
    default:
      return unreachable(end);
  }
}

/** A response that counts as it is; of its text, what watchers have not seen is shown. */
function complete(turn: TurnRun, stream: ModelStream, response: ModelResponse): Ended<ModelOutcome> {
  const shown = stream.hasText ? showRest(turn, response, stream) : showProse(turn, response, stream.round);
  return { result: { kind: "response", response }, reason: "complete", ...shown };
}

function hasResponseHooks({ session }: TurnRun): boolean {
  return session.plugins.hasAssistantResponseHooks;
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

/** The response after its hooks. What was used is not theirs to change. */
async function transformResponse(
  turn: TurnRun,
  response: ModelResponse,
): Promise<Extract<ModelOutcome, { kind: "response" }>> {
  const { plugins, id } = turn.session;
  const transforms = await plugins.transformAssistantResponse(id, response);
  for (const { pluginId, value } of transforms) emitPluginEvents(turn, pluginId, value.events ?? []);
  const last = transforms.at(-1)?.value.response ?? response;
  return { kind: "response", response: { ...last, usage: response.usage } };
}

/** What hooks held back from a stream and gave with the response: it goes on where the stream ended. */
function showRest(turn: TurnRun, { parts }: ModelResponse, stream: ModelStream): Pick<Ended, "prose"> {
  if (!stream.isHooked) return {};
  const said = parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
  if (said.startsWith(stream.text)) showText(turn, said.slice(stream.text.length), stream.round);
  return {};
}

/** Text that was not streamed is shown at once, through the prose projector. */
function showProse(turn: TurnRun, response: ModelResponse, round: number): Pick<Ended, "prose"> {
  const { session } = turn;
  const { proseProjector } = session.plugins;
  const site = { slot: "output.prose_projector", callback: "proseProjector", code: "hook_failed" } as const;
  const prose = visibleTexts(response).map((said) =>
    proseProjector === undefined ? said : callSlotNow(session, site, () => proseProjector(said)),
  );
  for (const text of prose) showText(turn, text, round);
  const said = response.parts.map((part) => (part.kind === "text" ? part.text : ""));
  return prose.join("") === said.join("") ? {} : { prose };
}

function showAgain(turn: TurnRun, { result, prose, calls }: RecordedCall, round: number): void {
  const record = calls.at(-1);
  if (record === undefined) return;
  turn.emit({ kind: "model_call", phase: "started", round, model: record.model });
  for (const part of result.kind === "response" ? result.response.parts : []) {
    if (part.kind === "reasoning" && part.text !== "")
      turn.emit({ kind: "reasoning_delta", round, text: part.text });
    if (part.kind === "text" && prose === undefined) showText(turn, part.text, round);
  }
  for (const text of prose ?? []) showText(turn, text, round);
  turn.emit({ kind: "model_call", phase: "finished", round, record });
}

function showText(turn: TurnRun, text: string, round: number): void {
  if (text !== "") turn.emit({ kind: "text_delta", round, text });
}

function howItEnded({
  result,
  reason,
}: Ended<ModelOutcome>): Pick<ModelCallRecord, "outcome" | "finish" | "code" | "message"> {
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

// One model call of a round: asked, streamed, tried again by decision, and handed to the machine as an outcome.

import { messageOf } from "../base/errors.ts";
import type { ModelRequest } from "../llm/contract.ts";
import type { ModelFailure, ModelOutcome, ModelResponse, ResponsePart } from "../model/model-response.ts";
import { visibleTexts } from "../model/model-response.ts";
import type { ModelCallRecord } from "../model/turn.ts";
import { NO_USAGE, isNoUsage } from "../model/usage.ts";
import type { StreamFinishReason } from "../plugin/hook-context.ts";
import type { ModelCallResult, TurnEffect, TurnRecord } from "../turn/effect.ts";
import { modelOf } from "./model-binding.ts";
import { type RetryPlan, decideOnFailure } from "./model-error.ts";
import { buildRequest, patchRequest } from "./model-request.ts";
import { ModelStream } from "./model-stream.ts";
import type { ModelBinding } from "./parts.ts";
import { type TurnRun, emitPluginEvents, performEffect, viewOf } from "./turn-run.ts";

type ModelEffect = Extract<TurnEffect, { kind: "model_call" }>;

interface Attempt {
  readonly number: number;
  readonly round: number;
  readonly binding: ModelBinding;
  readonly request: ModelRequest;
}

export async function performModelCall(turn: TurnRun, effect: ModelEffect, records: readonly TurnRecord[]): Promise<ModelCallResult> {
  const recorded = await performEffect(turn, effect, async () => {
    const calls: ModelCallRecord[] = [];
    const result = await callModel(turn, { round: effect.round, records }, calls);
    return { result, calls };
  });
  turn.log.modelCalls.push(...recorded.calls);
  return recorded.result;
}

async function callModel(turn: TurnRun, ask: { readonly round: number; readonly records: readonly TurnRecord[] }, calls: ModelCallRecord[]): Promise<ModelCallResult> {
  const { round, records } = ask;
  let plan: RetryPlan = { model: turn.session.policy.model };
  for (let number = 1; ; number += 1) {
    const binding = modelOf(turn.session, plan.model);
    const request = buildRequest(turn, records, { binding, round });
    const elsewhere = number === 1 ? await beforeCall(turn, request, records) : undefined;
    if (elsewhere !== undefined) return elsewhere;
    const patched = await applyRequestHooks(turn, request, round);
    const outcome = await attempt(turn, { number, round, binding, request: patched }, calls);
    if (outcome.kind === "response") return outcome;
    const next = await decideOnFailure(turn, { failure: outcome.failure, attempt: number, round, model: plan.model, records });
    await finishStream(turn, next === undefined ? "provider_error" : "attempt_reset");
    if (next === undefined) return outcome;
    turn.emit({ kind: "attempt_reset", round, attempt: number, reason: outcome.failure.message, retryAfterMs: next.waitMs });
    if (!(await pause(turn, next.waitMs))) return cancelledCall();
    plan = next;
  }
}

async function beforeCall(turn: TurnRun, request: ModelRequest, records: readonly TurnRecord[]): Promise<ModelCallResult | undefined> {
  const { session } = turn;
  const { protocolSession } = session.plugins;
  if (protocolSession.beforeLlmCall === undefined) return undefined;
  const action = await protocolSession.beforeLlmCall(
    {
      sessionId: session.id,
      sessions: session.services,
      sessionGraph: session.services,
      state: viewOf(turn, records),
      latestPromptUsage: session.state.lastPromptUsage,
    },
    request,
  );
  return action === undefined ? undefined : { kind: "switch_frame", key: action.key, task: action.task };
}

async function applyRequestHooks(turn: TurnRun, request: ModelRequest, round: number): Promise<ModelRequest> {
  const { plugins, id } = turn.session;
  if (!plugins.hasModelRequestHooks) return request;
  return plugins.transformModelRequest({ sessionId: id, round, request }, patchRequest);
}

async function attempt(turn: TurnRun, ask: Attempt, calls: ModelCallRecord[]): Promise<ModelOutcome> {
  const { round, binding, number } = ask;
  const stream = new ModelStream(turn, round);
  const resets: Promise<void>[] = [];
  stream.onReset = (reason, retryAfterMs) => {
    turn.emit({ kind: "attempt_reset", round, attempt: number, reason, retryAfterMs });
    resets.push(finishStream(turn, "attempt_reset"));
  };
  turn.emit({ kind: "model_call", phase: "started", round, model: binding.name });
  const call = binding.port.call(ask.request, { sink: stream.sink, signal: stream.signal }).catch(brokenPort);
  const settled = await stream.settle(call);
  await Promise.all(resets);
  const outcome = await conclude(turn, stream, settled);
  const record = recordOf(ask, outcome, { isAborted: settled === "aborted" });
  calls.push(record);
  turn.emit({ kind: "model_call", phase: "finished", round, record });
  return outcome;
}

/** What the attempt came to, after the stream-finished and response hooks. */
async function conclude(turn: TurnRun, stream: ModelStream, settled: ModelOutcome | "aborted"): Promise<ModelOutcome> {
  if (turn.control.isCancelled) {
    await finishStream(turn, "cancelled");
    return { kind: "response", response: { ...spoken(stream), finish: "cancelled" } };
  }
  if (settled === "aborted") {
    const outcome = await transformResponse(turn, spoken(stream));
    await finishStream(turn, "aborted");
    return outcome;
  }
  if (settled.kind === "failure") return settled;
  const outcome = await transformResponse(turn, asSeen(settled.response, stream));
  if (!stream.hasStreamed) showProse(turn, outcome, stream);
  await finishStream(turn, "complete");
  return outcome;
}

/** What was said before the stream ended early. */
function spoken(stream: ModelStream): ModelResponse {
  const parts = stream.hasStreamed ? [{ kind: "text", text: stream.text } as const] : [];
  return { parts, usage: stream.usage ?? NO_USAGE, finish: "stop" };
}

/** The response with the text that watchers saw, and with streamed usage where the final one is empty. */
function asSeen(response: ModelResponse, stream: ModelStream): ModelResponse {
  const usage = isNoUsage(response.usage) && stream.usage !== undefined ? stream.usage : response.usage;
  if (!stream.isHooked || !stream.hasStreamed) return usage === response.usage ? response : { ...response, usage };
  const first = response.parts.findIndex((part) => part.kind === "text");
  const parts = response.parts.flatMap((part, index): readonly ResponsePart[] => {
    if (part.kind !== "text") return [part];
    return index === first ? [{ ...part, text: stream.text }] : [];
  });
  return { ...response, usage, parts: first < 0 ? [{ kind: "text", text: stream.text }, ...parts] : parts };
}

async function transformResponse(turn: TurnRun, response: ModelResponse): Promise<ModelOutcome> {
  const { plugins, id } = turn.session;
  const transforms = await plugins.transformAssistantResponse(id, response);
  for (const { pluginId, value } of transforms) emitPluginEvents(turn, pluginId, value.events ?? []);
  return { kind: "response", response: transforms.at(-1)?.value.response ?? response };
}

/** Text that was not streamed is shown at once, through the prose projector. */
function showProse(turn: TurnRun, outcome: ModelOutcome, stream: ModelStream): void {
  if (outcome.kind === "failure") return;
  const { proseProjector } = turn.session.plugins;
  for (const text of visibleTexts(outcome.response)) {
    const shown = proseProjector === undefined ? text : proseProjector(text);
    if (shown !== "") turn.emit({ kind: "text_delta", round: stream.round, text: shown });
  }
}

/** Tells the hooks that a stream is over. Their failures are reported; the call's result stands. */
async function finishStream(turn: TurnRun, reason: StreamFinishReason): Promise<void> {
  const { plugins, id } = turn.session;
  if (!plugins.hasAssistantStreamFinishedHooks) return;
  try {
    await plugins.finishAssistantStream(id, reason);
  } catch (thrown) {
    const details = (thrown as { details?: { pluginId?: string } }).details;
    const plugin = details?.pluginId === undefined ? {} : { pluginId: details.pluginId };
    turn.log.issues.push({ kind: "plugin", code: "stream_finished_hook_failed", message: messageOf(thrown), hook: "output.stream_finished", ...plugin });
  }
}

function recordOf(ask: Attempt, outcome: ModelOutcome, { isAborted }: { readonly isAborted: boolean }): ModelCallRecord {
  const { round, number, binding } = ask;
  const common = { round, attempt: number, model: binding.name };
  if (outcome.kind === "failure") {
    const { kind, code = kind, message, usage = NO_USAGE } = outcome.failure;
    return { ...common, outcome: kind === "cancelled" ? "cancelled" : "failed", code, message, usage };
  }
  const { finish, usage } = outcome.response;
  const how = finish === "cancelled" ? "cancelled" : isAborted ? "aborted" : "completed";
  return { ...common, outcome: how, finish, usage };
}

async function pause(turn: TurnRun, waitMs: number): Promise<boolean> {
  if (waitMs > 0) await turn.session.parts.clock.sleep(waitMs, { signal: turn.control.signal }).catch(() => undefined);
  return !turn.control.isCancelled;
}

function brokenPort(thrown: unknown): ModelOutcome {
  const failure: ModelFailure = { kind: "unknown", code: "model_port_threw", message: messageOf(thrown), retryable: false };
  return { kind: "failure", failure };
}

function cancelledCall(): ModelOutcome {
  return { kind: "failure", failure: { kind: "cancelled", message: "the turn was cancelled", retryable: false } };
}

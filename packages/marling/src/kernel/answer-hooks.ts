// The hooks of a finished answer: `output.response`, `output.streamFinished` and the prose projector.
//   AH1  the answer is recorded before these hooks run, as the outcome of its model call. The result of the hooks is an
//        outcome of its own, with their state and events. Without such hooks there is one outcome.
//   AH2  after a crash the hooks run on the recorded answer, and the model is not asked. The text that was shown before is
//        settled by `attempt_reset`; then the result of the hooks is shown.
//   AH4  where a plugin says `recordsRaw: false` the hooks run inside the call, and its one outcome is their result.
//   AH3  a failure of the response hooks fails the call; its record keeps the usage of the answer.

import { MarlingError, messageOf } from "../base/errors.ts";
import {
  type ModelOutcome,
  type ModelResponse,
  type ResponsePart,
  visibleTexts,
} from "../model/model-response.ts";
import type { ModelCallRecord, PluginEvent } from "../model/turn.ts";
import type { StreamFinishReason } from "../plugin/hook-context.ts";
import type { ModelCallResult } from "../turn/effect.ts";
import { finishStream } from "./finish-stream.ts";
import type { ModelStream } from "./model-stream.ts";
import { callSlotNow } from "./slot-call.ts";
import type { AttemptEnd } from "./trace-model.ts";
import { emitPluginEvents, performEffect, type TurnRun } from "./turn-run.ts";

/** A model call as it is recorded. Plain JSON. */
export interface RecordedCall {
  readonly result: ModelCallResult;
  /** The texts that observers were shown; absent when they are the text of the response. */
  readonly prose?: readonly string[];
  readonly calls: readonly ModelCallRecord[];
  /** Set when the hooks of the answer have not run. Outcomes of versions before 3 never have it. */
  readonly raw?: RawAnswer;
}

interface RawAnswer {
  readonly reason: Exclude<StreamFinishReason, "attempt_reset">;
  /** The port streamed text. */
  readonly isStreamed: boolean;
}

/** The attempt that gave an answer in this run. */
export interface LiveAnswer {
  readonly stream: ModelStream;
  trace(record: ModelCallRecord, end: AttemptEnd): void;
}

export type HowItEnded = Pick<ModelCallRecord, "outcome" | "finish" | "code" | "message">;

/** The result of the hooks. Plain JSON; without a response the answer stands as it was recorded. */
interface HookedAnswer {
  readonly response?: ModelResponse;
  readonly prose?: readonly string[];
  readonly record: ModelCallRecord;
  readonly events?: readonly { readonly pluginId: string; readonly events: readonly PluginEvent[] }[];
}

export interface AnswerOf {
  readonly round: number;
  readonly raw: RawAnswer;
  readonly result: ModelOutcome;
  /** Attempts so far. The last one gave the answer; the hooks' result replaces its record. */
  readonly made: ModelCallRecord[];
  /** An earlier run gave the answer. */
  readonly isReplayed: boolean;
  /** Undefined for failures, and for answers of earlier runs. */
  readonly live: LiveAnswer | undefined;
}

/** Whether user code runs between an answer and the outcome of its call. */
export function hasAnswerHooks({ session: { plugins } }: TurnRun, stream?: ModelStream): boolean {
  if (plugins.hasAssistantResponseHooks || plugins.hasAssistantStreamFinishedHooks) return true;
  return stream !== undefined && !stream.hasText && plugins.proseProjector !== undefined;
}

/** Runs the hooks inside the model call, where an answer must not be recorded before them. */
export async function hookUnrecorded(turn: TurnRun, answer: AnswerOf): Promise<RecordedCall> {
  const { response, prose } = await runHooks(turn, answer);
  const result = response === undefined ? answer.result : ({ kind: "response", response } as const);
  return { result, ...(prose === undefined ? {} : { prose }), calls: answer.made };
}

/** Runs the hooks on a recorded answer, or takes their recorded result. */
export async function finishAnswer(turn: TurnRun, answer: AnswerOf): Promise<RecordedCall> {
  const { round, made, result } = answer;
  const callOf = ({ response, prose }: HookedAnswer): RecordedCall => ({
    result: response === undefined ? result : { kind: "response", response },
    ...(prose === undefined ? {} : { prose }),
    calls: made,
  });
  const effect = {
    key: `${round}.hook.output`,
    kind: "hook_phase",
    replayed: (hooked: HookedAnswer) => {
      made.splice(-1, 1, hooked.record);
      showAgain(turn, callOf(hooked), { round, events: hooked.events });
    },
  } as const;
  return callOf(await performEffect<HookedAnswer>(turn, effect, (scope) => runHooks(scope, answer)));
}

async function runHooks(turn: TurnRun, answer: AnswerOf): Promise<HookedAnswer> {
  const { round, raw, result, made, live, isReplayed } = answer;
  const last = made.at(-1) as ModelCallRecord; // Every answer has an attempt.
  if (isReplayed) showReset(turn, last);
  const finished = (record: ModelCallRecord): void =>
    turn.emit({ kind: "model_call", phase: "finished", round, record });
  if (result.kind === "failure") {
    if (isReplayed) finished(last);
    await finishStream(turn, raw.reason);
    return { record: last };
  }
  const end = (how: HowItEnded, told: AttemptEnd): ModelCallRecord => {
    const { finish: _raw, ...common } = last;
    const record = { ...common, ...how };
    made.splice(-1, 1, record);
    live?.trace(record, told);
    finished(record);
    return record;
  };
  let hooked: Omit<HookedAnswer, "record">;
  try {
    hooked = await hookResponse(turn, answer, result.response);
  } catch (thrown) {
    end(howItFailed(thrown), { kind: "thrown", thrown });
    await finishStream(turn, "provider_error");
    throw thrown;
  }
  const { response = result.response } = hooked;
  const record = end({ outcome: last.outcome, finish: response.finish }, { kind: "response", response });
  await finishStream(turn, raw.reason);
  return { ...hooked, record };
}

/** The answer after its response hooks, and shown as far as watchers have not seen it. */
async function hookResponse(
  turn: TurnRun,
  { round, raw, live }: AnswerOf,
  answer: ModelResponse,
): Promise<Omit<HookedAnswer, "record">> {
  const isHooked = raw.reason !== "cancelled" && turn.session.plugins.hasAssistantResponseHooks;
  const { response, events = [] } = isHooked ? await transformResponse(turn, answer) : {};
  const final = response ?? answer;
  const shown =
    live === undefined
      ? showWhole(turn, final, { round, raw })
      : raw.reason === "complete"
        ? showAnswer(turn, final, live.stream)
        : {};
  return {
    ...(response === undefined ? {} : { response }),
    ...shown,
    ...(events.length === 0 ? {} : { events }),
  };
}

/** The response after its hooks; undefined where they left it. What was used is not theirs to change. */
async function transformResponse(
  turn: TurnRun,
  response: ModelResponse,
): Promise<Pick<HookedAnswer, "response" | "events">> {
  const { plugins, id } = turn.session;
  const transforms = await plugins.transformAssistantResponse(id, response);
  const events = transforms.flatMap(({ pluginId, value }) =>
    value.events === undefined || value.events.length === 0 ? [] : [{ pluginId, events: value.events }],
  );
  for (const { pluginId, events: told } of events) emitPluginEvents(turn, pluginId, told);
  const last = transforms.at(-1)?.value.response ?? response;
  return { ...(last === response ? {} : { response: { ...last, usage: response.usage } }), events };
}

/** Shows what watchers have not seen of the text of a response. */
export function showAnswer(
  turn: TurnRun,
  response: ModelResponse,
  stream: ModelStream,
): Pick<RecordedCall, "prose"> {
  if (!stream.hasText) return showProse(turn, response, stream.round);
  if (!stream.isHooked) return {};
  const said = textOf(response.parts); // What hooks held back from the stream follows what they let through.
  if (said.startsWith(stream.text)) showText(turn, said.slice(stream.text.length), stream.round);
  return {};
}

/** Text that was not streamed is shown as a whole, through the prose projector. */
function showProse(turn: TurnRun, response: ModelResponse, round: number): Pick<RecordedCall, "prose"> {
  const { session } = turn;
  const { proseProjector } = session.plugins;
  const site = { slot: "output.prose_projector", callback: "proseProjector", code: "hook_failed" } as const;
  const prose = visibleTexts(response).map((said) =>
    proseProjector === undefined ? said : callSlotNow(session, site, () => proseProjector(said)),
  );
  for (const text of prose) showText(turn, text, round);
  return prose.join("") === textOf(response.parts) ? {} : { prose };
}

/** An answer of an earlier run whose hooks run in this one: nothing of it has been shown since the reset. */
function showWhole(
  turn: TurnRun,
  response: ModelResponse,
  { round, raw }: Pick<AnswerOf, "round" | "raw">,
): Pick<RecordedCall, "prose"> {
  showReasoning(turn, response.parts, round);
  if (!raw.isStreamed) return raw.reason === "complete" ? showProse(turn, response, round) : {};
  showText(turn, textOf(response.parts), round);
  return {};
}

/** The hooks run on an answer of an earlier run: what that run showed of it is void. */
function showReset(turn: TurnRun, { round, attempt, model }: ModelCallRecord): void {
  const reason = "the answer was recorded and its hooks were interrupted";
  turn.emit({ kind: "model_call", phase: "started", round, model });
  turn.emit({ kind: "attempt_reset", round, attempt, reason, retryAfterMs: 0 });
}

/** Shows a recorded call: its last attempt, with the text that hooks let through. */
export function showAgain(
  turn: TurnRun,
  { result, prose, calls }: RecordedCall,
  { round, events = [] }: { readonly round: number; readonly events?: HookedAnswer["events"] },
): void {
  const record = calls.at(-1);
  if (record === undefined) return;
  turn.emit({ kind: "model_call", phase: "started", round, model: record.model });
  for (const part of result.kind === "response" ? result.response.parts : []) {
    if (part.kind === "reasoning") showReasoning(turn, [part], round);
    if (part.kind === "text" && prose === undefined) showText(turn, part.text, round);
  }
  for (const { pluginId, events: told } of events) emitPluginEvents(turn, pluginId, told);
  for (const text of prose ?? []) showText(turn, text, round);
  turn.emit({ kind: "model_call", phase: "finished", round, record });
}

function showReasoning(turn: TurnRun, parts: readonly ResponsePart[], round: number): void {
  for (const part of parts)
    if (part.kind === "reasoning" && part.text !== "")
      turn.emit({ kind: "reasoning_delta", round, text: part.text });
}

function showText(turn: TurnRun, text: string, round: number): void {
  if (text !== "") turn.emit({ kind: "text_delta", round, text });
}

function textOf(parts: readonly ResponsePart[]): string {
  return parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
}

/** How an attempt ended that something was thrown out of. */
export function howItFailed(thrown: unknown): HowItEnded {
  const code = MarlingError.is(thrown) ? thrown.code : "runtime_error";
  return { outcome: "failed", code, message: messageOf(thrown) };
}

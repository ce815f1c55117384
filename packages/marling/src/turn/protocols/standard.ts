// The standard protocol: a model with native tool calls. Call the model, run what it asks for, call it again, until
// it answers with words.
//   T26  arguments that are not JSON stay what they are: the call goes out as malformed, never as `{}`.
//   T28  a failed call is told to the model and never ends the turn.
//   T31  there is exactly one checkpoint for each batch of calls, and the model is called only after it.
//   T32  the answer is in the history before anyone is asked whether the turn may end, so late input does not lose it.

import { messageOf } from "../../base/errors.ts";
import { type CallId, callId } from "../../model/ids.ts";
import { decodeJson } from "../../model/json.ts";
import type { Message, MessagePart, Role, ToolCallPart } from "../../model/message.ts";
import { type ModelResponse, type ResponsePart, responseText } from "../../model/model-response.ts";
import type { CompletedCall, PendingCall } from "../../model/tool-call.ts";
import { assistantParts } from "../assistant-parts.ts";
import type { DriverAction, DriverView, ProtocolDriver } from "../protocol.ts";
import { controlOutcome } from "../tool-control.ts";
import { toolResultParts } from "../tool-results.ts";

/** What the standard protocol says to the model by itself. */
export interface StandardDriverOptions {
  /** Recorded when the budget of model calls ends the turn. */
  readonly turnLimitText?: string;
  /** Before the one call beyond the budget that input arriving at the end is granted. */
  readonly finalRoundText?: string;
}

interface ReadCall {
  readonly part: ToolCallPart;
  readonly pending: PendingCall;
}

type ToolCallResponse = Extract<ResponsePart, { kind: "tool_call" }>;

const TURN_LIMIT_TEXT = "Turn limit reached: the turn ended before the model could answer these results.";
const EMPTY_RESPONSE = "the model answered with no text, no reasoning and no tool call";
/** With `call_` before it, what the strictest providers accept as the length of a call id. */
const LONGEST_ID_TAIL = 35;

/** The driver of the standard protocol. Pure, and the same for every turn. */
export function standardDriver(options: StandardDriverOptions = {}): ProtocolDriver {
  const { turnLimitText = TURN_LIMIT_TEXT, finalRoundText } = options;
  return Object.freeze({
    ...(finalRoundText === undefined ? {} : { finalRoundText }),
    prepareRound: () => [{ kind: "start_model" }] as const,
    onModelResponse,
    onToolResults: (view: DriverView, calls: readonly CompletedCall[]) =>
      onToolResults(view, calls, turnLimitText),
  });
}

function onModelResponse(view: DriverView, response: ModelResponse): readonly DriverAction[] {
  const calls = readCalls(view, response);
  const parts = assistantParts(
    response,
    calls.map(({ part }) => part),
  );
  const said = parts.length === 0 ? [] : [append(view, "assistant", parts)];
  if (calls.length > 0) return [...said, { kind: "start_tools", calls: calls.map(({ pending }) => pending) }];
  const text = responseText(response);
  const isBlank = text.trim() === "";
  if (isBlank && !parts.some((part) => part.kind === "reasoning") && !holdsToolResult(view.lastMessage)) {
    return emptyResponse();
  }
  return [...said, completion(isBlank ? "" : text)];
}

function onToolResults(
  view: DriverView,
  calls: readonly CompletedCall[],
  turnLimitText: string,
): readonly DriverAction[] {
  const results = append(view, "tool", calls.flatMap(toolResultParts));
  const outcome = controlOutcome(calls);
  if (outcome !== undefined) return [results, { kind: "finish", outcome }];
  if (view.isOverBudget) return [results, ...turnLimit(view, turnLimitText)];
  return [
    results,
    { kind: "advance_round" },
    { kind: "start_checkpoint", checkpoint: "after_work", onEmpty: { kind: "next_round" } },
  ];
}

function append(view: DriverView, role: Role, parts: readonly MessagePart[]): DriverAction {
  const message: Message = Object.freeze({ id: view.messageId(role), role, parts });
  return { kind: "append", records: [{ kind: "message", message }] };
}

function completion(text: string): DriverAction {
  const outcome = { kind: "finished", by: "message", text } as const;
  return { kind: "start_checkpoint", checkpoint: "before_completion", onEmpty: { kind: "finish", outcome } };
}

function emptyResponse(): readonly DriverAction[] {
  const issue = { kind: "model", code: "empty_response", message: EMPTY_RESPONSE, retryable: false };
  const { code, message } = issue;
  return [
    { kind: "emit", event: { kind: "error", issue } },
    { kind: "finish", outcome: { kind: "stopped", reason: "provider_error", code, message } },
  ];
}

function turnLimit(view: DriverView, text: string): readonly DriverAction[] {
  const message = `expected an answer within ${view.maxRounds} model calls, found tool calls in the last one`;
  return [
    append(view, "system", [{ kind: "text", text }]),
    { kind: "finish", outcome: { kind: "stopped", reason: "max_turns", message } },
  ];
}

function holdsToolResult(message: Message | undefined): boolean {
  return message?.parts.some((part) => part.kind === "tool_result") ?? false;
}

function readCalls(view: DriverView, response: ModelResponse): readonly ReadCall[] {
  const taken = new Set<string>();
  const isFree = (id: string): boolean => !taken.has(id) && !view.hasCall(id);
  return response.parts
    .filter((part) => part.kind === "tool_call")
    .map((part, index) => {
      const given = usableId(part.callId);
      const id = given !== undefined && isFree(given) ? given : derivedId(view, index, isFree);
      taken.add(id);
      return readCall(part, id);
    });
}

function readCall({ name, args: text, replay }: ToolCallResponse, id: CallId): ReadCall {
  const { args, malformed } = readArgs(text);
  const call = { callId: id, name, args };
  const kept = replay === undefined ? {} : { replay };
  if (malformed === undefined) return { part: { kind: "tool_call", ...call, ...kept }, pending: call };
  return { part: { kind: "tool_call", ...call, rawArgs: text, ...kept }, pending: { ...call, malformed } };
}

function readArgs(text: string): Pick<PendingCall, "args" | "malformed"> {
  if (text.trim() === "") return { args: {} };
  try {
    return { args: decodeJson(JSON.parse(text), "arguments") };
  } catch (thrown) {
    return { args: null, malformed: messageOf(thrown) };
  }
}

function usableId(raw: string): CallId | undefined {
  try {
    return callId(raw);
  } catch {
    // What a provider calls its calls is not ours to refuse: such a call gets a derived id.
    return undefined;
  }
}

/** An id for a call whose own is blank, unusable or taken: the same in every run, and other in every turn. */
function derivedId(view: DriverView, index: number, isFree: (id: string) => boolean): CallId {
  const base = `${view.turnId}_${view.round}_${index}`.replace(/[^A-Za-z0-9_-]/g, "_");
  for (let suffix = ""; ; suffix += "x") {
    const id = `call_${`${base}${suffix}`.slice(-LONGEST_ID_TAIL)}`;
    if (isFree(id)) return callId(id);
  }
}

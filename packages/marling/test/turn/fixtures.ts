// Short ways to write what reaches a turn. Nothing here decides anything.

import { type CallId, callId, effectKey, messageId } from "../../src/model/ids.ts";
import type { Json, JsonObject } from "../../src/model/json.ts";
import type { Message, MessagePart, Role } from "../../src/model/message.ts";
import type { FinishReason, ModelResponse, ResponsePart } from "../../src/model/model-response.ts";
import type { CompletedCall, ModelToolReturnPart } from "../../src/model/tool-call.ts";
import { type ToolOutput, toolSuccess } from "../../src/model/tool-output.ts";
import { NO_USAGE, type TokenUsage } from "../../src/model/usage.ts";
import type { EffectOutcome, ModelCallResult, TurnRecord } from "../../src/turn/effect.ts";
import type { TurnPlan } from "../../src/turn/state.ts";

export const key = effectKey;

export function message(id: string, role: Role, ...parts: readonly MessagePart[]): Message {
  return { id: messageId(id), role, parts };
}

export const user = (id: string, words: string): Message =>
  message(id, "user", { kind: "text", text: words });
export const system = (id: string, words: string): Message =>
  message(id, "system", { kind: "text", text: words });

export const record = (of: Message): TurnRecord => ({ kind: "message", message: of });

export function plan(overrides: Partial<TurnPlan> = {}): TurnPlan {
  return {
    turnId: "t1",
    maxRounds: 5,
    syncsEnvironment: true,
    records: [record(user("in", "hello"))],
    ...overrides,
  };
}

export const text = (words: string, replay?: JsonObject): ResponsePart => ({
  kind: "text",
  text: words,
  ...(replay === undefined ? {} : { replay }),
});

export const reasoning = (words: string, replay?: JsonObject): ResponsePart => ({
  kind: "reasoning",
  text: words,
  ...(replay === undefined ? {} : { replay }),
});

export const toolCall = (id: string, name: string, args = "{}", replay?: JsonObject): ResponsePart => ({
  kind: "tool_call",
  callId: id,
  name,
  args,
  ...(replay === undefined ? {} : { replay }),
});

export interface ResponseOptions {
  readonly finish?: FinishReason;
  readonly usage?: Partial<TokenUsage>;
}

export function response(parts: readonly ResponsePart[], options: ResponseOptions = {}): ModelResponse {
  const asks = parts.some((part) => part.kind === "tool_call");
  return {
    parts,
    usage: { ...NO_USAGE, ...options.usage },
    finish: options.finish ?? (asks ? "tool_use" : "stop"),
  };
}

export const answered = (parts: readonly ResponsePart[], options?: ResponseOptions): ModelCallResult => ({
  kind: "response",
  response: response(parts, options),
});

export interface CompletedOptions {
  readonly output?: ToolOutput;
  readonly shown?: readonly ModelToolReturnPart[];
  readonly args?: Json;
}

export function completed(id: string, name: string, options: CompletedOptions = {}): CompletedCall {
  const { output = toolSuccess("ok"), shown = [{ kind: "text", text: "ok" }], args = {} } = options;
  const call: CallId = callId(id);
  // Outputs reach the machine as plain JSON, from a journal or not.
  const plain: ToolOutput = JSON.parse(JSON.stringify(output));
  const modelReturn = { callId: id, toolName: name, parts: shown };
  return { callId: call, name, args, output: plain, modelReturn, durationMs: 3 };
}

/** One outcome of every kind, all under the same key. */
export function outcomeOf(kind: EffectOutcome["kind"], under: string): EffectOutcome {
  const outcomes: { readonly [K in EffectOutcome["kind"]]: Extract<EffectOutcome, { kind: K }> } = {
    environment: { kind: "environment", key: key(under) },
    model_call: { kind: "model_call", key: key(under), result: answered([text("hi")]) },
    tool_calls: { kind: "tool_calls", key: key(under), calls: [completed("c1", "add")] },
    code_cell: { kind: "code_cell", key: key(under), result: { output: "1", calls: [] } },
    checkpoint: { kind: "checkpoint", key: key(under), delivery: { messages: [] } },
  };
  return outcomes[kind];
}

// A model that answers from a script: for tests, examples and the first minute without a key.
//   SM1  each step answers one model call; running past the script is an error that says so.
//   SM2  call ids derive from the conversation, never from a counter of the process.
//   SM3  `requests` holds what was sent, oldest first, as plain JSON copies.

import type { ModelPort, ModelRequest, ModelSink } from "../llm/contract.ts";
import type { ModelFailureKind, ModelOutcome, ResponsePart } from "../model/model-response.ts";
import type { TokenUsage } from "../model/usage.ts";
import { NO_USAGE } from "../model/usage.ts";

export interface SayOptions {
  /** How the text is streamed; by default in one chunk, and not at all when empty. */
  readonly chunks?: readonly string[];
  readonly usage?: Partial<TokenUsage>;
  readonly reasoning?: string;
}

export interface CallOptions {
  readonly text?: string;
  readonly usage?: Partial<TokenUsage>;
  readonly reasoning?: string;
}

export type ScriptStep =
  | { readonly kind: "say"; readonly text: string; readonly options: SayOptions }
  | {
      readonly kind: "call_tools";
      readonly calls: readonly (readonly [name: string, args: unknown])[];
      readonly options: CallOptions;
    }
  | { readonly kind: "fail"; readonly failure: ScriptedFailure };

export interface ScriptedFailure {
  readonly kind: ModelFailureKind;
  readonly message?: string;
  readonly retryAfterMs?: number;
  readonly retryable?: boolean;
  /** Streamed before the failure. */
  readonly chunks?: readonly string[];
  readonly usage?: Partial<TokenUsage>;
}

/** Answers a request with a step. */
export type ScriptFunction = (request: ModelRequest) => ScriptStep | Promise<ScriptStep>;

export interface ScriptedModel extends ModelPort {
  readonly requests: readonly ModelRequest[];
}

/** Answers with a text. */
export function say(text: string, options: SayOptions = {}): ScriptStep {
  return { kind: "say", text, options };
}

/** Asks for one tool call. */
export function callTool(name: string, args: unknown = {}, options: CallOptions = {}): ScriptStep {
  return callTools([[name, args]], options);
}

/** Asks for several tool calls in one response. Arguments that are a string are sent as they are, JSON or not. */
export function callTools(
  calls: readonly (readonly [name: string, args: unknown])[],
  options: CallOptions = {},
): ScriptStep {
  return { kind: "call_tools", calls, options };
}

/** Fails the call as a provider would. */
export function failWith(failure: ScriptedFailure): ScriptStep {
  return { kind: "fail", failure };
}

/** A model that plays steps in order, or asks one function for each answer. */
export function scriptedModel(
  script: readonly (ScriptStep | ScriptFunction)[] | ScriptFunction,
): ScriptedModel {
  const requests: ModelRequest[] = [];
  const steps = typeof script === "function" ? undefined : [...script];
  const next = async (request: ModelRequest): Promise<ScriptStep | undefined> => {
    const step = steps === undefined ? (script as ScriptFunction) : steps.shift();
    return typeof step === "function" ? step(request) : step;
  };
  return {
    id: "scripted",
    requests,
    call: async (request, { sink, signal }) => {
      const copy = copyRequest(request);
      requests.push(copy);
      const step = await next(copy);
      if (signal.aborted) return cancelled();
      return step === undefined ? exhausted(requests.length) : play(step, copy, sink);
    },
  };
}

function copyRequest(request: ModelRequest): ModelRequest {
  return JSON.parse(JSON.stringify(request)) as ModelRequest;
}

function play(step: ScriptStep, request: ModelRequest, sink: ModelSink): ModelOutcome {
  switch (step.kind) {
    case "say":
      return saying(step.text, step.options, sink);
    case "call_tools":
      return calling(step.calls, step.options, { request, sink });
    case "fail":
      return failing(step.failure, sink);
  }
}

function saying(text: string, options: SayOptions, sink: ModelSink): ModelOutcome {
  const parts: ResponsePart[] = [];
  if (options.reasoning !== undefined) parts.push(reason(options.reasoning, sink));
  for (const chunk of options.chunks ?? [text]) stream(chunk, sink);
  parts.push({ kind: "text", text });
  return { kind: "response", response: { parts, usage: usage(options.usage), finish: "stop" } };
}

function calling(
  calls: readonly (readonly [name: string, args: unknown])[],
  options: CallOptions,
  { request, sink }: { readonly request: ModelRequest; readonly sink: ModelSink },
): ModelOutcome {
  const parts: ResponsePart[] = [];
  if (options.reasoning !== undefined) parts.push(reason(options.reasoning, sink));
  if (options.text !== undefined) {
    stream(options.text, sink);
    parts.push({ kind: "text", text: options.text });
  }
  const before = request.messages
    .flatMap((message) => message.parts)
    .filter((part) => part.kind === "tool_call").length;
  for (const [index, [name, args]] of calls.entries()) {
    const text = typeof args === "string" ? args : JSON.stringify(args);
    parts.push({ kind: "tool_call", callId: `call_${before + index + 1}`, name, args: text });
  }
  return { kind: "response", response: { parts, usage: usage(options.usage), finish: "tool_use" } };
}

function failing(failure: ScriptedFailure, sink: ModelSink): ModelOutcome {
  for (const chunk of failure.chunks ?? []) stream(chunk, sink);
  const { kind, message = `scripted failure: ${kind}`, retryAfterMs } = failure;
  const retryable = failure.retryable ?? RETRYABLE.has(kind);
  const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
  return {
    kind: "failure",
    failure: { kind, message, retryable, code: kind, usage: usage(failure.usage), ...wait },
  };
}

const RETRYABLE: ReadonlySet<ModelFailureKind> = new Set([
  "rate_limit",
  "overloaded",
  "network",
  "timeout",
  "truncated_stream",
]);

function reason(text: string, sink: ModelSink): ResponsePart {
  sink({ kind: "reasoning_delta", text });
  return { kind: "reasoning", text };
}

function stream(text: string, sink: ModelSink): void {
  if (text !== "") sink({ kind: "text_delta", text });
}

function usage(given: Partial<TokenUsage> | undefined): TokenUsage {
  return { ...NO_USAGE, ...given };
}

function exhausted(call: number): ModelOutcome {
  const message = `the script has no step for model call ${call}: expected a step, found the end of the script`;
  return {
    kind: "failure",
    failure: { kind: "invalid_request", code: "script_exhausted", message, retryable: false },
  };
}

function cancelled(): ModelOutcome {
  return {
    kind: "failure",
    failure: { kind: "cancelled", message: "the call was cancelled", retryable: false },
  };
}

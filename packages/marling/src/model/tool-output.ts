// How a tool call ended. Success, failure and cancellation are data; a turn goes on with each of them.

import { decodeJson, type Json } from "./json.ts";
import { encodeToolValue, type ToolValue } from "./tool-value.ts";

export type FailureClass =
  | "invalid_request"
  | "unavailable"
  | "permission_denied"
  | "timeout"
  | "execution"
  | "external"
  | "resource_limit"
  | "internal";
export type FailureSource = "runtime" | "tool" | "plugin" | "policy" | "cancellation";
export type RetryAdvice =
  | { readonly kind: "never" }
  | { readonly kind: "safe"; readonly afterMs?: number }
  | { readonly kind: "exhausted"; readonly attempts: number };

export interface ToolFailure {
  readonly kind: "failure";
  readonly class: FailureClass;
  readonly code: string;
  readonly message: string;
  readonly source: FailureSource;
  readonly retry: RetryAdvice;
  readonly raw?: ToolValue;
}

export type ToolOutcome =
  | { readonly kind: "success"; readonly value: ToolValue }
  | ToolFailure
  | {
      readonly kind: "cancelled";
      readonly message: string;
      readonly source: FailureSource;
      readonly raw?: ToolValue;
    };

/** A tool's wish about the turn as a whole; only that of a successful call counts. */
export type ToolControl =
  | { readonly kind: "finish"; readonly value: Json }
  | { readonly kind: "fail"; readonly failure: ToolFailure }
  | {
      readonly kind: "switch_frame";
      readonly key: string;
      readonly task: string;
      readonly nodes: readonly Json[];
    };

export interface ToolOutput {
  readonly outcome: ToolOutcome;
  readonly control?: ToolControl;
}

/** A result that arrives later, through the completion key that the tool took. */
export interface PendingResult {
  readonly kind: "pending";
  readonly deadlineMs?: number;
  readonly onTimeout: "error_as_result" | "fail_turn";
  readonly onCancel: "cancel_external_work" | "keep_external_work";
}

/** One call as the turn's report shows it: arguments after replacement, in call order, denied calls included. */
export interface ToolCallRecord {
  readonly callId: string;
  readonly name: string;
  readonly args: Json;
  readonly output: ToolOutput;
  readonly durationMs: number;
}

/** How a failure is written; everything but the message has a default. */
export interface ToolFailureInput {
  readonly message: string;
  readonly code?: string;
  readonly class?: FailureClass;
  readonly source?: FailureSource;
  readonly retry?: { readonly safe: boolean; readonly afterMs?: number };
  readonly raw?: unknown;
}

const OUTPUT: unique symbol = Symbol.for("marling.tool_output") as never;

/** Marks an object as an output, so that a tool may return any JSON of its own that looks like one. */
function mark<T extends object>(value: T): T {
  Object.defineProperty(value, OUTPUT, { value: true });
  return Object.freeze(value);
}

export function isToolOutput(value: unknown): value is ToolOutput {
  return typeof value === "object" && value !== null && OUTPUT in value && "outcome" in value;
}

export function isPendingResult(value: unknown): value is PendingResult {
  return typeof value === "object" && value !== null && OUTPUT in value && "kind" in value;
}

export function toolSuccess(value: unknown, control?: ToolControl): ToolOutput {
  const wire = encodeToolValue(value === undefined ? null : value);
  const outcome: ToolOutcome = Object.freeze({ kind: "success", value: wire });
  return mark({ outcome, ...(control === undefined ? {} : { control }) });
}

export function toolFailure(input: ToolFailureInput | string): ToolOutput {
  return mark({ outcome: failureOf(typeof input === "string" ? { message: input } : input) });
}

export function failureOf(input: ToolFailureInput): ToolFailure {
  const {
    message,
    code = "tool_error",
    class: failureClass = "execution",
    source = "tool",
    retry,
    raw,
  } = input;
  const advice: RetryAdvice = retry?.safe
    ? { kind: "safe", ...(retry.afterMs === undefined ? {} : { afterMs: retry.afterMs }) }
    : { kind: "never" };
  const rawValue = raw === undefined ? {} : { raw: encodeToolValue(raw) };
  return Object.freeze({
    kind: "failure",
    class: failureClass,
    code,
    message,
    source,
    retry: advice,
    ...rawValue,
  });
}

export function toolCancelled(message: string, source: FailureSource = "cancellation"): ToolOutput {
  const outcome: ToolOutcome = Object.freeze({ kind: "cancelled", message, source });
  return mark({ outcome });
}

export function pendingResult(options: Partial<Omit<PendingResult, "kind">> = {}): PendingResult {
  const { deadlineMs, onTimeout = "error_as_result", onCancel = "cancel_external_work" } = options;
  return mark({
    kind: "pending",
    onTimeout,
    onCancel,
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
  } as const);
}

/** Ends the turn with a value, after all calls of the batch are in the history. */
export function finishTurn(value: unknown): ToolOutput {
  const json = decodeJson(value === undefined ? null : value, "finishTurn");
  return toolSuccess(json, { kind: "finish", value: json });
}

/** Ends the turn as stopped, after all calls of the batch are in the history. */
export function failTurn(failure: ToolFailureInput | string): ToolOutput {
  const wanted = failureOf(typeof failure === "string" ? { message: failure } : failure);
  return toolSuccess(wanted.message, { kind: "fail", failure: wanted });
}

/** Goes on in a new frame with `task` as its input; blank keys and tasks are ignored. */
export function switchFrame(to: {
  readonly key: string;
  readonly task: string;
  readonly nodes?: readonly unknown[];
}): ToolOutput {
  const nodes = (to.nodes ?? []).map((node, index) => decodeJson(node, `switchFrame.nodes[${index}]`));
  return toolSuccess(null, { kind: "switch_frame", key: to.key, task: to.task, nodes });
}

/** An output back from plain JSON, marked again. */
export function reviveToolOutput(plain: ToolOutput): ToolOutput {
  const { outcome, control } = plain;
  return OUTPUT in plain ? plain : mark({ outcome, ...(control === undefined ? {} : { control }) });
}

export function isSuccess(output: ToolOutput): boolean {
  return output.outcome.kind === "success";
}

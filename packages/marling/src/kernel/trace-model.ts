// What the trace is told of model calls: sizes and digests of what was asked, and how it ended. Texts only for a sink that
// wants content, and then what the model was shown and said: parameters, options and headers of the request never.

import { sha256 } from "../base/digest.ts";
import type { ModelRequest, ModelSink } from "../llm/contract.ts";
import type { JsonObject } from "../model/json.ts";
import type { ModelOutcome } from "../model/model-response.ts";
import type { ModelCallRecord } from "../model/turn.ts";
import { addUsage, NO_USAGE, type TokenUsage } from "../model/usage.ts";
import type { TracePayloads, TraceRequest } from "../trace/contract.ts";
import type { ModelCallResult } from "../turn/effect.ts";
import type { ModelBinding } from "./parts.ts";
import { type SessionTrace, type TraceSpan, traceFailure } from "./session-trace.ts";

/** An attempt that is being traced. */
export class TracedAttempt {
  readonly #trace: SessionTrace;
  readonly #span: TraceSpan;
  readonly #binding: ModelBinding;
  readonly #request: ModelRequest;
  #firstTokenMs: number | undefined;
  #resets = 0;

  constructor(trace: SessionTrace, { parent, binding, request }: TracedAttemptInit) {
    this.#trace = trace;
    this.#span = trace.open(parent?.id);
    this.#binding = binding;
    this.#request = request;
  }

  /** A sink that notes when the first delta came. */
  sink(sink: ModelSink): ModelSink {
    return (part) => {
      if (part.kind === "attempt_reset") this.#resets += 1;
      if (this.#firstTokenMs === undefined && (part.kind === "text_delta" || part.kind === "reasoning_delta"))
        this.#firstTokenMs = this.#span.elapsedMs;
      sink(part);
    };
  }

  end(record: Omit<ModelCallRecord, "round"> & { readonly round?: number }, outcome: AttemptEnd): void {
    this.#trace.endStream();
    const { wantsContent } = this.#trace;
    this.#span.close("model_attempt", {
      ...(record.round === undefined ? {} : { round: record.round }),
      attempt: record.attempt,
      model: record.model,
      port: this.#binding.port.id,
      request: requestSize(this.#request),
      outcome: record.outcome,
      ...(record.finish === undefined ? {} : { finish: record.finish }),
      ...failureOf(outcome),
      usage: record.usage,
      resets: this.#resets,
      ...(this.#firstTokenMs === undefined ? {} : { firstTokenMs: this.#firstTokenMs }),
      ...evidenceOf(outcome),
      ...(wantsContent ? { content: contentOf(this.#request, record, outcome) } : {}),
    });
  }
}

export interface TracedAttemptInit {
  /** The call that it is an attempt of. */
  readonly parent: TraceSpan | undefined;
  readonly binding: ModelBinding;
  readonly request: ModelRequest;
}

/** What an attempt came to, or what was thrown out of it. */
export type AttemptEnd = ModelOutcome | { readonly kind: "thrown"; readonly thrown: unknown };

/** A call with everything its attempts came to. */
export interface EndedCall {
  readonly round?: number;
  readonly source?: string;
  readonly model: string;
  readonly calls: readonly Omit<ModelCallRecord, "round">[];
  readonly result?: ModelCallResult;
  readonly replayed: boolean;
}

/** What is told of a call as a whole. */
export function modelCallPayload(ended: EndedCall): TracePayloads["model_call"] {
  const { round, source, model, calls, result, replayed } = ended;
  const last = calls.at(-1);
  const how = result?.kind === "switch_frame" ? "switched" : (last?.outcome ?? "cancelled");
  return {
    ...(round === undefined ? {} : { round }),
    ...(source === undefined ? {} : { source }),
    model: last?.model ?? model,
    attempts: calls.length,
    outcome: how,
    ...(last?.finish === undefined ? {} : { finish: last.finish }),
    ...failureOf(result),
    usage: calls.reduce((sum, { usage }) => addUsage(sum, usage), NO_USAGE),
    replayed,
  };
}

/** A call that a plugin or a tool makes for itself: one attempt. */
export function tracedDirectCall(
  trace: SessionTrace,
  {
    parentId,
    source,
    ...ask
  }: Omit<TracedAttemptInit, "parent"> & { readonly source: string; readonly parentId: string | undefined },
): { sink(sink: ModelSink): ModelSink; end(outcome: AttemptEnd, usage: TokenUsage): void } {
  const parent = trace.open(parentId);
  const attempt = new TracedAttempt(trace, { ...ask, parent });
  const model = ask.binding.name;
  return {
    sink: (sink) => attempt.sink(sink),
    end: (outcome, streamed) => {
      const isDone = outcome.kind === "response";
      const failed = outcome.kind === "failure" ? (outcome.failure.usage ?? streamed) : streamed;
      const record = {
        attempt: 1,
        model,
        outcome: isDone ? "completed" : "failed",
        ...(isDone ? { finish: outcome.response.finish } : {}),
        usage: isDone ? outcome.response.usage : failed,
      } as const;
      attempt.end(record, outcome);
      const result = outcome.kind === "thrown" ? {} : { result: outcome };
      parent.close(
        "model_call",
        modelCallPayload({ model, source, calls: [record], ...result, replayed: false }),
      );
    },
  };
}

function failureOf(
  end: AttemptEnd | ModelCallResult | undefined,
): Pick<TracePayloads["model_attempt"], "failure"> {
  if (end?.kind === "thrown") return { failure: traceFailure(end.thrown) };
  if (end?.kind !== "failure") return {};
  const { kind, code = kind } = end.failure;
  return { failure: { kind, code } };
}

function evidenceOf(end: AttemptEnd): { readonly responseModel?: string; readonly responseId?: string } {
  if (end.kind !== "response") return {};
  const { model, responseId } = end.response.evidence ?? {};
  return {
    ...(typeof model === "string" ? { responseModel: model } : {}),
    ...(typeof responseId === "string" ? { responseId } : {}),
  };
}

function contentOf(
  { system, messages, tools }: ModelRequest,
  { message }: Pick<ModelCallRecord, "message">,
  end: AttemptEnd,
): JsonObject {
  const parts = end.kind === "response" ? { response: end.response.parts } : {};
  const content = { system, messages, tools: tools.map(({ name }) => name), ...parts };
  return { ...content, ...(message === undefined ? {} : { message }) } as unknown as JsonObject; // plain data all of it
}

/** Messages and lists of tools are measured once: a long history costs what is new in it. */
const MEASURED = new WeakMap<object, { readonly bytes: number; readonly digest: string }>();

function requestSize({ system, messages, tools }: ModelRequest): TraceRequest {
  const sent = messages.map(measure);
  const offered = measure(tools);
  const bytes = sent.reduce((sum, message) => sum + message.bytes, Buffer.byteLength(system) + offered.bytes);
  return {
    messages: messages.length,
    tools: tools.length,
    bytes,
    systemDigest: shortDigest(system),
    messagesDigest: shortDigest(sent.map(({ digest }) => digest).join("\n")),
    toolsDigest: offered.digest,
  };
}

function measure(value: object): { readonly bytes: number; readonly digest: string } {
  const known = MEASURED.get(value);
  if (known !== undefined) return known;
  const text = JSON.stringify(value);
  const measured = { bytes: Buffer.byteLength(text), digest: shortDigest(text) };
  MEASURED.set(value, measured);
  return measured;
}

function shortDigest(text: string): string {
  return sha256(text).slice(0, 16);
}

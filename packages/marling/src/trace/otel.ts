// Traces as OpenTelemetry spans, named by the GenAI semantic conventions: a turn is `invoke_agent`, a request to a model
// is `chat <model>`, a tool call is `execute_tool <tool>`.
//   TC40  a span begins and ends at the times of its record, and its parent is the span of what it was part of.
//   TC41  no text, argument or result is exported unless it is asked for; values of headers never are.
//   TC42  what was answered from the journal makes no span of its own: nobody was asked.

import {
  type Attributes,
  type Context,
  context,
  type HrTime,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { TraceHead, TraceRecord, TraceSink, TraceTurnOutcome } from "./contract.ts";
import {
  attemptAttributes,
  attemptContent,
  modelName,
  toolContent,
  turnContent,
  usageAttributes,
} from "./otel-attributes.ts";

export interface OtelTraceOptions {
  /** By default the tracer `marling` of the global provider. */
  readonly tracer?: Tracer;
  /** Whether texts, arguments and results become attributes; they do not by default. */
  readonly captureContent?: boolean;
  /** The name of the agent: spans are then `invoke_agent <name>`. */
  readonly agentName?: string;
  /** Whether each handler of a plugin is a span; it is not by default. */
  readonly hooks?: boolean;
}

export function otelTrace(options: OtelTraceOptions = {}): TraceSink {
  return new OtelTrace(options);
}

type RecordOf<Kind extends TraceRecord["kind"]> = TraceRecord<Kind>;

/** A turn that runs, with everything of it that has begun. */
interface LiveTurn {
  readonly span: Span;
  readonly below: Set<string>;
}

class OtelTrace implements TraceSink {
  readonly wantsContent: boolean;
  readonly #tracer: Tracer;
  readonly #agentName: string | undefined;
  readonly #tellsHooks: boolean;
  /** Spans that have begun, by the id of their record. */
  readonly #live = new Map<string, Span>();
  readonly #turns = new Map<string, LiveTurn>();
  /** Attempts whose call has not ended: only then it is known what the call was part of. */
  readonly #attempts = new Map<string, RecordOf<"model_attempt">[]>();

  constructor({ tracer, captureContent = false, agentName, hooks = false }: OtelTraceOptions) {
    this.#tracer = tracer ?? trace.getTracer("marling");
    this.wantsContent = captureContent;
    this.#agentName = agentName;
    this.#tellsHooks = hooks;
  }

  record(record: TraceRecord): void {
    switch (record.kind) {
      case "turn_started":
        this.#beginTurn(record);
        break;
      case "turn":
        this.#endTurn(record);
        break;
      case "tool_started":
        this.#beginTool(record);
        break;
      case "tool_attempt":
        this.#noteAttempt(record);
        break;
      case "tool_call":
        this.#endTool(record);
        break;
      case "model_attempt":
        this.#keepAttempt(record);
        break;
      case "model_call":
        this.#endModelCall(record);
        break;
      case "hook":
        if (this.#tellsHooks) this.#hook(record);
        break;
      case "commit":
        this.#event(record, "marling.commit", commitAttributes(record));
        break;
      case "effect":
        this.#event(record, `marling.${record.payload.effect}`, effectAttributes(record));
        break;
      default: // Rounds, recoveries and the words of plugins have no place in the conventions.
    }
  }

  #beginTurn(record: RecordOf<"turn_started">): void {
    const { payload, parentId } = record;
    const parent = parentId === undefined ? undefined : this.#live.get(parentId);
    const name = this.#agentName === undefined ? "invoke_agent" : `invoke_agent ${this.#agentName}`;
    const agent = this.#agentName === undefined ? {} : { "gen_ai.agent.name": this.#agentName };
    const attributes = {
      "gen_ai.operation.name": "invoke_agent",
      ...agent,
      ...common(record),
      "marling.recovery": payload.isRecovery,
      ...turnContent("gen_ai.input.messages", this.#content(payload.content)),
    };
    const where = parent === undefined ? context.active() : inside(parent);
    const span = this.#start(record, { name, kind: SpanKind.INTERNAL, attributes }, where);
    this.#turns.set(turnKey(record), { span, below: new Set([record.spanId]) });
  }

  #endTurn(record: RecordOf<"turn">): void {
    const turn = this.#turns.get(turnKey(record));
    const { outcome, usage, content, replays, rounds } = record.payload;
    if (turn === undefined) return;
    turn.span.setAttributes({
      ...usageAttributes(usage),
      "marling.outcome": outcome.kind,
      "marling.rounds": rounds,
      "marling.replays": replays,
      ...turnContent("gen_ai.output.messages", this.#content(content)),
    });
    const failed = turnFailure(outcome);
    if (failed !== undefined) fail(turn.span, failed);
    for (const id of turn.below) {
      this.#live.get(id)?.end(endOf(record));
      this.#live.delete(id);
    }
    this.#turns.delete(turnKey(record));
  }

  #beginTool(record: RecordOf<"tool_started">): void {
    const { name, callId } = record.payload;
    const attributes = {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
      "gen_ai.tool.call.id": callId,
      "gen_ai.tool.type": "function",
      ...common(record),
    };
    const begun = { name: `execute_tool ${name}`, kind: SpanKind.INTERNAL, attributes };
    this.#start(record, begun, this.#parentOf(record));
    this.#turns.get(turnKey(record))?.below.add(record.spanId);
  }

  #noteAttempt({ parentId = "", payload }: RecordOf<"tool_attempt">): void {
    const attributes = { "marling.tool.attempts": payload.attempt, "marling.replayed": payload.replayed };
    this.#live.get(parentId)?.setAttributes(attributes);
  }

  #endTool(record: RecordOf<"tool_call">): void {
    const span = this.#live.get(record.spanId);
    if (span === undefined) return;
    const { outcome, content } = record.payload;
    span.setAttributes({
      "marling.outcome": outcome.kind,
      ...toolContent(this.#content(content)),
    });
    if (outcome.kind === "failure") fail(span, outcome.code ?? "failure");
    span.end(endOf(record));
    this.#live.delete(record.spanId);
    this.#turns.get(turnKey(record))?.below.delete(record.spanId);
  }

  #keepAttempt(record: RecordOf<"model_attempt">): void {
    const { parentId = "" } = record;
    const kept = this.#attempts.get(parentId) ?? [];
    kept.push(record);
    this.#attempts.set(parentId, kept);
  }

  #endModelCall(record: RecordOf<"model_call">): void {
    const attempts = this.#attempts.get(record.spanId) ?? [];
    this.#attempts.delete(record.spanId);
    const where = this.#parentOf(record);
    for (const attempt of attempts) this.#chat(attempt, where);
  }

  #chat(record: RecordOf<"model_attempt">, where: Context): void {
    const { payload } = record;
    const attributes = {
      ...attemptAttributes(payload),
      ...common(record),
      ...attemptContent(this.#content(payload.content), payload.finish),
    };
    const name = `chat ${modelName(payload)}`;
    const options = { kind: SpanKind.CLIENT, startTime: timeOf(record.at), attributes };
    const span = this.#tracer.startSpan(name, options, where);
    if (payload.failure !== undefined) fail(span, payload.failure.kind ?? payload.failure.code);
    span.end(endOf(record));
  }

  #hook(record: RecordOf<"hook">): void {
    const { hook, pluginId, failure } = record.payload;
    const attributes = { "marling.hook": hook, "marling.plugin": pluginId, ...common(record) };
    const options = { kind: SpanKind.INTERNAL, startTime: timeOf(record.at), attributes };
    const span = this.#tracer.startSpan(`hook ${hook} ${pluginId}`, options, this.#parentOf(record));
    if (failure !== undefined) fail(span, failure.code);
    span.end(endOf(record));
  }

  #event(record: TraceRecord, name: string, attributes: Attributes): void {
    this.#turns.get(turnKey(record))?.span.addEvent(name, attributes, endOf(record));
  }

  #start(
    { spanId, at }: TraceHead,
    {
      name,
      kind,
      attributes,
    }: { readonly name: string; readonly kind: SpanKind; readonly attributes: Attributes },
    where: Context,
  ): Span {
    const span = this.#tracer.startSpan(name, { kind, startTime: timeOf(at), attributes }, where);
    this.#live.set(spanId, span);
    return span;
  }

  /** Where something belongs: below what it was part of, or below its turn where that is no span. */
  #parentOf(record: TraceRecord): Context {
    const parent = this.#live.get(record.parentId ?? "") ?? this.#turns.get(turnKey(record))?.span;
    return parent === undefined ? context.active() : inside(parent);
  }

  #content<T>(content: T | undefined): T | undefined {
    return this.wantsContent ? content : undefined;
  }
}

function inside(span: Span): Context {
  return trace.setSpan(context.active(), span);
}

function common({ sessionId, tenant }: TraceHead): Attributes {
  return {
    "gen_ai.conversation.id": sessionId,
    ...(tenant === undefined ? {} : { "marling.tenant": tenant }),
  };
}

function turnKey({ sessionId, tenant = "", turnId = "" }: TraceHead): string {
  return JSON.stringify([tenant, sessionId, turnId]);
}

function endOf({ at, durationMs }: TraceHead): HrTime {
  return timeOf(at + durationMs);
}

/** As seconds and nanoseconds: a small number would be taken for the time since the process began. */
function timeOf(ms: number): HrTime {
  const micros = Math.round(ms * 1_000);
  return [Math.floor(micros / 1_000_000), (micros % 1_000_000) * 1_000];
}

function commitAttributes({ payload }: RecordOf<"commit">): Attributes {
  const { operation, nodes, bytes, revision = -1 } = payload;
  const common = { "marling.operation": operation, "marling.nodes": nodes, "marling.bytes": bytes };
  return revision < 0 ? common : { ...common, "marling.revision": revision };
}

function effectAttributes({ payload }: RecordOf<"effect">): Attributes {
  return { "marling.outcome": payload.outcome, "marling.replayed": payload.replayed };
}

/** What ended a turn against its purpose; one that was cancelled or sleeps did not fail. */
function turnFailure(outcome: TraceTurnOutcome): string | undefined {
  if (outcome.kind === "interrupted") return outcome.code;
  if (outcome.kind !== "stopped" || outcome.reason === "cancelled") return undefined;
  return outcome.code ?? outcome.reason;
}

function fail(span: Span, type: string): void {
  span.setAttribute("error.type", type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

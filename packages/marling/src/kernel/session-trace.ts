// What a session tells the trace. Without a sink there is none of this: whoever could tell something asks for the trace
// of the session first, and builds nothing when there is none.
//   TR1  a sink that throws, or answers with a promise that fails, changes nothing.
//   TR2  a record is built once, when its span ends; nothing is told per delta of a stream.

import { randomBytes } from "node:crypto";
import { isPromise } from "../base/deferred.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import type { Json, JsonObject } from "../model/json.ts";
import type { HookSite } from "../plugin/hook-error.ts";
import type { HookWatcher } from "../plugin/hook-phase.ts";
import type { TraceFailure, TraceKind, TracePayloads, TraceRecord, TraceSink } from "../trace/contract.ts";
import type { KernelParts } from "./parts.ts";

type TraceParts = Pick<KernelParts, "clock" | "owner"> & { readonly trace: TraceSink };

/** The hook that runs for every delta. */
const PER_DELTA = "output.stream";

/** Something that has begun and will be told when it has ended. */
export class TraceSpan {
  readonly id: string;
  readonly parentId: string | undefined;
  readonly at: number;
  readonly #begunAt: number;
  readonly #trace: SessionTrace;

  constructor(trace: SessionTrace, id: string, parentId: string | undefined) {
    const { clock } = trace.parts;
    this.id = id;
    this.parentId = parentId;
    this.at = clock.now();
    this.#begunAt = clock.monotonic();
    this.#trace = trace;
  }

  get elapsedMs(): number {
    return rounded(this.#trace.parts.clock.monotonic() - this.#begunAt);
  }

  close<Kind extends TraceKind>(kind: Kind, payload: TracePayloads[Kind]): void {
    this.#trace.write(this, this.elapsedMs, { kind, payload });
  }

  /** Tells that it has begun; it still has to be closed. */
  announce<Kind extends TraceKind>(kind: Kind, payload: TracePayloads[Kind]): void {
    this.#trace.write(this, 0, { kind, payload });
  }
}

/** Handlers of one plugin that run for every delta, until they are told. */
interface StreamRuns {
  readonly span: TraceSpan;
  runs: number;
  busyMs: number;
  thrown: { readonly thrown: unknown } | undefined;
}

export class SessionTrace implements HookWatcher {
  readonly parts: TraceParts;
  readonly wantsContent: boolean;
  readonly #sessionId: string;
  readonly #turnId: () => string | undefined;
  readonly #prefix = randomBytes(6).toString("hex");
  readonly #streams = new Map<string, StreamRuns>();
  /** What the next turn is part of, when a turn of another session starts it. */
  #startedBy: string | undefined;
  #spans = 0;
  #turn: TraceSpan | undefined;
  #round: { readonly span: TraceSpan; readonly number: number } | undefined;
  #rounds = 0;
  #replays = 0;

  constructor(
    parts: TraceParts,
    session: { readonly id: string; readonly running: { readonly turnId: string } | undefined },
  ) {
    this.parts = parts;
    this.wantsContent = parts.trace.wantsContent === true;
    this.#sessionId = session.id;
    this.#turnId = () => session.running?.turnId;
  }

  /** Begins a span, by default as part of the round or the turn that runs. */
  open(parentId: string | undefined = this.#here): TraceSpan {
    this.#spans += 1;
    return new TraceSpan(this, `${this.#prefix}.${this.#spans}`, parentId);
  }

  /** Tells of something that only happens. */
  event<Kind extends TraceKind>(kind: Kind, payload: TracePayloads[Kind], parentId?: string): void {
    this.open(parentId).announce(kind, payload);
  }

  custom(name: string, payload: Json, context: JsonObject): void {
    this.event("custom", { name, context, payload });
  }

  /** The span that something is part of. */
  place(spanId: string | undefined): string | undefined {
    return spanId ?? this.#here;
  }

  /** The next turn is part of a span of another session. */
  startBelow(spanId: string | undefined): void {
    this.#startedBy = spanId;
  }

  beginTurn(): TraceSpan {
    this.#turn = this.open(this.#startedBy);
    this.#startedBy = undefined;
    this.#rounds = 0;
    this.#replays = 0;
    return this.#turn;
  }

  /** Tells how a run of the turn ended; nothing that comes later is part of it. */
  endTurn(payload: Omit<TracePayloads["turn"], "rounds" | "replays">): void {
    this.leaveRound();
    this.#turn?.close("turn", { ...payload, rounds: this.#rounds, replays: this.#replays });
    this.#turn = undefined;
  }

  enterRound(number: number): void {
    if (this.#round?.number === number) return;
    this.leaveRound();
    this.#round = { span: this.open(), number };
    this.#rounds += 1;
  }

  leaveRound(): void {
    const round = this.#round;
    this.#round = undefined;
    round?.span.close("round", { round: round.number });
  }

  countReplay(): void {
    this.#replays += 1;
  }

  /** Called when a handler begins; what it returns is called when it has ended. */
  began(site: HookSite): (failed?: { readonly thrown: unknown }) => void {
    if (site.hook === PER_DELTA) return this.#beganForDelta(site);
    const span = this.open();
    return (failed) => this.#hookEnded(site, { span, runs: 1, busyMs: span.elapsedMs, thrown: failed });
  }

  /** Tells of the handlers that ran for the deltas of one stream. */
  endStream(): void {
    for (const [pluginId, runs] of this.#streams) this.#hookEnded({ pluginId, hook: PER_DELTA }, runs);
    this.#streams.clear();
  }

  write(
    span: TraceSpan,
    durationMs: number,
    told: { readonly kind: TraceKind; readonly payload: TracePayloads[TraceKind] },
  ): void {
    const turnId = this.#turnId();
    const record = {
      kind: told.kind,
      sessionId: this.#sessionId,
      owner: this.parts.owner,
      spanId: span.id,
      ...(span.parentId === undefined ? {} : { parentId: span.parentId }),
      ...(turnId === undefined ? {} : { turnId }),
      at: span.at,
      durationMs,
      payload: told.payload,
    };
    tellSink(this.parts.trace, record as TraceRecord); // `close` and `announce` pair kinds with payloads.
  }

  get #here(): string | undefined {
    return this.#round?.span.id ?? this.#turn?.id;
  }

  #beganForDelta({ pluginId }: HookSite): (failed?: { readonly thrown: unknown }) => void {
    const { clock } = this.parts;
    const known = this.#streams.get(pluginId);
    const runs = known ?? { span: this.open(), runs: 0, busyMs: 0, thrown: undefined };
    if (known === undefined) this.#streams.set(pluginId, runs);
    const begunAt = clock.monotonic();
    return (failed) => {
      runs.runs += 1;
      runs.busyMs = rounded(runs.busyMs + clock.monotonic() - begunAt);
      runs.thrown ??= failed;
    };
  }

  #hookEnded({ hook, pluginId }: HookSite, { span, runs, busyMs, thrown }: StreamRuns): void {
    const failed = thrown === undefined ? {} : { failure: traceFailure(thrown.thrown) };
    const text =
      thrown === undefined || !this.wantsContent ? {} : { content: { message: messageOf(thrown.thrown) } };
    span.close("hook", { hook, pluginId, runs, busyMs, ...failed, ...text });
  }
}

/** Tells a sink; what it does with a record is nobody's problem but its own. */
export function tellSink(sink: TraceSink, record: TraceRecord): void {
  try {
    const answer: unknown = sink.record(record);
    if (isPromise(answer)) answer.then(undefined, () => undefined); // Against its contract; its failure ends here too.
  } catch {
    // A trace sink that fails is nobody's problem but its own.
  }
}

/** What was thrown, by its code; its message may quote what was said. */
export function traceFailure(thrown: unknown): TraceFailure {
  return { code: MarlingError.is(thrown) ? thrown.code : "runtime_error" };
}

/** Milliseconds with three decimals: what a clock of the system tells, without the noise of subtraction. */
function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}

// What the trace is told of tool calls and their attempts. Arguments and results only for a sink that wants content.

import type { JsonObject } from "../model/json.ts";
import type { CompletedCall, PendingCall } from "../model/tool-call.ts";
import type { ToolOutput } from "../model/tool-output.ts";
import type { ToolManifest } from "../tool/contract.ts";
import type { TraceToolOutcome } from "../trace/contract.ts";
import type { SessionTrace, TraceSpan } from "./session-trace.ts";
import type { TurnRun } from "./turn-run.ts";

/** A call that is being traced; what it does is part of its span. */
export class TracedCall {
  readonly #trace: SessionTrace;
  readonly #span: TraceSpan;
  readonly #call: { readonly name: string; readonly callId: string; readonly parentCallId?: string };

  constructor(trace: SessionTrace, { span, parentCallId, call }: TracedCallInit) {
    const { name, callId } = call;
    this.#trace = trace;
    this.#span = span;
    this.#call = { name, callId, ...(parentCallId === undefined ? {} : { parentCallId }) };
    const content = trace.wantsContent ? { content: { args: call.args } as JsonObject } : {};
    span.announce("tool_started", { ...this.#call, ...content });
  }

  end({ args, output }: Pick<CompletedCall, "args" | "output">): void {
    const content = this.#trace.wantsContent ? { content: { args, output } as unknown as JsonObject } : {};
    this.#span.close("tool_call", { ...this.#call, outcome: toolOutcome(output), ...content });
  }

  /** The turn sleeps until the call can go on. */
  park(): void {
    this.#span.close("tool_call", { ...this.#call, outcome: { kind: "parked" } });
  }
}

export interface TracedCallInit {
  readonly span: TraceSpan;
  readonly call: Pick<PendingCall, "name" | "callId" | "args">;
  readonly parentCallId: string | undefined;
}

/** One attempt of a call; an attempt that parks the turn is not over. */
export class TracedToolAttempt {
  readonly #span: TraceSpan;
  readonly #attempt: ToolAttemptInit;
  #replayed = false;
  #isCut = false;

  constructor(span: TraceSpan, attempt: ToolAttemptInit) {
    this.#span = span;
    this.#attempt = attempt;
  }

  /** Its outcome is that of an earlier run, or an earlier run was cut in the middle of it. */
  note(what: "replayed" | "cut"): void {
    if (what === "replayed") this.#replayed = true;
    else this.#isCut = true;
  }

  end(
    ended: { readonly durationMs: number } & (
      | { readonly output: ToolOutput }
      | { readonly pending: unknown }
    ),
  ): void {
    const { call, manifest, attempt } = this.#attempt;
    this.#span.close("tool_attempt", {
      name: call.name,
      callId: call.callId,
      attempt,
      replay: manifest.replay ?? "unsafe",
      outcome: "output" in ended ? toolOutcome(ended.output) : { kind: "pending" },
      replayed: this.#replayed,
      isCut: this.#isCut,
      ranMs: ended.durationMs,
    });
  }
}

export interface ToolAttemptInit {
  readonly call: Pick<PendingCall, "name" | "callId">;
  readonly manifest: Pick<ToolManifest, "replay">;
  readonly attempt: number;
}

/** A scope whose work is part of a span. */
export function inSpan(scope: TurnRun, span: TraceSpan | undefined): TurnRun {
  return span === undefined ? scope : { ...scope, span: span.id };
}

export function toolOutcome({ outcome }: ToolOutput): TraceToolOutcome {
  return outcome.kind === "failure"
    ? { kind: "failure", code: outcome.code, class: outcome.class }
    : { kind: outcome.kind };
}

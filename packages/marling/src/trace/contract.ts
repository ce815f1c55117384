// The seam to traces: records leave, nothing comes back. What each record means is in SPEC.md of this folder.

import type { Json, JsonObject } from "../model/json.ts";
import type { TokenUsage, UsageEntry } from "../model/usage.ts";

/** What every record has. A record is written when its span ends; those that only happen have no duration. */
export interface TraceHead {
  readonly sessionId: string;
  /** Whose session it is, in a runtime that is scoped to a tenant. */
  readonly tenant?: string;
  /** The worker that wrote it. */
  readonly owner: string;
  /** Unique over all runtimes. What announces a span has the id of the span. */
  readonly spanId: string;
  /** The span it is part of; missing for what happens beside turns, and for a turn that no other one started. */
  readonly parentId?: string;
  readonly turnId?: string;
  /** Wall time at which it began, in milliseconds since 1970. */
  readonly at: number;
  readonly durationMs: number;
}

/** Texts, arguments and results. Only there for a sink that wants content; values of headers never are. */
export interface TraceContent {
  readonly content?: JsonObject;
}

/** What went wrong, by name. */
export interface TraceFailure {
  readonly kind?: string;
  readonly code: string;
}

/** How a run of a turn ended. A later run goes on with one that was parked or interrupted. */
export type TraceTurnOutcome =
  | { readonly kind: "finished"; readonly by: "message" | "value" | "tool" }
  | { readonly kind: "stopped"; readonly reason: string; readonly code?: string }
  | { readonly kind: "parked"; readonly waits: readonly { readonly name: string; readonly due?: number }[] }
  | { readonly kind: "interrupted"; readonly code: string };

export interface TraceToolOutcome {
  readonly kind: "success" | "failure" | "cancelled" | "pending" | "parked";
  readonly code?: string;
  readonly class?: string;
}

/** How large a request was, and digests by which two of them can be told apart. */
export interface TraceRequest {
  readonly messages: number;
  readonly tools: number;
  /** Of system text, messages and tools, as JSON. */
  readonly bytes: number;
  readonly systemDigest: string;
  readonly messagesDigest: string;
  readonly toolsDigest: string;
}

interface ModelOutcomeTrace {
  readonly model: string;
  readonly outcome: "completed" | "failed" | "aborted" | "cancelled" | "switched";
  readonly finish?: string;
  readonly failure?: TraceFailure;
  readonly usage: TokenUsage;
}

interface ToolTrace {
  readonly name: string;
  readonly callId: string;
}

/** Every kind of record with its payload. */
export interface TracePayloads {
  /** A run of a turn begins. */
  readonly turn_started: { readonly inputId: string; readonly isRecovery: boolean } & TraceContent;
  /** A run of a turn has ended. Of one that goes on later only what it came to here. */
  readonly turn: TraceContent & {
    readonly outcome: TraceTurnOutcome;
    readonly revision?: number;
    readonly usage: TokenUsage;
    readonly childUsage: readonly UsageEntry[];
    readonly rounds: number;
    /** Effects that were answered from the journal. */
    readonly replays: number;
  };
  readonly round: { readonly round: number };
  /** A call with all its attempts; `source` is there when a plugin or a tool made it for itself. */
  readonly model_call: ModelOutcomeTrace & {
    readonly round?: number;
    readonly source?: string;
    readonly attempts: number;
    readonly replayed: boolean;
  };
  readonly model_attempt: ModelOutcomeTrace &
    TraceContent & {
      readonly round?: number;
      readonly attempt: number;
      /** The id of the model's port: provider and model, as far as it tells. */
      readonly port: string;
      readonly request: TraceRequest;
      /** Until the first delta of text or reasoning. */
      readonly firstTokenMs?: number;
      /** What the provider says it was. */
      readonly responseModel?: string;
      readonly responseId?: string;
      /** How often the port began again by itself. */
      readonly resets: number;
    };
  readonly tool_started: ToolTrace & TraceContent & { readonly parentCallId?: string };
  /** A call from its preparation to its end: hooks, approval, attempts and waits included. */
  readonly tool_call: ToolTrace &
    TraceContent & { readonly parentCallId?: string; readonly outcome: TraceToolOutcome };
  readonly tool_attempt: ToolTrace & {
    readonly attempt: number;
    /** What the tool says about being run again. */
    readonly replay: string;
    readonly outcome: TraceToolOutcome;
    readonly replayed: boolean;
    /** An earlier run began it and its end was not known. */
    readonly isCut: boolean;
    /** How long it took when it ran. */
    readonly ranMs: number;
  };
  /** One handler; the handlers of a stream are told once per attempt, with how often they ran. */
  readonly hook: {
    readonly hook: string;
    readonly pluginId: string;
    readonly runs: number;
    readonly busyMs: number;
    readonly failure?: TraceFailure;
  } & TraceContent;
  /** A wait, a timer, a code cell or a direct completion; any other effect only when it was answered from the journal. */
  readonly effect: {
    readonly effect: string;
    readonly key: string;
    readonly outcome: "done" | "parked" | "failed";
    readonly replayed: boolean;
    readonly code?: string;
  };
  readonly commit: {
    readonly operation: string;
    readonly nodes: number;
    readonly bytes: number;
    /** Missing when it failed. */
    readonly revision?: number;
    readonly failure?: TraceFailure;
  };
  /** A turn of an earlier process is taken up, or its session could not be opened. */
  readonly recovery:
    | { readonly kind: "resumed"; readonly attempt: number }
    | { readonly kind: "exhausted"; readonly attempt: number }
    | { readonly kind: "skipped"; readonly code: string };
  readonly session_created: { readonly childSessionId: string };
  readonly child_turn: { readonly childSessionId: string; readonly childTurnId: string };
  /** What plugins trace, under `plugin.<plugin id>.<name>`, and what went wrong beside turns. */
  readonly custom: { readonly name: string; readonly context: JsonObject; readonly payload: Json };
}

export type TraceKind = keyof TracePayloads;

export type TraceRecord<Kind extends TraceKind = TraceKind> = {
  readonly [K in Kind]: TraceHead & { readonly kind: K; readonly payload: TracePayloads[K] };
}[Kind];

/** Receives records. Contract: synchronous and quick; a throw is ignored. */
export interface TraceSink {
  /** Whether records have texts, arguments and results; without it they have none. */
  readonly wantsContent?: boolean;
  record(record: TraceRecord): void;
}

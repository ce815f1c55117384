// A turn as its caller sees it: what goes in, how it ended, what it cost.

import type { AttachmentSource } from "./attachment.ts";
import type { Json } from "./json.ts";
import type { ToolCallRecord } from "./tool-output.ts";
import type { TokenUsage, UsageEntry } from "./usage.ts";

/** What a user says. A plain string is short for `{ text }`. */
export interface TurnInput {
  readonly text?: string;
  readonly attachments?: readonly AttachmentSource[];
}

/** Where a turn may take in what arrived meanwhile: after a batch of work, and just before it would end. */
export type CheckpointKind = "after_work" | "before_completion";

export type StopReason =
  | "cancelled"
  | "plugin_abort"
  | "max_turns"
  | "provider_error"
  | "incomplete"
  | "tool_error"
  | "runtime_error";

export type TurnOutcome =
  | {
      readonly kind: "finished";
      readonly by: "message" | "value" | "tool";
      readonly text: string;
      readonly value?: Json;
    }
  | {
      readonly kind: "stopped";
      readonly reason: StopReason;
      readonly code?: string;
      readonly message?: string;
    };

/** Something that went wrong in a turn and did not have to end it. */
export interface TurnIssue {
  readonly kind: string;
  readonly code: string;
  readonly message: string;
  readonly pluginId?: string;
  readonly hook?: string;
  readonly retryable?: boolean;
}

/** One request to a model, failed and aborted ones included. */
export interface ModelCallRecord {
  readonly round: number;
  readonly attempt: number;
  readonly model: string;
  readonly outcome: "completed" | "failed" | "aborted" | "cancelled";
  readonly finish?: string;
  readonly code?: string;
  readonly message?: string;
  readonly usage: TokenUsage;
}

export interface TurnReport {
  readonly outcome: TurnOutcome;
  readonly text: string;
  readonly turnId: string;
  readonly revision: number;
  readonly usage: TokenUsage;
  readonly childUsage: readonly UsageEntry[];
  readonly toolCalls: readonly ToolCallRecord[];
  readonly modelCalls: readonly ModelCallRecord[];
  readonly issues: readonly TurnIssue[];
}

/** A plugin's own event: told to whoever watches, never part of the history. */
export type PluginEvent =
  | { readonly kind: "status"; readonly key: string; readonly label: string; readonly detail?: string }
  | { readonly kind: "custom"; readonly name: string; readonly payload: Json };

/** What happens in a turn, live. Only `committed` settles what was shown. */
export type TurnEvent =
  /** Also when the turn is run again, from what was recorded: what it showed since its last commit is void. */
  | { readonly kind: "turn_started"; readonly turnId: string }
  | { readonly kind: "text_delta"; readonly round: number; readonly text: string }
  | { readonly kind: "reasoning_delta"; readonly round: number; readonly text: string }
  /** Everything shown of this round's text and reasoning is void: the call is made again, or its answer shown again. */
  | {
      readonly kind: "attempt_reset";
      readonly round: number;
      readonly attempt: number;
      readonly reason: string;
      readonly retryAfterMs: number;
    }
  | { readonly kind: "model_call"; readonly phase: "started"; readonly round: number; readonly model: string }
  | {
      readonly kind: "model_call";
      readonly phase: "finished";
      readonly round: number;
      readonly record: ModelCallRecord;
    }
  | {
      readonly kind: "tool_started";
      readonly callId: string;
      readonly name: string;
      readonly args: Json;
      readonly parentCallId?: string;
    }
  | {
      readonly kind: "tool_progress";
      readonly callId: string;
      readonly name: string;
      readonly message: string;
    }
  | { readonly kind: "tool_finished"; readonly record: ToolCallRecord; readonly parentCallId?: string }
  | { readonly kind: "code_started"; readonly language: string; readonly code: string }
  | {
      readonly kind: "code_finished";
      readonly language: string;
      readonly output: string;
      readonly error?: string;
      readonly durationMs: number;
    }
  | { readonly kind: "waiting"; readonly callId: string; readonly name: string }
  | {
      readonly kind: "input_accepted";
      readonly inputIds: readonly string[];
      readonly checkpoint: CheckpointKind;
    }
  | { readonly kind: "plugin_event"; readonly pluginId: string; readonly event: PluginEvent }
  | { readonly kind: "usage"; readonly round: number; readonly usage: TokenUsage; readonly total: TokenUsage }
  /** A turn of a session below, which this one waits for, has used something: told as it goes, in all in the report. */
  | {
      readonly kind: "child_usage";
      /** The session below that this turn waits for; what sessions below that one use is told under it. */
      readonly sessionId: string;
      readonly source: string;
      readonly model: string;
      readonly usage: TokenUsage;
    }
  | {
      readonly kind: "frame_switched";
      readonly frameId: string;
      readonly previousFrameId: string;
      readonly reason: string;
    }
  | { readonly kind: "committed"; readonly turnId: string; readonly revision: number }
  | { readonly kind: "error"; readonly issue: TurnIssue };

/** A piece of what the model says or thinks. */
export type DeltaEvent = Extract<TurnEvent, { kind: "text_delta" | "reasoning_delta" }>;

export function isDelta(event: TurnEvent): event is DeltaEvent {
  return event.kind === "text_delta" || event.kind === "reasoning_delta";
}

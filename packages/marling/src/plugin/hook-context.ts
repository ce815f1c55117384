// What each hook is given. Every context is frozen; `host` is the narrow view of its row in host-services.ts.

import type { ModelRequest, ToolChoice } from "../llm/contract.ts";
import type { Json, JsonObject } from "../model/json.ts";
import type { Message } from "../model/message.ts";
import type { ModelFailure, ModelResponse } from "../model/model-response.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { PromptContribution } from "../model/prompt.ts";
import type { ModelToolReturn } from "../model/tool-call.ts";
import type { ToolCallRecord, ToolOutput } from "../model/tool-output.ts";
import type {
  CheckpointKind,
  ModelCallRecord,
  PluginEvent,
  TurnInput,
  TurnIssue,
  TurnOutcome,
} from "../model/turn.ts";
import type { TokenUsage } from "../model/usage.ts";
import type { ProtocolTurnOptions, SubagentContext, ToolAccess } from "../session/frame.ts";
import type { AppendNode } from "../session/node.ts";
import type { SessionReadView } from "../session/view.ts";
import type { ToolContract, ToolManifest, ToolProvider } from "../tool/contract.ts";
import type { PluginExtensions } from "./extensions.ts";
import type {
  CheckpointHookHost,
  ConfigChangedHost,
  HistoryHost,
  PromptHookHost,
  ToolHookHost,
  TurnHookHost,
  TurnResultHookHost,
} from "./host-services.ts";

/** What a turn carries beside its input. Never stored as such; see the rule on live plugin inputs. */
export interface TurnContext {
  readonly turnId: string;
  readonly pluginIds: readonly string[];
  readonly hasPluginInputs: boolean;
  pluginInput(pluginId: string): unknown;
  /** The input if it is of the type that the guard tells; another one counts as none. */
  pluginInput<T>(pluginId: string, is: (value: unknown) => value is T): T | undefined;
}

export interface PromptHookContext {
  readonly sessionId: string;
  readonly state: SessionReadView;
  readonly protocolTurnOptions: ProtocolTurnOptions;
  readonly turnContext: TurnContext;
  readonly host: PromptHookHost;
}

export interface ToolCatalogContext {
  readonly sessionId: string;
  readonly tools: readonly ToolManifest[];
  resolveContract(name: string): ToolContract | undefined;
  readonly toolAccess: ToolAccess;
  readonly subagent: SubagentContext | undefined;
  readonly extensions: PluginExtensions;
}

/** Contributors and overlays can only take tools away. */
export interface ToolCatalogContribution {
  readonly remove: readonly string[];
}

export interface TurnHookContext {
  readonly sessionId: string;
  readonly state: SessionReadView;
  readonly turnContext: TurnContext;
  readonly host: TurnHookHost;
}

export interface ToolCallHookContext {
  readonly sessionId: string;
  readonly toolName: string;
  readonly callId: string;
  readonly args: Json;
  readonly argumentProjection: ToolManifest["argumentProjection"];
  readonly turnContext: TurnContext;
  readonly host: ToolHookHost;
}

export interface ToolResultHookContext extends ToolCallHookContext {
  readonly result: ToolOutput;
  readonly durationMs: number;
}

export interface TurnSummary {
  readonly turnId: string;
  readonly outcome: TurnOutcome;
  readonly assistantOutput: string;
  readonly usage: TokenUsage;
  readonly toolCalls: readonly ToolCallRecord[];
  readonly modelCalls: readonly ModelCallRecord[];
  readonly issues: readonly TurnIssue[];
}

export interface TurnResultHookContext {
  readonly sessionId: string;
  readonly turn: TurnSummary;
  readonly host: TurnResultHookHost;
}

export interface CheckpointHookContext {
  readonly sessionId: string;
  readonly checkpoint: CheckpointKind;
  readonly state: SessionReadView;
  readonly host: CheckpointHookHost;
}

export interface AssistantStreamHookContext {
  readonly sessionId: string;
  readonly chunk: string;
}

export interface AssistantStreamTransform {
  readonly chunk: string;
  readonly reasoningDeltas?: readonly string[];
  readonly events?: readonly PluginEvent[];
  readonly abortStream?: boolean;
}

export interface AssistantResponseHookContext {
  readonly sessionId: string;
  readonly response: ModelResponse;
}

export interface AssistantResponseTransform {
  readonly response: ModelResponse;
  readonly events?: readonly PluginEvent[];
}

export type StreamFinishReason = "attempt_reset" | "complete" | "aborted" | "cancelled" | "provider_error";

export interface AssistantStreamFinishedContext {
  readonly sessionId: string;
  readonly reason: StreamFinishReason;
}

export interface ToolResultProjectionContext {
  readonly sessionId: string;
  readonly callId: string;
  readonly toolName: string;
  readonly args: Json;
  readonly output: ToolOutput;
  readonly durationMs: number;
}

/** What a projector is given. */
export interface ToolResultProjection extends ToolResultProjectionContext {
  /** What the model is shown where no projector says otherwise. */
  readonly projected: ModelToolReturn;
}

export type LifecycleEvent =
  | { readonly kind: "turn_finalized"; readonly sessionId: string; readonly turn: TurnSummary }
  | {
      readonly kind: "turn_persisted";
      readonly sessionId: string;
      readonly turnId: string;
      readonly state: SessionReadView;
      readonly host: HistoryHost;
      /** Told again: an earlier process may have told it already, or have ended before. */
      readonly isRedelivered?: true;
    }
  | { readonly kind: "session_restored"; readonly sessionId: string; readonly state: SessionReadView }
  | {
      readonly kind: "session_config_changed";
      readonly sessionId: string;
      readonly previous: SessionPolicy;
      readonly current: SessionPolicy;
      readonly host: ConfigChangedHost;
    }
  | {
      readonly kind: "frame_opened";
      readonly sessionId: string;
      readonly frameId: string;
      readonly reason: string;
    }
  | { readonly kind: "session_forked"; readonly sessionId: string; readonly from: string }
  | {
      readonly kind: "compaction_failed";
      readonly sessionId: string;
      readonly code: string;
      readonly message: string;
    }
  | {
      readonly kind: "input_rejected";
      readonly sessionId: string;
      readonly code: string;
      readonly message: string;
    };

export interface SessionConfigChangedContext {
  readonly sessionId: string;
  readonly previous: SessionPolicy;
  readonly current: SessionPolicy;
  readonly host: ConfigChangedHost;
}

export interface PreparedContext {
  readonly messages: readonly Message[];
  readonly promptContributions: readonly PromptContribution[];
  readonly toolProviders: readonly ToolProvider[];
  readonly includeBaseTools: boolean;
  /** Asks the compactors for a shorter beginning before the first round; where they have none, the messages stand. */
  readonly compact?: { readonly instructions?: string };
}

export interface TurnTransformContext {
  readonly sessionId: string;
  readonly state: SessionReadView;
  readonly promptUsage: TokenUsage | undefined;
  readonly maxContextTokens: number | undefined;
  readonly host: HistoryHost;
}

export interface CompactionContext {
  readonly sessionId: string;
  readonly instructions: string | undefined;
  readonly state: SessionReadView;
  readonly host: HistoryHost;
}

export interface ContextCompaction {
  readonly initialNodes: readonly AppendNode[];
}

export interface InputHookContext {
  readonly sessionId: string;
  readonly input: TurnInput;
}

/** Goes on with another input, or refuses it with a code; nothing of a refused input is kept. */
export type InputDecision =
  | { readonly input: TurnInput | string }
  | { readonly reject: { readonly code: string; readonly message: string } };

export interface ModelRequestHookContext {
  readonly sessionId: string;
  readonly round: number;
  readonly request: ModelRequest;
}

/** Changes a request just before the call; messages are not for changing here. */
export interface ModelRequestPatch {
  readonly parameters?: JsonObject;
  readonly providerOptions?: JsonObject;
  readonly headers?: Readonly<Record<string, string>>;
  readonly toolChoice?: ToolChoice;
}

export interface ModelErrorHookContext {
  readonly sessionId: string;
  readonly round: number;
  /** 1 for the first attempt of this call. */
  readonly attempt: number;
  readonly model: string;
  readonly failure: ModelFailure;
}

export type ModelErrorDecision =
  | { readonly kind: "retry"; readonly afterMs?: number }
  | { readonly kind: "fall_back"; readonly model: string }
  | { readonly kind: "compact_and_retry"; readonly instructions?: string }
  | { readonly kind: "fail" };

export interface ApprovalHookContext {
  readonly sessionId: string;
  readonly toolName: string;
  readonly callId: string;
  readonly args: Json;
}

export type ApprovalDecision = {
  readonly decision: "allow" | "ask" | "deny";
  readonly reason?: string;
  /** How long somebody who is asked has; without it, for ever. */
  readonly expiresMs?: number;
};

export interface RecoveryHookContext {
  readonly sessionId: string;
  readonly toolName: string;
  readonly callId: string;
  readonly args: Json;
  readonly replay: "safe" | "idempotent" | "unsafe";
}

export type RecoveryDecision =
  | { readonly kind: "run_again" }
  | { readonly kind: "unknown_outcome" }
  | { readonly kind: "use"; readonly output: ToolOutput };

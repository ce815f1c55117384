// The protocol slots: who drives a turn, and who runs code. Contexts are narrow on purpose.

import type { ModelRequest } from "../llm/contract.ts";
import type { Json } from "../model/json.ts";
import type { PromptContribution } from "../model/prompt.ts";
import type { DirectCompletionHost } from "../model/session-host.ts";
import type { CompletedCall } from "../model/tool-call.ts";
import type { TurnEvent } from "../model/turn.ts";
import type { TokenUsage } from "../model/usage.ts";
import type { ProtocolTurnOptions } from "../session/frame.ts";
import type { AppendNode } from "../session/node.ts";
import type { SessionReadView, SessionView } from "../session/view.ts";
import type { ToolCatalog } from "../tool/catalog.ts";
import type { NestedCall, NestedReply, ToolManifest } from "../tool/contract.ts";
import type { ProtocolDriver } from "../turn/protocol.ts";
import type { PluginExtensions } from "./extensions.ts";
import type { TurnContext } from "./hook-context.ts";
import type { SessionGraphService, SessionLifecycleService, SessionStateService } from "./host-services.ts";
import type { PluginOptions } from "./plugin-options.ts";
import type { TriggerCatalog } from "./trigger.ts";
import type { ProcessService } from "./work-host.ts";

type Awaitable<T> = T | Promise<T>;

export interface ProtocolSessionContext {
  readonly sessionId: string;
}

export interface ProtocolBeforeLlmCallContext {
  readonly sessionId: string;
  readonly sessions: SessionStateService;
  readonly sessionGraph: SessionGraphService;
  readonly directCompletions: DirectCompletionHost;
  readonly processes: ProcessService;
  readonly state: SessionReadView;
  readonly latestPromptUsage: TokenUsage | undefined;
}

export interface ProtocolRuntimeContext {
  readonly protocolTurnOptions: ProtocolTurnOptions;
  /** For the session and the current frame. */
  setProtocolTurnOptions(options: ProtocolTurnOptions): void;
  /** For the session and every frame of it. */
  setProtocolTurnOptionsAllFrames(options: ProtocolTurnOptions): void;
}

export interface ProtocolMaterialization {
  readonly pluginOptions: PluginOptions;
  readonly isRootSession: boolean;
}

export type ProtocolLlmCallAction = {
  readonly kind: "switch_frame";
  readonly key: string;
  readonly task: string;
};

/** The callbacks of the protocol over the life of a session; each may be left out. */
export interface ProtocolSession {
  initializeSession?(ctx: ProtocolSessionContext): Awaitable<void>;
  restoreSession?(ctx: ProtocolSessionContext, state: SessionView): Awaitable<void>;
  appendSessionNodes?(ctx: ProtocolSessionContext, nodes: readonly AppendNode[]): Awaitable<void>;
  /** Without it, session extensions are refused. */
  applySessionExtension?(extension: unknown): Awaitable<void>;
  /** Without it, turn extensions are accepted. */
  validateTurnExtension?(extension: unknown): Awaitable<void>;
  /** On every materialization: open, reopen, child. Synchronous. */
  configureRuntimeOnMaterialize?(ctx: ProtocolRuntimeContext, materialization: ProtocolMaterialization): void;
  beforeLlmCall?(
    ctx: ProtocolBeforeLlmCallContext,
    request: ModelRequest,
  ): Awaitable<ProtocolLlmCallAction | undefined>;
}

export interface ProtocolBuildInput {
  readonly toolCatalog: ToolCatalog;
  readonly extensions: PluginExtensions;
  readonly triggers: TriggerCatalog;
  readonly extraPromptContributions: readonly PromptContribution[];
}

/** What a driver brings to a turn; built once per catalog. */
export interface TurnPreamble {
  readonly driver: ProtocolDriver;
  /** Whether prompt and tools are looked at again before every round. */
  readonly syncsEnvironment: boolean;
  readonly executionPrompt: string;
  readonly promptContributions: readonly PromptContribution[];
}

/** Contract: `buildPreamble` is pure and synchronous. */
export interface ProtocolDriverFactory {
  buildPreamble(input: ProtocolBuildInput): TurnPreamble;
}

export interface ExecRequest {
  readonly language: string;
  readonly code: string;
  readonly acceptFinish: boolean;
}

export interface ExecResponse {
  readonly observations: readonly string[];
  readonly error?: string;
  readonly terminalFinish?: Json;
}

/** What code may reach while it runs. */
export interface CodeExecutionContext {
  readonly sessionId: string;
  readonly frameId: string;
  readonly toolCatalog: ToolCatalog;
  readonly tools: readonly ToolManifest[];
  readonly sessions: SessionStateService;
  readonly sessionLifecycle: SessionLifecycleService;
  readonly sessionGraph: SessionGraphService;
  readonly turnContext: TurnContext;
  /** Messages and protocol events of the session in order, what is in flight included. */
  readonly chronologicalProjection: readonly Json[];
  readonly environment: Json;
  readonly protocolExtension: unknown;
  /** What its processes are children of. */
  readonly parentInvocation: string;
  readonly processes: ProcessService;
  readonly triggers: TriggerCatalog;
  readonly signal: AbortSignal;
  cancel(reason: string): void;
  emit(event: TurnEvent): void;
  /** Says something while the code runs, to whoever listens to the session; messages of kind `code` are not passed on. */
  message(message: { readonly kind: string; readonly text: string }): void;
  /** Replies are in order; a failure is a reply, not a throw; hooks apply as to any call. */
  callTools(calls: readonly NestedCall[]): Promise<readonly NestedReply[]>;
  /** Calls made so far through `callTools`. */
  readonly completedCalls: readonly CompletedCall[];
}

export interface CodeExecutor {
  executeCode(ctx: CodeExecutionContext, request: ExecRequest): Promise<ExecResponse>;
  executionStateDirty?(): boolean;
  snapshotExecutionState?(ctx: ProtocolSessionContext): Awaitable<Uint8Array | undefined>;
  restoreExecutionState?(ctx: ProtocolSessionContext, data: Uint8Array): Awaitable<void>;
}

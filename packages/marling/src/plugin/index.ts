// marling/plugin: how plugins are written, hosted and tested without a model.

export { definePlugin } from "./define-plugin.ts";
export type { Directive, DirectiveKind, TraceInput } from "./directive.ts";
export { directive } from "./directive.ts";
export type { DurableOptions, DurableState, ForkPolicy, StateDelta } from "./durable.ts";
export type { PluginExtension, PluginExtensions } from "./extensions.ts";
export type { PluginRevision } from "./fingerprint.ts";
export { revisionFingerprint } from "./fingerprint.ts";
export type { AuthorityRequest } from "./fork.ts";
export { narrowAuthority, toolAccessOf } from "./fork.ts";
export type {
  ApprovalDecision,
  ApprovalHookContext,
  AssistantResponseHookContext,
  AssistantResponseTransform,
  AssistantStreamFinishedContext,
  AssistantStreamHookContext,
  AssistantStreamTransform,
  CheckpointHookContext,
  CompactionContext,
  ContextCompaction,
  InputDecision,
  InputHookContext,
  LifecycleEvent,
  ModelErrorDecision,
  ModelErrorHookContext,
  ModelRequestHookContext,
  ModelRequestPatch,
  PreparedContext,
  PromptHookContext,
  RecoveryDecision,
  RecoveryHookContext,
  SessionConfigChangedContext,
  StreamFinishReason,
  ToolCallHookContext,
  ToolCatalogContext,
  ToolCatalogContribution,
  ToolResultHookContext,
  ToolResultProjection,
  ToolResultProjectionContext,
  TurnContext,
  TurnHookContext,
  TurnResultHookContext,
  TurnSummary,
  TurnTransformContext,
} from "./hook-context.ts";
export { HookLimit } from "./hook-limit.ts";
export type { HookRunOptions } from "./hook-phase.ts";
export type { Flow, HookRunner } from "./hook-runner.ts";
export type { PluginOwned } from "./hook-table.ts";
export type {
  Awaitable,
  HookContext,
  HookHandler,
  HookItem,
  HookKind,
  HookName,
  HookNameOf,
  HookRow,
  HookTypes,
  Nothing,
  ReplayClass,
} from "./hooks.ts";
export { HOOKS } from "./hooks.ts";
export type {
  AppendNodesRequest,
  AppendNodesResult,
  CheckpointHookHost,
  ConfigChangedHost,
  HistoryHost,
  HostServices,
  HostView,
  HostViewName,
  HostViews,
  PluginActionHost,
  PromptHookHost,
  RuntimeSessionHost,
  ServiceView,
  ServiceViewName,
  ServiceViews,
  SessionGraphHost,
  SessionGraphService,
  SessionLifecycleHost,
  SessionLifecycleService,
  SessionReadService,
  SessionSnapshotHost,
  SessionStateService,
  ToolCatalogHost,
  ToolHookHost,
  ToolStateHost,
  TraceHost,
  TurnHookHost,
  TurnResultHookHost,
} from "./host-services.ts";
export { HOST_VIEWS, hostView, SERVICE_VIEWS, serviceView, unavailableHost } from "./host-services.ts";
export type {
  Action,
  ActionContext,
  Command,
  CommandContext,
  Operation,
  OperationDef,
  OperationDirective,
  OperationKind,
  OperationOutcome,
  PluginOperations,
  Query,
  QueryContext,
  SessionParam,
  SettledOutcome,
  Task,
  TaskContext,
} from "./operation.ts";
export type {
  ContextCompactor,
  ContextTransform,
  Handlers,
  Plugin,
  PluginBuildContext,
  PluginDefinition,
  PluginParts,
  PluginSpec,
  ProseProjector,
  ReadyContext,
  ToolResultProjector,
} from "./plugin.ts";
export type { BuildSessionOptions, PluginHost, PluginHostOptions } from "./plugin-host.ts";
export { createPluginHost } from "./plugin-host.ts";
export type { ActionOptions, CommandOptions, QueryOptions, TaskOptions } from "./plugin-operation-calls.ts";
export { PluginOptions } from "./plugin-options.ts";
export type { PluginSession } from "./plugin-session.ts";
export { PluginStack } from "./plugin-stack.ts";
export type { PhaseProbe } from "./probe.ts";
export type {
  CodeExecutionContext,
  CodeExecutor,
  ExecRequest,
  ExecResponse,
  ProtocolBeforeLlmCallContext,
  ProtocolBuildInput,
  ProtocolDriverFactory,
  ProtocolLlmCallAction,
  ProtocolMaterialization,
  ProtocolRuntimeContext,
  ProtocolSession,
  ProtocolSessionContext,
  TurnPreamble,
} from "./protocol.ts";
export type { SessionCreated, SessionCreateRequest } from "./session-create.ts";
export type { AskableHook, InputVerdict, RunOptions } from "./session-hooks.ts";
export type { SlotName } from "./slots.ts";
export type {
  PluginSessionSnapshot,
  SnapshotArtifact,
  SnapshotEntry,
  SnapshotMeta,
  SnapshotReader,
  SnapshotWriter,
} from "./snapshot.ts";
export { decodePluginSnapshot, encodePluginSnapshot } from "./snapshot.ts";
export { standardProtocol } from "./standard-protocol.ts";
export type { ScopeMode, StateScope } from "./state-scope.ts";
export type { DraftedEffect, OpenScope, StateScopes } from "./state-scopes.ts";
export type { DeclaredTrigger, TriggerCatalog, TriggerDeclaration } from "./trigger.ts";

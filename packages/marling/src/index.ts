// The front door: every public name of `marling`, one by one.

export type { Clock } from "./base/clock.ts";
export type { Advice, ErrorCode, MarlingErrorOptions } from "./base/errors.ts";
export { MarlingError } from "./base/errors.ts";
export type { EffectHost, EffectKind, EffectOptions, EffectRequest, TurnName } from "./effects/contract.ts";
export { inlineEffects } from "./effects/inline.ts";
export type { ApprovalQuestion } from "./kernel/approval.ts";
export type { ApprovalAdmin, ApprovalVerdict } from "./kernel/approvals.ts";
export type { AttachmentPolicy } from "./kernel/attachments.ts";
export type { AuthorizeOptions } from "./kernel/authorize.ts";
export { createRuntime } from "./kernel/create-runtime.ts";
export type { GapReason, ObserveOptions, SessionObservation } from "./kernel/observation.ts";
export type { CommandReceipt, OperationOptions, TaskReceipt } from "./kernel/operations.ts";
export type { PendingInput } from "./kernel/pending-inputs.ts";
export type { PluginHandle } from "./kernel/plugin-handle.ts";
export type { RecoveryReport } from "./kernel/recovery.ts";
export type {
  CloseOptions,
  Runtime,
  SessionAdmin,
  SessionOptions,
  VacuumOptions,
} from "./kernel/runtime.ts";
export type {
  AnswerLimitOptions,
  ModelOption,
  ModelSettings,
  RuntimeOptions,
} from "./kernel/runtime-options.ts";
export type {
  CancelOutcome,
  EnqueueOptions,
  RunResult,
  Session,
  TurnOptions,
  UsageReport,
} from "./kernel/session.ts";
export type { SessionTools } from "./kernel/session-tools.ts";
export type { TriggerAdmin } from "./kernel/triggers.ts";
export type { Turn } from "./kernel/turn-handle.ts";
export type { OnParked } from "./kernel/turn-queue.ts";
export type { MonitorAdmin, TaskAdmin } from "./kernel/work-admin.ts";
export type { AiSdkLanguageModel, AiSdkSpecification, AiSdkStream } from "./llm/ai-sdk/language-model.ts";
export type {
  ModelCallOptions,
  ModelMessage,
  ModelPort,
  ModelRequest,
  ModelSink,
  ModelStreamPart,
  ToolChoice,
  ToolSpec,
} from "./llm/contract.ts";
export type { ModelDefaults } from "./llm/model-defaults.ts";
export type { AnswerLimits } from "./model/answer-limits.ts";
export type { AttachmentSource } from "./model/attachment.ts";
export type { CallId, FrameId, InputId, MessageId, NodeId, SessionId, TurnId } from "./model/ids.ts";
export type { Json, JsonObject } from "./model/json.ts";
export type {
  Message,
  MessageInput,
  MessagePart,
  Origin,
  ReasoningPart,
  Role,
  ToolCallPart,
  ToolResultPart,
} from "./model/message.ts";
export type {
  FinishReason,
  ModelFailure,
  ModelFailureKind,
  ModelOutcome,
  ModelResponse,
  ResponsePart,
} from "./model/model-response.ts";
export type { SessionPolicy } from "./model/policy.ts";
export type { PromptContribution, PromptLayer, PromptSlot, PromptTemplate } from "./model/prompt.ts";
export type {
  DirectCompletion,
  DirectCompletionHost,
  DirectLlmCompletion,
  DirectRequest,
  StartedTurn,
  StartTurnOptions,
  TurnHost,
} from "./model/session-host.ts";
export type {
  FailureClass,
  PendingResult,
  RetryAdvice,
  ToolCallRecord,
  ToolControl,
  ToolFailure,
  ToolFailureInput,
  ToolOutcome,
  ToolOutput,
} from "./model/tool-output.ts";
export { failTurn, finishTurn, switchFrame, toolFailure, toolSuccess } from "./model/tool-output.ts";
export { attachment } from "./model/tool-value.ts";
export type {
  CheckpointKind,
  ModelCallRecord,
  PluginEvent,
  StopReason,
  TurnEvent,
  TurnInput,
  TurnIssue,
  TurnOutcome,
  TurnReport,
} from "./model/turn.ts";
export type { TokenUsage, UsageEntry } from "./model/usage.ts";
export { definePlugin } from "./plugin/define-plugin.ts";
export type { Directive, DirectiveKind } from "./plugin/directive.ts";
export { directive } from "./plugin/directive.ts";
export type { DurableOptions, DurableState, ForkPolicy } from "./plugin/durable.ts";
export type { AppendNodesResult } from "./plugin/host-services.ts";
export type { OperationDef } from "./plugin/operation.ts";
export type {
  Plugin,
  PluginBuildContext,
  PluginDefinition,
  PluginParts,
  PluginSpec,
} from "./plugin/plugin.ts";
export type { ProcessContext, ProcessRun } from "./plugin/work-host.ts";
export type {
  AuthorityChange,
  AuthorityLimits,
  Frame,
  FrameAssignment,
  SessionBudget,
} from "./session/frame.ts";
export type { AppendNode, AuthorityRecord, RetirementRecord } from "./session/node.ts";
export type { HistoryNode, SessionReadView, SessionView } from "./session/view.ts";
export type { SessionFilter, SessionPage, SessionSummary, Store } from "./store/contract.ts";
export { memoryStore } from "./store/memory.ts";
export type {
  AvailabilityTier,
  ExecutionGrant,
  NestedCall,
  NestedReply,
  ReplayPolicy,
  RetryPolicy,
  Schema,
  ToolContext,
  ToolContract,
  ToolHost,
  ToolManifest,
  ToolProvider,
  ToolSource,
  ToolState,
} from "./tool/contract.ts";
export type { ToolDefinition } from "./tool/define-tool.ts";
export { defineTool } from "./tool/define-tool.ts";
export type {
  TraceContent,
  TraceFailure,
  TraceHead,
  TraceKind,
  TracePayloads,
  TraceRecord,
  TraceRequest,
  TraceSink,
  TraceToolOutcome,
  TraceTurnOutcome,
} from "./trace/contract.ts";
export type { JsonlTrace, JsonlTraceOptions, TraceStream } from "./trace/jsonl.ts";
export { jsonlTrace } from "./trace/jsonl.ts";
export type { ReadTraceOptions } from "./trace/read-trace.ts";
export { readTrace } from "./trace/read-trace.ts";
export type {
  MonitorDeclaration,
  MonitorEvent,
  MonitorSnapshot,
  MonitorStatus,
  MonitorUpdateBatch,
} from "./work/monitor.ts";
export type { MissedCount } from "./work/plan-ticks.ts";
export type { TaskEvent, TaskRecord, TaskSpec, TaskState } from "./work/task.ts";
export type {
  EmitReceipt,
  SubscribeOptions,
  TriggerDelivery,
  TriggerEvent,
  TriggerFilter,
  TriggerPage,
  TriggerSubscription,
} from "./work/trigger.ts";

// Contracts for authors of adapters: what a model, a store, an effect host or a trace sink must be.

export type { EffectHost, EffectKind, EffectOptions, EffectRequest, TurnName } from "./effects/contract.ts";
export { inlineEffects } from "./effects/inline.ts";
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
export type { AnswerLimits } from "./model/answer-limits.ts";
export type { JournalRecord, JournalStore } from "./model/journal.ts";
export type {
  Acceptance,
  DeliveryName,
  NewOccurrence,
  NewSubscription,
  PendingDelivery,
  StoredSubscription,
  SubscriptionPage,
  SubscriptionQuery,
  Tick,
  TriggerStore,
} from "./model/trigger-store.ts";
export type {
  BlobStore,
  CommitResult,
  ForkRequest,
  InboxRow,
  NewInput,
  SessionCommit,
  SessionComponents,
  SessionFilter,
  SessionHead,
  SessionPage,
  SessionSummary,
  Store,
  StoredSession,
} from "./store/contract.ts";
export { memoryStore } from "./store/memory.ts";
export type { ToolContext, ToolContract, ToolManifest, ToolProvider, ToolState } from "./tool/contract.ts";
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

// Contracts for authors of adapters: what a model, a store, an effect host or a trace sink must be.

export { inlineEffects } from "./effects/inline.ts";
export { memoryStore } from "./store/memory.ts";

export type { EffectHost, EffectKind, EffectRequest } from "./effects/contract.ts";
export type { ModelMessage, ModelPort, ModelRequest, ModelSink, ModelStreamPart, ToolChoice, ToolSpec } from "./llm/contract.ts";
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
export type { ToolContext, ToolContract, ToolManifest, ToolProvider, ToolState } from "./tool/contract.ts";
export type { TraceRecord, TraceSink } from "./trace/contract.ts";

// The hook table: every hook, the kind of runner it has, and what a replay does with it.
// A hook is run by the runner of its kind and by no other; the wrong runner does not compile. Handlers run in
// registration order; only `context.*` are ordered by priority, higher first. A handler gets a frozen context and
// returns a value, a promise of it, or undefined for "nothing".
//
// Kinds: `collect` asks everyone and concatenates; `waterfall` hands each the result of the one before;
// `first` takes the first answer; `notify` tells.

import type { SessionPolicy } from "../model/policy.ts";
import type { PromptContribution } from "../model/prompt.ts";
import type { Directive } from "./directive.ts";
import type {
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
  ToolCallHookContext,
  ToolCatalogContext,
  ToolCatalogContribution,
  ToolResultHookContext,
  TurnHookContext,
  TurnResultHookContext,
  TurnTransformContext,
} from "./hook-context.ts";

export type Awaitable<T> = T | Promise<T>;
/** What a handler returns that has nothing to say: nothing at all, or `undefined`. */
// biome-ignore lint/suspicious/noConfusingVoidType: a function without a return statement is a handler too
export type Nothing = undefined | void;

/** One row per hook: the handler's context, what it returns, and for a waterfall what flows. */
export interface HookTypes {
  "prompt.contribute": { kind: "collect"; context: PromptHookContext; item: PromptContribution };
  "tool_catalog.contribute": { kind: "collect"; context: ToolCatalogContext; item: ToolCatalogContribution };
  "turn.before": { kind: "collect"; context: TurnHookContext; item: Directive };
  "turn.after": { kind: "collect"; context: TurnResultHookContext; item: Directive };
  "turn.checkpoint": { kind: "collect"; context: CheckpointHookContext; item: Directive };
  "tool_calls.before": { kind: "collect"; context: ToolCallHookContext; item: Directive };
  "tool_calls.after": { kind: "collect"; context: ToolResultHookContext; item: Directive };
  "approval.request": { kind: "collect"; context: ApprovalHookContext; item: ApprovalDecision };
  "input.before": { kind: "waterfall"; context: InputHookContext; item: InputDecision };
  "model.request": { kind: "waterfall"; context: ModelRequestHookContext; item: ModelRequestPatch };
  "output.stream": { kind: "waterfall"; context: AssistantStreamHookContext; item: AssistantStreamTransform };
  "output.response": {
    kind: "waterfall";
    context: AssistantResponseHookContext;
    item: AssistantResponseTransform;
  };
  "session.mutate_config": {
    kind: "waterfall";
    context: SessionConfigChangedContext;
    flows: SessionPolicy;
    item: SessionPolicy;
  };
  "context.prepare_turn": {
    kind: "waterfall";
    context: TurnTransformContext;
    flows: PreparedContext;
    item: PreparedContext;
  };
  "context.compact": { kind: "first"; context: CompactionContext; item: ContextCompaction };
  "model.error": { kind: "first"; context: ModelErrorHookContext; item: ModelErrorDecision };
  "recovery.decide": { kind: "first"; context: RecoveryHookContext; item: RecoveryDecision };
  "output.stream_finished": { kind: "notify"; context: AssistantStreamFinishedContext };
  "session.on_event": { kind: "notify"; context: LifecycleEvent };
}

export type HookName = keyof HookTypes;
export type HookKind = HookTypes[HookName]["kind"];
export type HookNameOf<Kind extends HookKind> = {
  [K in HookName]: HookTypes[K]["kind"] extends Kind ? K : never;
}[HookName];
export type HookContext<K extends HookName> = HookTypes[K]["context"];
export type HookItem<K extends HookName> = HookTypes[K] extends { item: infer Item } ? Item : never;

/** A handler as a plugin writes it. */
export type HookHandler<K extends HookName> = HookTypes[K] extends { kind: "collect"; item: infer Item }
  ? (ctx: HookContext<K>) => Awaitable<readonly Item[] | Item | Nothing>
  : HookTypes[K] extends { flows: infer Flow; item: infer Item }
    ? (ctx: HookContext<K>, current: Flow) => Awaitable<Item | Nothing>
    : HookTypes[K] extends { item: infer Item }
      ? (ctx: HookContext<K>) => Awaitable<Item | Nothing>
      : (ctx: HookContext<K>) => Awaitable<unknown>;

/**
 * What a replay does: `pure` runs again; `journaled` ran inside an effect and its answer is recorded;
 * `after_commit` runs at least once and cannot fail the turn.
 */
export type ReplayClass = "pure" | "journaled" | "after_commit";

export interface HookRow<K extends HookName> {
  readonly kind: HookTypes[K]["kind"];
  readonly replay: ReplayClass;
  /** The name in phase probes: `plugin_hook.<phase>.<plugin id>`. */
  readonly phase: string;
  /** A promise from a synchronous hook is an error that says so. */
  readonly isSynchronous?: boolean;
  /** Whether a probe is told of the hook under its phase name; lifecycle events have names of their own. */
  readonly isProbed?: boolean;
  /** All handlers start at once, and the failure of one is nobody else's. */
  readonly isConcurrent?: boolean;
}

export const HOOKS: { readonly [K in HookName]: HookRow<K> } = {
  "prompt.contribute": { kind: "collect", replay: "journaled", phase: "prompt_contributor" },
  "tool_catalog.contribute": { kind: "collect", replay: "pure", phase: "tool_catalog", isSynchronous: true },
  "turn.before": { kind: "collect", replay: "journaled", phase: "before_turn", isProbed: true },
  "turn.after": { kind: "collect", replay: "journaled", phase: "after_turn", isProbed: true },
  "turn.checkpoint": { kind: "collect", replay: "journaled", phase: "checkpoint" },
  "tool_calls.before": { kind: "collect", replay: "journaled", phase: "before_tool_call" },
  "tool_calls.after": { kind: "collect", replay: "journaled", phase: "after_tool_call" },
  "approval.request": { kind: "collect", replay: "journaled", phase: "approval_request" },
  "input.before": { kind: "waterfall", replay: "journaled", phase: "input_before" },
  "model.request": { kind: "waterfall", replay: "journaled", phase: "model_request" },
  "output.stream": { kind: "waterfall", replay: "journaled", phase: "stream" },
  "output.response": { kind: "waterfall", replay: "journaled", phase: "response" },
  "session.mutate_config": { kind: "waterfall", replay: "journaled", phase: "mutate_config" },
  "context.prepare_turn": {
    kind: "waterfall",
    replay: "journaled",
    phase: "context_transform",
    isProbed: true,
  },
  "context.compact": { kind: "first", replay: "journaled", phase: "compactor" },
  "model.error": { kind: "first", replay: "journaled", phase: "model_error" },
  "recovery.decide": { kind: "first", replay: "journaled", phase: "recovery_decide" },
  "output.stream_finished": { kind: "notify", replay: "journaled", phase: "stream_finished" },
  "session.on_event": { kind: "notify", replay: "after_commit", phase: "session_event", isConcurrent: true },
};

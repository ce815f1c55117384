// Every hook of a session as a method. Each returns a promise; `runner` has the same hooks by kind, for callers that do
// not want to wait where no handler does.

import { isPromise } from "../base/deferred.ts";
import type { ModelRequest } from "../llm/contract.ts";
import type { ModelResponse } from "../model/model-response.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { PromptContribution } from "../model/prompt.ts";
import type { TurnInput, TurnIssue } from "../model/turn.ts";
import { orderContributions } from "../prompt/collect.ts";
import type { Directive } from "./directive.ts";
import type {
  ApprovalDecision,
  ApprovalHookContext,
  AssistantResponseTransform,
  AssistantStreamTransform,
  CheckpointHookContext,
  CompactionContext,
  ContextCompaction,
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
  ToolResultHookContext,
  TurnHookContext,
  TurnResultHookContext,
  TurnTransformContext,
} from "./hook-context.ts";
import type { HookRunner, HookRunOptions, PluginOwned } from "./hook-runner.ts";
import type { Awaitable, HookContext } from "./hooks.ts";
import type { PluginParts } from "./plugin.ts";
import type { PhaseProbe } from "./probe.ts";

/** A probe alone, or everything a phase may be given. */
export type RunOptions = PhaseProbe | HookRunOptions;

/** An input after its hooks: accepted as it is now, or refused by a plugin. */
export type InputVerdict =
  | { readonly kind: "accepted"; readonly input: TurnInput }
  | { readonly kind: "rejected"; readonly pluginId: string; readonly code: string; readonly message: string };

/** One handler around tool calls, to be asked on its own. */
export interface AskableHook<K extends "tool_calls.before" | "tool_calls.after"> {
  readonly pluginId: string;
  ask(ctx: HookContext<K>): Promise<readonly Directive[]>;
}

export class SessionHooks {
  /** The hooks by kind. Answers come at once where every handler answers at once. */
  readonly runner: HookRunner;

  /** Whether an answer may be recorded before its hooks have seen it: no plugin says otherwise. */
  readonly recordsRawAnswers: boolean;

  constructor(runner: HookRunner, instances: readonly { readonly parts: Pick<PluginParts, "output"> }[]) {
    this.recordsRawAnswers = instances.every(({ parts }) => parts.output?.recordsRaw !== false);
    this.runner = runner;
  }

  get hasAssistantStreamHooks(): boolean {
    return this.runner.has("output.stream");
  }

  get hasAssistantResponseHooks(): boolean {
    return this.runner.has("output.response");
  }

  get hasAssistantStreamFinishedHooks(): boolean {
    return this.runner.has("output.stream_finished");
  }

  get hasRuntimeEventHooks(): boolean {
    return this.runner.has("session.on_event");
  }

  get hasContextTransforms(): boolean {
    return this.runner.has("context.prepare_turn");
  }

  get hasBeforeTurnHooks(): boolean {
    return this.runner.has("turn.before");
  }

  get hasAfterTurnHooks(): boolean {
    return this.runner.has("turn.after");
  }

  get hasCheckpointHooks(): boolean {
    return this.runner.has("turn.checkpoint");
  }

  get hasInputHooks(): boolean {
    return this.runner.has("input.before");
  }

  get hasModelRequestHooks(): boolean {
    return this.runner.has("model.request");
  }

  get hasApprovalHooks(): boolean {
    return this.runner.has("approval.request");
  }

  /** What plugins want in the prompt, each thing once, in order; see `orderContributions`. */
  async collectPromptContributions(
    ctx: PromptHookContext,
    options?: RunOptions,
  ): Promise<readonly PromptContribution[]> {
    const owned = await this.runner.collect("prompt.contribute", ctx, runOptions(options));
    return orderContributions(owned.map(({ value }) => value));
  }

  async beforeTurn(ctx: TurnHookContext, options?: RunOptions): Promise<readonly PluginOwned<Directive>[]> {
    return this.runner.collect("turn.before", ctx, runOptions(options));
  }

  async afterTurn(
    ctx: TurnResultHookContext,
    options?: RunOptions,
  ): Promise<readonly PluginOwned<Directive>[]> {
    return this.runner.collect("turn.after", ctx, runOptions(options));
  }

  async atCheckpoint(
    ctx: CheckpointHookContext,
    options?: RunOptions,
  ): Promise<readonly PluginOwned<Directive>[]> {
    return this.runner.collect("turn.checkpoint", ctx, runOptions(options));
  }

  /** Collects only: how directives of several plugins compose is decided in dispatch. */
  async beforeToolCall(
    ctx: ToolCallHookContext,
    options?: RunOptions,
  ): Promise<readonly PluginOwned<Directive>[]> {
    return this.runner.collect("tool_calls.before", ctx, runOptions(options));
  }

  /** Collects only: how directives of several plugins compose is decided in dispatch. */
  async afterToolCall(
    ctx: ToolResultHookContext,
    options?: RunOptions,
  ): Promise<readonly PluginOwned<Directive>[]> {
    return this.runner.collect("tool_calls.after", ctx, runOptions(options));
  }

  /** The handlers around tool calls one by one, in order; each is a phase of its own. */
  toolCallHooks<K extends "tool_calls.before" | "tool_calls.after">(
    hook: K,
    options?: RunOptions,
  ): readonly AskableHook<K>[] {
    return this.runner
      .each<"tool_calls.before" | "tool_calls.after">(hook, runOptions(options))
      .map(({ pluginId, ask }) => ({
        pluginId,
        ask: async (ctx: HookContext<K>): Promise<readonly Directive[]> => ask(ctx),
      }));
  }

  async requestApproval(
    ctx: ApprovalHookContext,
    options?: RunOptions,
  ): Promise<readonly PluginOwned<ApprovalDecision>[]> {
    return this.runner.collect("approval.request", ctx, runOptions(options));
  }

  /** Shows an input to its hooks; each sees what the one before made of it, and the first refusal ends it. */
  async transformInput(
    ctx: InputHookContext,
    decode: (raw: TurnInput | string) => TurnInput,
    options?: RunOptions,
  ): Promise<InputVerdict> {
    const start: InputVerdict = { kind: "accepted", input: ctx.input };
    return this.runner.waterfall<"input.before", InputVerdict>(
      "input.before",
      {
        start,
        context: (current) => (current.kind === "accepted" ? { ...ctx, input: current.input } : ctx),
        next: (current, item, pluginId) => {
          if (item === undefined) return current;
          return "reject" in item
            ? { kind: "rejected", pluginId, ...item.reject }
            : { kind: "accepted", input: decode(item.input) };
        },
        isDone: ({ kind }) => kind === "rejected",
      },
      runOptions(options),
    );
  }

  /** Lets hooks change a request; each sees it with the changes of those before. */
  async transformModelRequest(
    ctx: ModelRequestHookContext,
    patch: (request: ModelRequest, patch: ModelRequestPatch) => ModelRequest,
    options?: RunOptions,
  ): Promise<ModelRequest> {
    return this.runner.waterfall<"model.request", ModelRequest>(
      "model.request",
      {
        start: ctx.request,
        context: (request) => ({ ...ctx, request }),
        next: (request, item) => (item === undefined ? request : patch(request, item)),
      },
      runOptions(options),
    );
  }

  async decideOnModelError(
    ctx: ModelErrorHookContext,
    options?: RunOptions,
  ): Promise<ModelErrorDecision | undefined> {
    return (await this.runner.first("model.error", ctx, runOptions(options)))?.value;
  }

  async decideOnRecovery(
    ctx: RecoveryHookContext,
    options?: RunOptions,
  ): Promise<RecoveryDecision | undefined> {
    return (await this.runner.first("recovery.decide", ctx, runOptions(options)))?.value;
  }

  /** Pipes the prepared context through the transforms, highest priority first. */
  async prepareTurnContext(
    ctx: TurnTransformContext,
    input: PreparedContext,
    options?: RunOptions,
  ): Promise<PreparedContext> {
    return this.runner.waterfall<"context.prepare_turn", PreparedContext>(
      "context.prepare_turn",
      {
        start: input,
        context: () => ctx,
        argument: (prepared) => Object.freeze(prepared),
        next: (prepared, item) => item ?? prepared,
      },
      runOptions(options),
    );
  }

  /** The first compaction that has nodes to begin a frame with; nothing when no compactor has any. */
  async compactContext(ctx: CompactionContext, options?: RunOptions): Promise<ContextCompaction | undefined> {
    const accepts = ({ initialNodes }: ContextCompaction): boolean => initialNodes.length > 0;
    return (await this.runner.first("context.compact", ctx, { ...runOptions(options), accepts }))?.value;
  }

  /**
   * Every transform of a chunk, in order; the last one's chunk is what is shown. None without hooks. A promise only when a
   * hook returns one: a chunk costs its answers.
   */
  transformAssistantStream(
    sessionId: string,
    chunk: string,
    options?: RunOptions,
  ): Awaitable<readonly PluginOwned<AssistantStreamTransform>[]> {
    const made: PluginOwned<AssistantStreamTransform>[] = [];
    const walked = this.runner.waterfall<"output.stream", string>(
      "output.stream",
      {
        start: chunk,
        context: (current) => ({ sessionId, chunk: current }),
        next: (current, item, pluginId) => {
          const value = item ?? { chunk: current };
          made.push({ pluginId, value });
          return value.chunk;
        },
      },
      runOptions(options),
    );
    return isPromise(walked) ? walked.then(() => made) : made;
  }

  /** Every transform of a response, in order; the last one's response holds. None without hooks. */
  async transformAssistantResponse(
    sessionId: string,
    response: ModelResponse,
    options?: RunOptions,
  ): Promise<readonly PluginOwned<AssistantResponseTransform>[]> {
    return this.runner.waterfall<"output.response", readonly PluginOwned<AssistantResponseTransform>[]>(
      "output.response",
      {
        start: [],
        context: (made) => ({ sessionId, response: made.at(-1)?.value.response ?? response }),
        next: (made, item, pluginId) => [
          ...made,
          { pluginId, value: item ?? { response: made.at(-1)?.value.response ?? response } },
        ],
      },
      runOptions(options),
    );
  }

  /** Tells that a stream is over; the first failure ends it. */
  async finishAssistantStream(
    sessionId: string,
    reason: StreamFinishReason,
    options?: RunOptions,
  ): Promise<void> {
    await this.runner.notify("output.stream_finished", { sessionId, reason }, runOptions(options));
  }

  /** Tells everyone at once and waits for all; what failed is returned, by plugin id, and affects nobody. */
  async emitRuntimeEvent(event: LifecycleEvent, options?: RunOptions): Promise<readonly TurnIssue[]> {
    return this.runner.notify("session.on_event", event, runOptions(options));
  }

  /** Folds a policy through the mutators; one that fails is skipped. Never rejects. */
  async mutateSessionConfig(
    ctx: SessionConfigChangedContext,
    policy: SessionPolicy,
    options?: RunOptions,
  ): Promise<SessionPolicy> {
    return (await this.foldSessionConfig(ctx, policy, options)).policy;
  }

  /** As `mutateSessionConfig`, with the failures that were skipped. */
  async foldSessionConfig(
    ctx: SessionConfigChangedContext,
    policy: SessionPolicy,
    options?: RunOptions,
  ): Promise<{ readonly policy: SessionPolicy; readonly issues: readonly TurnIssue[] }> {
    const { result, issues } = await this.runner.isolatedWaterfall<"session.mutate_config", SessionPolicy>(
      "session.mutate_config",
      {
        start: policy,
        context: () => ctx,
        argument: (current) => current,
        next: (current, item) => item ?? current,
      },
      runOptions(options),
    );
    return { policy: result, issues };
  }
}

function runOptions(options: RunOptions | undefined): HookRunOptions | undefined {
  return options !== undefined && "beginNamed" in options ? { probe: options } : options;
}

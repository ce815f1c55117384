// How a plugin is written: one unit of tools, prompt, hooks, operations and state, built once per session.

import type { Json } from "../model/json.ts";
import type { ModelToolReturn } from "../model/tool-call.ts";
import type { SubagentContext, ToolAccess } from "../session/frame.ts";
import type { InferSchema, Schema, ToolProvider } from "../tool/contract.ts";
import type { ToolDefinition } from "../tool/define-tool.ts";
import type { MonitorDeclaration } from "../work/monitor.ts";
import type { DurableOptions, DurableState } from "./durable.ts";
import type { PluginExtension, PluginExtensions } from "./extensions.ts";
import type {
  CompactionContext,
  ContextCompaction,
  PreparedContext,
  ToolResultProjection,
  TurnTransformContext,
} from "./hook-context.ts";
import type { Awaitable, HookHandler, HookName, Nothing } from "./hooks.ts";
import type { RuntimeSessionHost } from "./host-services.ts";
import type { PluginOperations } from "./operation.ts";
import type { CodeExecutor, ProtocolDriverFactory, ProtocolSession } from "./protocol.ts";
import type { SnapshotMeta, SnapshotReader, SnapshotWriter } from "./snapshot.ts";
import type { TriggerDeclaration } from "./trigger.ts";
import type { ProcessRun } from "./work-host.ts";

/** One handler or several, run in the order given. */
export type Handlers<K extends HookName> = HookHandler<K> | readonly HookHandler<K>[];

export interface ContextTransform {
  readonly priority?: number;
  transform(ctx: TurnTransformContext, prepared: PreparedContext): Awaitable<PreparedContext | Nothing>;
}

export interface ContextCompactor {
  readonly priority?: number;
  compact(ctx: CompactionContext): Awaitable<ContextCompaction | Nothing>;
}

export type ToolResultProjector = (ctx: ToolResultProjection) => Awaitable<ModelToolReturn | string>;
export type ProseProjector = (text: string) => string;

export interface ReadyContext {
  readonly sessionId: string;
  readonly host: RuntimeSessionHost;
}

/** What `build` returns. Slots (`projector`, `proseProjector`, `protocol`, `codeExecutor`) have one owner in a session. */
export interface PluginParts {
  readonly tools?: ToolProvider | readonly (ToolDefinition | ToolProvider)[];
  readonly triggers?: readonly TriggerDeclaration[];
  readonly monitors?: readonly MonitorDeclaration[];
  /** What runs the plugin's durable tasks, by label: when they are started, and again after a restart. */
  readonly background?: { readonly [label: string]: ProcessRun };
  readonly prompt?: Handlers<"prompt.contribute">;
  readonly toolCatalog?: Handlers<"tool_catalog.contribute">;
  readonly turn?: {
    readonly before?: Handlers<"turn.before">;
    readonly after?: Handlers<"turn.after">;
    readonly checkpoint?: Handlers<"turn.checkpoint">;
  };
  readonly toolCalls?: {
    readonly before?: Handlers<"tool_calls.before">;
    readonly after?: Handlers<"tool_calls.after">;
  };
  readonly toolResults?: { readonly projector?: ToolResultProjector };
  readonly input?: { readonly before?: Handlers<"input.before"> };
  readonly model?: { readonly request?: Handlers<"model.request">; readonly error?: Handlers<"model.error"> };
  readonly approval?: { readonly request?: Handlers<"approval.request"> };
  readonly recovery?: { readonly decide?: Handlers<"recovery.decide"> };
  readonly output?: {
    readonly stream?: Handlers<"output.stream">;
    readonly response?: Handlers<"output.response">;
    readonly streamFinished?: Handlers<"output.stream_finished">;
    readonly proseProjector?: ProseProjector;
    /**
     * False when an answer must not be recorded before these hooks have seen it: they hide a part of it, or hold text of
     * the stream in memory. A process that dies in the hooks of an answer then buys that answer again. True by default.
     */
    readonly recordsRaw?: boolean;
  };
  readonly session?: {
    readonly onEvent?: Handlers<"session.on_event">;
    readonly mutateConfig?: Handlers<"session.mutate_config">;
  };
  readonly context?: {
    readonly prepareTurn?: ContextTransform | readonly ContextTransform[];
    readonly compact?: ContextCompactor | readonly ContextCompactor[];
  };
  readonly operations?: PluginOperations;
  readonly protocol?: { readonly session?: ProtocolSession; readonly driver?: ProtocolDriverFactory };
  readonly execution?: { readonly codeExecutor?: CodeExecutor };
  /** The low-level form of state, beside `ctx.durable`: what `snapshot` returns becomes `meta.state`. */
  readonly snapshot?: (writer: SnapshotWriter) => Json | Nothing;
  readonly restore?: (meta: SnapshotMeta, reader: SnapshotReader) => void;
  /** Must move whenever what `snapshot` would write has changed. */
  readonly revision?: () => number;
  readonly ready?: (ctx: ReadyContext) => void;
  readonly dispose?: () => Awaitable<void>;
}

/** What `build` is given. */
export interface PluginBuildContext<Options = unknown> {
  readonly sessionId: string;
  readonly parentSessionId: string | undefined;
  readonly isRoot: boolean;
  readonly options: Options;
  /** What it may call as it is built; the host may change that later. */
  readonly toolAccess: ToolAccess;
  readonly subagent: SubagentContext | undefined;
  readonly extensions: PluginExtensions;
  /** Declares state that commits with the turn, migrates by its version and forks by its policy. */
  durable<T>(options: DurableOptions<T>): DurableState<T>;
}

export interface PluginSpec<O extends Schema | undefined, Parts extends PluginParts> {
  readonly id: string;
  readonly version?: string;
  readonly options?: O;
  readonly extensions?: readonly { readonly id: string; readonly payload: unknown }[];
  /** Runs for every session that opens, forks or is created as a child: no I/O, nothing slow. */
  build(ctx: PluginBuildContext<O extends Schema ? InferSchema<O> : undefined>): Parts;
}

/** A plugin with its options, ready to be given to a runtime. */
export interface Plugin {
  readonly id: string;
  readonly version: string;
  readonly extensions: readonly PluginExtension[];
  /** Checks options for one session; without any, those of this plugin hold. */
  decodeOptions(raw: Json | undefined): unknown;
  build(ctx: PluginBuildContext<never>): PluginParts;
}

/** What `definePlugin` returns: call it with options to get a plugin. */
export interface PluginDefinition<
  O extends Schema | undefined = Schema | undefined,
  Parts extends PluginParts = PluginParts,
> {
  (options?: O extends Schema ? InferSchema<O> : undefined): Plugin;
  readonly id: string;
  readonly spec: PluginSpec<O, Parts>;
}

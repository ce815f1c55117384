// Operations: what a host may ask of a plugin by name.

import type { Json } from "../model/json.ts";
import type { ToolOutput } from "../model/tool-output.ts";
import type { PluginEvent, TurnInput } from "../model/turn.ts";
import type { InferSchema, Schema } from "../tool/contract.ts";
import type {
  PluginActionHost,
  SessionGraphService,
  SessionLifecycleService,
  SessionReadService,
  SessionStateService,
} from "./host-services.ts";
import type { ProcessReadService, ProcessService } from "./work-host.ts";

type Awaitable<T> = T | Promise<T>;

/** Whether an operation is about a session: it must be, may be, or must not be. */
export type SessionParam = "required" | "optional" | "forbidden";
export type OperationKind = "query" | "command" | "task" | "action";

export interface OperationDef {
  readonly name: string;
  readonly description: string;
  readonly kind: OperationKind;
  readonly session: SessionParam;
  readonly inputSchema: Json;
  readonly outputSchema: Json;
  readonly pluginId: string;
}

export interface QueryContext {
  readonly sessionId: string | undefined;
  readonly sessions: SessionReadService;
  /** The tasks of sessions. */
  readonly processes: ProcessReadService;
}

export interface CommandContext {
  readonly sessionId: string | undefined;
  readonly sessions: SessionStateService;
  readonly sessionLifecycle: SessionLifecycleService;
  readonly sessionGraph: SessionGraphService;
  readonly processes: ProcessService;
}

export interface TaskContext extends CommandContext {
  readonly signal: AbortSignal;
  /** Names the run: `<session>:plugin_task:<name>:<n>`. */
  readonly scope: string;
}

export interface ActionContext {
  readonly sessionId: string | undefined;
  readonly host: PluginActionHost;
}

/** The context of each kind. */
export interface OperationContexts {
  readonly query: QueryContext;
  readonly command: CommandContext;
  readonly task: TaskContext;
  readonly action: ActionContext;
}

export type OperationDirective = {
  readonly kind: "queue_turn";
  readonly input: TurnInput | string;
  readonly key?: string;
};

/** What a command or task comes to when it wants more than an output. */
export interface OperationOutcome {
  readonly output: unknown;
  readonly events?: readonly PluginEvent[];
  readonly directives?: readonly OperationDirective[];
}

/** What a command or task came to, checked. */
export interface SettledOutcome {
  readonly output: Json;
  readonly events: readonly PluginEvent[];
  readonly directives: readonly OperationDirective[];
}

/** `input` and `output` are checked on the way in and out. */
export interface Operation<Context, In extends Schema | undefined = Schema | undefined, Result = unknown> {
  readonly session?: SessionParam;
  readonly description?: string;
  readonly input?: In;
  readonly output?: Schema;
  handler(ctx: Context, args: In extends Schema ? InferSchema<In> : Json): Awaitable<Result>;
}

export type Query = Operation<QueryContext>;
export type Command = Operation<CommandContext>;
export type Task = Operation<TaskContext>;
export type Action = Operation<ActionContext, Schema | undefined, ToolOutput | unknown>;

export interface PluginOperations {
  readonly queries?: Readonly<Record<string, Query>>;
  readonly commands?: Readonly<Record<string, Command>>;
  readonly tasks?: Readonly<Record<string, Task>>;
  readonly actions?: Readonly<Record<string, Action>>;
}

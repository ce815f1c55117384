// The operations of a session as calls: defaults for the caller's options, and contexts with nothing but their services.

import { MarlingError, messageOf } from "../base/errors.ts";
import { encodeAttachmentSource } from "../model/attachment.ts";
import type { Json } from "../model/json.ts";
import { isPendingResult, type PendingResult, type ToolOutput } from "../model/tool-output.ts";
import { mapAttachments } from "../model/tool-value.ts";
import type { Schema } from "../tool/contract.ts";
import { compileSchema } from "../tool/schema.ts";
import { endingView, type HostServices, serviceView } from "./host-services.ts";
import { decodeActionOutput, type OperationTarget, runAction, runOperation } from "./invoke-operation.ts";
import type { CommandContext, SettledOutcome } from "./operation.ts";
import { type ProcessReadService, type ProcessService, processReadView, processView } from "./work-host.ts";

interface CallOptions {
  /** Whose operation it is: by default this session's; `null` is none. The id is not checked. */
  readonly session?: string | null;
  readonly defaultToCurrentSession?: boolean;
}

/** Services may be given in part; what is missing rejects with `host_service_unavailable`. */
export interface QueryOptions extends CallOptions {
  readonly services?: {
    readonly sessions?: Partial<HostServices>;
    readonly processes?: Partial<ProcessReadService>;
  };
  /** What declared state shows: values of the running turn, or of the last commit. */
  readonly sees?: "working" | "committed";
}

export interface CommandOptions extends CallOptions {
  readonly services?: {
    readonly sessions?: Partial<HostServices>;
    readonly sessionLifecycle?: Partial<HostServices>;
    readonly sessionGraph?: Partial<HostServices>;
    readonly processes?: Partial<ProcessService>;
  };
}

export interface TaskOptions extends CallOptions {
  readonly services?: NonNullable<CommandOptions["services"]> & {
    readonly signal?: AbortSignal;
    readonly scope?: string;
  };
  readonly signal?: AbortSignal;
  readonly scope?: string;
}

export interface ActionOptions<T = unknown> extends CallOptions {
  readonly services?: { readonly host?: Partial<HostServices> };
  /** Checks the value of a typed call. */
  readonly output?: Schema<T>;
}

export class PluginOperationCalls {
  readonly #target: OperationTarget & { isBound(): boolean };
  #tasks = 0;

  constructor(target: OperationTarget & { isBound(): boolean }) {
    this.#target = target;
  }

  async query(
    name: string,
    args: unknown,
    options: QueryOptions = {},
  ): Promise<{ readonly pluginId: string; readonly output: Json }> {
    const sessions = serviceView(options.services?.sessions ?? {}, "read");
    const processes = processReadView(options.services?.processes ?? {});
    // Without a host there are no commits, so what hooks left is all there is to see.
    const sees = options.sees ?? (this.#target.isBound() ? "committed" : "working");
    const call = {
      kind: "query",
      name,
      args,
      ...who(options),
      sees,
      context: (sessionId: string | undefined) => ({ sessionId, sessions, processes }),
    } as const;
    const { pluginId, outcome } = await runOperation(this.#target, call);
    return { pluginId, output: outcome.output };
  }

  async command(
    name: string,
    args: unknown,
    options: CommandOptions = {},
  ): Promise<{ readonly pluginId: string; readonly outcome: SettledOutcome }> {
    const services = commandServices(options.services);
    const context = (sessionId: string | undefined): CommandContext => ({ sessionId, ...services });
    return runOperation(this.#target, {
      kind: "command",
      name,
      args,
      ...who(options),
      sees: "working",
      context,
    });
  }

  async task(
    name: string,
    args: unknown,
    options: TaskOptions = {},
  ): Promise<{ readonly pluginId: string; readonly outcome: SettledOutcome }> {
    const signal = options.signal ?? options.services?.signal ?? new AbortController().signal;
    const scope =
      options.scope ??
      options.services?.scope ??
      `${this.#target.sessionId}:plugin_task:${name}:${this.#tasks++}`;
    const services = { ...commandServices(options.services), signal, scope };
    const context = (sessionId: string | undefined): CommandContext => ({ sessionId, ...services });
    return runOperation(this.#target, {
      kind: "task",
      name,
      args,
      ...who(options),
      sees: "working",
      context,
    });
  }

  async action(
    name: string,
    args: unknown,
    options: ActionOptions = {},
  ): Promise<ToolOutput | PendingResult> {
    const { host, end } = endingView(options.services?.host ?? {}, "action");
    try {
      return await runAction(this.#target, {
        kind: "action",
        name,
        args,
        ...who(options),
        sees: "working",
        context: (sessionId) => ({ sessionId, host }),
      });
    } finally {
      end();
    }
  }

  async typedAction<T>(name: string, args: unknown, options: ActionOptions<T> = {}): Promise<T> {
    const { output: schema, ...rest } = options;
    const output = await this.action(name, args, rest);
    if (isPendingResult(output)) throw failed(name, "expected a completed output, found a pending result");
    const { outcome } = output;
    if (outcome.kind !== "success") throw failed(name, outcome.message);
    const value = mapAttachments(outcome.value, encodeAttachmentSource);
    const check = schema === undefined ? undefined : compileSchema(schema, `action ${name}: output`);
    try {
      // Without a schema the caller says what the value is.
      return (await decodeActionOutput(value, check, name)) as T;
    } catch (cause) {
      throw failed(name, messageOf(cause), cause);
    }
  }
}

function who({ session, defaultToCurrentSession = true }: CallOptions): {
  readonly session: string | null | undefined;
  readonly defaultToCurrentSession: boolean;
} {
  return { session, defaultToCurrentSession };
}

function commandServices(given: CommandOptions["services"]): Omit<CommandContext, "sessionId"> {
  return {
    sessions: serviceView(given?.sessions ?? {}, "state"),
    sessionLifecycle: serviceView(given?.sessionLifecycle ?? {}, "lifecycle"),
    sessionGraph: serviceView(given?.sessionGraph ?? {}, "graph"),
    processes: processView(given?.processes ?? {}),
  };
}

function failed(name: string, reason: string, cause?: unknown): MarlingError {
  return new MarlingError("operation_failed", `action ${name} failed: ${reason}`, {
    ...(cause === undefined ? {} : { cause }),
    details: { operation: name },
  });
}

// Operations of plugins, as a host calls them.
//   OP1  a query reads what is committed and never waits for a turn.
//   OP2  a command or task takes its turn as a writer; its events, state and queued inputs are one commit.

import { MarlingError } from "../base/errors.ts";
import type { PluginId } from "../model/ids.ts";
import { type Json, decodeJson } from "../model/json.ts";
import { type ToolOutput, isPendingResult, toolFailure } from "../model/tool-output.ts";
import type { PluginEvent } from "../model/turn.ts";
import type { CommandContext, OperationDirective, TaskContext } from "../plugin/operation.ts";
import { appendToGraph } from "../session/graph.ts";
import type { NodeDraft } from "../session/node.ts";
import type { NewInput } from "../store/contract.ts";
import { decodeTurnInput } from "./admit.ts";
import { commitChange, operationOf } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";
import type { TurnQueue } from "./turn-queue.ts";

/** Whose operation it is: by default this session's; `null` is none. */
export interface OperationOptions {
  readonly session?: string | null;
  readonly signal?: AbortSignal;
}

export interface CommandReceipt {
  readonly output: Json;
  readonly events: readonly { readonly pluginId: string; readonly event: PluginEvent }[];
  readonly pendingInputs: readonly { readonly inputId: string; readonly turnId: string }[];
}

export type TaskReceipt = CommandReceipt;

export async function queryPlugin(session: ResidentSession, name: string, args: unknown, options: OperationOptions = {}): Promise<Json> {
  const { services, plugins } = session;
  const { output } = await plugins.queryPlugin(name, operationArgs(name, args), { ...target(options), services: { sessions: services } });
  return output;
}

export function runCommand(session: ResidentSession, queue: TurnQueue, call: { readonly name: string; readonly args: unknown; readonly options?: OperationOptions }): Promise<CommandReceipt> {
  const { name, options = {} } = call;
  const args = operationArgs(name, call.args);
  return session.writer.run(async () => {
    const { pluginId, outcome } = await session.plugins.runPluginCommand(name, args, { ...target(options), services: commandServices(session) });
    return settle(session, queue, { name, pluginId, outcome });
  });
}

export function runTask(session: ResidentSession, queue: TurnQueue, call: { readonly name: string; readonly args: unknown; readonly options?: OperationOptions }): Promise<TaskReceipt> {
  const { name, options = {} } = call;
  const args = operationArgs(name, call.args);
  return session.writer.run(async () => {
    const scope = `${session.id}:plugin_task:${name}:${session.state.operations}`;
    const services: Omit<TaskContext, "sessionId"> = { ...commandServices(session), scope, signal: options.signal ?? new AbortController().signal };
    const { pluginId, outcome } = await session.plugins.runPluginTask(name, args, { ...target(options), services });
    return settle(session, queue, { name, pluginId, outcome });
  });
}

export function invokeAction(session: ResidentSession, call: { readonly name: string; readonly args: unknown; readonly options?: OperationOptions }): Promise<ToolOutput> {
  const { name, options = {} } = call;
  const args = operationArgs(name, call.args);
  return session.writer.run(async () => {
    const result = await session.plugins.invokePluginAction(name, args, { ...target(options), services: { host: session.host("action") } });
    await commitChange(session, { operation: operationOf(session, "action").operation, change: (graph) => ({ graph, nodes: [] }) });
    return isPendingResult(result) ? toolFailure({ code: "pending_action", class: "internal", message: `The action ${name} returned a pending result, which actions cannot.` }) : result;
  });
}

function commandServices(session: ResidentSession): Omit<CommandContext, "sessionId"> {
  const { services } = session;
  return { sessions: services, sessionLifecycle: services, sessionGraph: services };
}

function target({ session }: OperationOptions): { readonly session?: string; readonly defaultToCurrentSession: boolean } {
  return typeof session === "string" ? { session, defaultToCurrentSession: true } : { defaultToCurrentSession: session !== null };
}

function operationArgs(name: string, args: unknown): Json {
  try {
    return decodeJson(args === undefined ? {} : args, "arguments");
  } catch (cause) {
    throw new MarlingError("invalid_operation_args", `operation ${name}: ${(cause as Error).message}`, { cause, details: { operation: name } });
  }
}

interface Ran {
  readonly name: string;
  readonly pluginId: string;
  readonly outcome: { readonly output: Json; readonly events: readonly PluginEvent[]; readonly directives: readonly OperationDirective[] };
}

/** Commits what an operation came to, and starts what it queued. */
async function settle(session: ResidentSession, queue: TurnQueue, { name, pluginId, outcome }: Ran): Promise<CommandReceipt> {
  const operation = operationOf(session, "operation");
  const bodies = outcome.events.map((event): NodeDraft => ({ kind: "protocol_event", pluginId: pluginId as PluginId, payload: { pluginId, event: event as unknown as Json } }));
  try {
    const committed = await commitChange(session, {
      operation: operation.operation,
      change: (graph) => appendToGraph(graph, bodies, operation),
      enqueues: outcome.directives.map((directive) => newInput(session, directive)),
    });
    queue.enqueue(committed.enqueued);
    const pendingInputs = committed.enqueued.map(({ inputId, turnId }) => ({ inputId, turnId }));
    return { output: outcome.output, events: outcome.events.map((event) => ({ pluginId, event })), pendingInputs };
  } catch (cause) {
    session.plugins.rollbackState();
    throw new MarlingError("operation_failed", `operation ${name} of plugin ${pluginId}: ${(cause as Error).message}`, { cause, details: { operation: name, pluginId } });
  }
}

function newInput(session: ResidentSession, { input, key }: OperationDirective): NewInput {
  const content = { input: decodeTurnInput(input, "queue_turn") as unknown as Json };
  return { sessionId: session.id, submitted: content, input: content, ...(key === undefined ? {} : { key }) };
}


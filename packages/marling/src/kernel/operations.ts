// Operations of plugins, as a host calls them.
//   OP1  a query reads what is committed and never waits for a turn.
//   OP2  a command or task takes its turn as a writer; its events, state and queued inputs are one commit.
//   OP3  what another runtime committed is taken over before an operation begins.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { PluginId } from "../model/ids.ts";
import type { Json } from "../model/json.ts";
import { isPendingResult, type ToolOutput, toolFailure } from "../model/tool-output.ts";
import type { PluginEvent } from "../model/turn.ts";
import type { CommandContext, OperationDirective, TaskContext } from "../plugin/operation.ts";
import { appendToGraph } from "../session/graph.ts";
import type { NodeDraft } from "../session/node.ts";
import type { NewInput } from "../store/contract.ts";
import { acceptInput, comparable, decodeTurnInput } from "./admit.ts";
import { requireBindings } from "./bindings.ts";
import { refreshIdle, refreshToDrive } from "./claim-session.ts";
import { type Change, commitChange, hasMovedState, operationOf, stateChange } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";
import { reach } from "./session-reach.ts";
import { isMachineryFault } from "./turn-fault.ts";
import type { TurnQueue } from "./turn-queue.ts";
import { processReads, processServices } from "./work-host.ts";

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

interface OperationCall {
  readonly name: string;
  readonly args: unknown;
  readonly options?: OperationOptions;
}

export async function queryPlugin(
  session: ResidentSession,
  { name, args, options = {} }: OperationCall,
): Promise<Json> {
  const { services, plugins } = session;
  await refreshIdle(session);
  requireBindings(session);
  const { output } = await plugins.queryPlugin(name, args, {
    ...target(options),
    services: { sessions: services, processes: processReads(session, (id) => reach(session, id)) },
  });
  return output;
}

export function runCommand(
  session: ResidentSession,
  queue: TurnQueue,
  call: OperationCall,
): Promise<CommandReceipt> {
  const { name, args, options = {} } = call;
  return session.writer.run(async () => {
    await refreshToDrive(session);
    const ran = await session.plugins.runPluginCommand(name, args, {
      ...target(options),
      services: commandServices(session, `${session.id}:plugin_command:${name}:${session.state.operations}`),
    });
    return settle(session, queue, { name, ...ran });
  });
}

export function runTask(
  session: ResidentSession,
  queue: TurnQueue,
  call: OperationCall,
): Promise<TaskReceipt> {
  const { name, args, options = {} } = call;
  return session.writer.run(async () => {
    await refreshToDrive(session);
    const scope = `${session.id}:plugin_task:${name}:${session.state.operations}`;
    const { signal = new AbortController().signal } = options;
    const services: Omit<TaskContext, "sessionId"> = { ...commandServices(session, scope), scope, signal };
    const ran = await session.plugins.runPluginTask(name, args, { ...target(options), services });
    return settle(session, queue, { name, ...ran });
  });
}

export function invokeAction(
  session: ResidentSession,
  { name, args, options = {} }: OperationCall,
): Promise<ToolOutput> {
  return session.writer.run(async () => {
    await refreshToDrive(session);
    const result = await session.plugins.invokePluginAction(name, args, {
      ...target(options),
      services: { host: session.host("action") },
    });
    if (hasMovedState(session)) await commitChange(session, () => stateChange(session, "action"));
    if (!isPendingResult(result)) return result;
    const message = `The action ${name} returned a pending result, which actions cannot.`;
    return toolFailure({ code: "pending_action", class: "internal", message });
  });
}

function commandServices(session: ResidentSession, invocation: string): Omit<CommandContext, "sessionId"> {
  const { services } = session;
  const processes = processServices(session, (id) => reach(session, id), { parentInvocation: invocation });
  return { sessions: services, sessionLifecycle: services, sessionGraph: services, processes };
}

function target({ session }: OperationOptions): {
  readonly session?: string;
  readonly defaultToCurrentSession: boolean;
} {
  return typeof session === "string"
    ? { session, defaultToCurrentSession: true }
    : { defaultToCurrentSession: session !== null };
}

interface Ran {
  readonly name: string;
  readonly pluginId: string;
  readonly outcome: {
    readonly output: Json;
    readonly events: readonly PluginEvent[];
    readonly directives: readonly OperationDirective[];
  };
}

/** Commits what an operation came to, if that is anything, and starts what it queued. */
async function settle(
  session: ResidentSession,
  queue: TurnQueue,
  { name, pluginId, outcome }: Ran,
): Promise<CommandReceipt> {
  const { output, events, directives } = outcome;
  const receipt = { output, events: events.map((event) => ({ pluginId, event })) };
  if (events.length === 0 && directives.length === 0 && !hasMovedState(session))
    return { ...receipt, pendingInputs: [] };
  try {
    const enqueues: NewInput[] = [];
    for (const directive of directives) enqueues.push(await newInput(session, directive));
    const committed = await commitChange(session, () => ({
      ...eventsChange(session, pluginId, events),
      enqueues,
    }));
    queue.enqueue(committed.enqueued);
    return {
      ...receipt,
      pendingInputs: committed.enqueued.map(({ inputId, turnId }) => ({ inputId, turnId })),
    };
  } catch (cause) {
    session.plugins.rollbackState();
    if (isMachineryFault(cause)) throw cause;
    const message = `operation ${name} of plugin ${pluginId}: ${messageOf(cause)}`;
    throw new MarlingError("operation_failed", message, { cause, details: { operation: name, pluginId } });
  }
}

/** Events of an operation become nodes of the history. */
function eventsChange(session: ResidentSession, pluginId: string, events: readonly PluginEvent[]): Change {
  const operation = operationOf(session, "operation");
  const bodies = events.map((event): NodeDraft => {
    const payload = { pluginId, event: event as unknown as Json };
    return { kind: "protocol_event", pluginId: pluginId as PluginId, payload };
  });
  return { operation: operation.operation, change: (graph) => appendToGraph(graph, bodies, operation) };
}

async function newInput(session: ResidentSession, { input, key }: OperationDirective): Promise<NewInput> {
  const submitted = decodeTurnInput(input, "queue_turn");
  const accepted = await acceptInput(session, submitted);
  return {
    sessionId: session.id,
    submitted: { input: comparable(session, submitted) },
    input: { input: accepted as unknown as Json },
    ...(key === undefined ? {} : { key }),
  };
}

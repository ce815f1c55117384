// Tasks, monitors and triggers as plugins and hosts ask for them.

import { MarlingError } from "../base/errors.ts";
import { textOf, toMessage } from "../model/message.ts";
import type {
  InjectedInput,
  MonitorHost,
  ProcessReadService,
  ProcessRun,
  ProcessService,
  TaskHost,
  TriggerHost,
} from "../plugin/work-host.ts";
import type { TaskRecord, TaskRun, TaskSpec } from "../work/task.ts";
import { type ChildSession, submitBelow } from "./child-turns.ts";
import { readKey } from "./read-key.ts";
import type { ResidentSession } from "./resident-session.ts";
import { serviceKey } from "./service-scope.ts";
import { monitorSnapshot, startMonitor, stopMonitor, takeMonitorUpdates } from "./session-monitors.ts";
import type { QueuedTurn } from "./turn-queue.ts";
import type { TurnRun } from "./turn-run.ts";

/** Finds a session that may be reached; rejects for any other. */
type Reach = (id: string) => Promise<ResidentSession>;

/** What effects are part of the services are asked from; none beside turns. */
type Scope = TurnRun | undefined;

export function taskServices(from: ResidentSession, reach: Reach, scope: Scope): TaskHost {
  const { tasks, hidden, handles } = from.parts.work;
  const { limit } = from.plugins.runner;
  const idOf = async (id: string): Promise<string> => (await reach(id)).id;
  return {
    injectTurnInput: async (id, input) => inject({ from, to: await reach(id), scope }, input),
    spawnHiddenTask: async (id, label, task) => hidden.spawnHidden(await idOf(id), label, task),
    awaitHiddenTasks: (id) => limit.during(async () => hidden.awaitHidden(await idOf(id))),
    spawnManagedTask: async (id, spec, task) => {
      await spawn({ session: await reach(id), scope }, spec, task);
    },
    cancelManagedTask: async (id, taskId) => tasks.cancelManaged(await idOf(id), taskId),
    registerBackgroundTask: async (id, spec, cancel) => {
      const session = await reach(id);
      const register = () => tasks.register(session.id, spec, cancel === undefined ? {} : { cancel });
      await (spec.durable === undefined ? register() : session.work.asOwner(register));
    },
    unregisterBackgroundTask: async (id, taskId) => tasks.unregister(await idOf(id), taskId),
    completeBackgroundTask: async (id, taskId, completion) =>
      tasks.complete(
        await idOf(id),
        taskId,
        typeof completion === "string" ? { state: completion } : completion,
      ),
    transitionBackgroundTaskLiveState: async (id, taskId, state) =>
      tasks.transition(await idOf(id), taskId, state),
    listBackgroundTasks: async (id) => tasks.list(await idOf(id)),
    cancelBackgroundTask: async (id, taskId) => tasks.cancel(await idOf(id), taskId),
    cancelAllBackgroundTasks: async (id) => tasks.cancelAll(await idOf(id)),
    validateAsyncHandlesVisible: async (id, ids) => handles.validateVisible(await idOf(id), ids),
    transferAsyncHandles: async (source, to, ids) => {
      const target = await reach(to);
      const sourceId = await idOf(source);
      const transfer = async (): Promise<void> => handles.transfer(sourceId, target.id, ids);
      const isDurable = ids.some((taskId) => tasks.get(sourceId, taskId)?.durable !== undefined);
      await (isDurable ? target.work.asOwner(transfer) : transfer());
    },
    cancelUnreferencedAsyncHandles: async (id, keep) => handles.cancelUnreferenced(await idOf(id), keep),
  };
}

export function monitorServices(reach: Reach): MonitorHost {
  return {
    monitorSnapshot: async (id) => monitorSnapshot(await reach(id)),
    takeMonitorUpdates: async (id) => takeMonitorUpdates(await reach(id)),
    startMonitor: async (id, spec) => startMonitor(await reach(id), spec),
    stopMonitor: async (id, monitorId) => stopMonitor(await reach(id), monitorId),
  };
}

export function triggerServices({ parts }: ResidentSession, reach: Reach): TriggerHost {
  const { triggers } = parts;
  return {
    subscribeTrigger: async (id, options) =>
      triggers.subscribe({ ...options, sessionId: (await reach(id)).id }),
    unsubscribeTrigger: async (id, subscriptionId) =>
      triggers.unsubscribe(subscriptionId, { sessionId: (await reach(id)).id }),
    listTriggers: async (id, page) => triggers.subscriptions({ ...page, sessionId: (await reach(id)).id }),
  };
}

export function processReads(from: ResidentSession, reach: Reach): ProcessReadService {
  const { tasks } = from.parts.work;
  return Object.freeze({
    list: async (id: string) => tasks.list((await reach(id)).id),
    get: async (id: string, processId: string) => tasks.get((await reach(id)).id, processId),
  });
}

export function processServices(
  from: ResidentSession,
  reach: Reach,
  { parentInvocation, scope }: { readonly parentInvocation: string; readonly scope?: Scope },
): ProcessService {
  const { work } = from.parts;
  const { limit } = from.plugins.runner;
  return Object.freeze({
    ...processReads(from, reach),
    parentInvocation,
    start: async (id: string, spec: TaskSpec, run?: ProcessRun) =>
      spawn({ session: await reach(id), scope }, spec, run),
    await: (id: string, processId: string) =>
      limit.during(async () => work.tasks.settled((await reach(id)).id, processId)),
    signal: async (id: string, processId: string, message: unknown) =>
      work.signal((await reach(id)).id, processId, message),
    cancel: async (id: string, processId: string) => work.tasks.cancel((await reach(id)).id, processId),
  });
}

interface Place {
  readonly session: ResidentSession;
  readonly scope: Scope;
}

/** Runs a task of a session. A durable one that an effect started before is found by the effect, not started again. */
async function spawn(
  { session, scope }: Place,
  spec: TaskSpec,
  run: ProcessRun | undefined,
): Promise<TaskRecord> {
  const { tasks } = session.parts.work;
  if (spec.durable === undefined) return tasks.spawnManaged(session.id, spec, workOf(session, spec, run));
  const key = spec.idempotencyKey ?? (scope === undefined ? undefined : serviceKey(scope, "task", undefined));
  const keyed = key === undefined ? spec : { ...spec, idempotencyKey: key };
  const begin = async (): Promise<TaskRecord> => {
    const known = key === undefined ? undefined : tasks.get(session.id, spec.id);
    if (known !== undefined && known.idempotencyKey === key) return known;
    return tasks.spawnManaged(session.id, keyed, workOf(session, keyed, run));
  };
  if (spec.durable.recovery !== "rerun") return session.work.asOwner(begin);
  return (await session.work.ifOwner(begin)) ?? request(session, keyed, run);
}

/** What a restart finds, the runtime that has the work of the session finds too. */
async function request(
  session: ResidentSession,
  spec: TaskSpec,
  run: ProcessRun | undefined,
): Promise<TaskRecord> {
  workOf(session, spec, run);
  return session.work.request(spec);
}

/** What a restart shall run again is run by what a restart finds: the plugin's work of that label. */
function workOf(session: ResidentSession, spec: TaskSpec, run: ProcessRun | undefined): TaskRun {
  const declared = session.work.runner(spec);
  const isRerun = spec.durable?.recovery === "rerun";
  if (declared !== undefined && (isRerun || run === undefined)) return declared;
  if (run !== undefined && !isRerun) return session.parts.work.withSignals(session.id, run);
  const { id, producer, label } = spec;
  const expected = isRerun ? "work that a restart finds" : "work to run";
  const message = `task ${id}: expected ${expected}, found no background of plugin ${producer} with label ${String(label)}`;
  throw new MarlingError("invalid_task", message, {
    details: { taskId: id, producer, label: label ?? null },
  });
}

interface Injection {
  readonly from: ResidentSession;
  readonly to: ResidentSession;
  readonly scope: Scope;
}

async function inject({ from, to, scope }: Injection, { id, message }: InjectedInput): Promise<void> {
  const words = toMessage(message, "injected");
  const attachments = words.parts.flatMap((part) => (part.kind === "attachment" ? [part.source] : []));
  const input = { text: textOf(words), ...(attachments.length === 0 ? {} : { attachments }) };
  const key =
    readKey(id, "injected input: id") ??
    (scope === undefined ? undefined : `${from.id}:${serviceKey(scope, "injected", undefined)}`);
  const options = {
    deliver: "active_turn",
    cause: { kind: "injected", id: from.id },
    isInside: scope !== undefined || from.writer.length > 0 || from.parts.sessions.isClosing(),
    ...(key === undefined ? {} : { key: `injection:${key}` }),
  } as const;
  const submit = async ({ queue }: ChildSession): Promise<QueuedTurn> =>
    (await queue.submit(input, options)).turn;
  await submitBelow(from, to.id, { scope, submit });
}

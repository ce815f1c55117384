// Tasks and monitors as plugins and hosts ask for them.

import type { AsyncQueue } from "../base/async-queue.ts";
import type { Json } from "../model/json.ts";
import { textOf, toMessage } from "../model/message.ts";
import type {
  InjectedInput,
  MonitorHost,
  ProcessReadService,
  ProcessService,
  TaskHost,
} from "../plugin/work-host.ts";
import type { MonitorDeclaration, MonitorSnapshot } from "../work/monitor.ts";
import type { TaskContext, TaskRecord, TaskRun, TaskSpec } from "../work/task.ts";
import type { ResidentSession } from "./resident-session.ts";

/** Finds a session that may be reached; rejects for any other. */
type Reach = (id: string) => Promise<ResidentSession>;

export function taskServices(from: ResidentSession, reach: Reach): TaskHost {
  const { tasks, hidden, handles } = from.parts.work;
  const { limit } = from.plugins.runner;
  const idOf = async (id: string): Promise<string> => (await reach(id)).id;
  return {
    injectTurnInput: async (id, input) => inject(from, await reach(id), input),
    spawnHiddenTask: async (id, label, task) => hidden.spawnHidden(await idOf(id), label, task),
    awaitHiddenTasks: (id) => limit.during(async () => hidden.awaitHidden(await idOf(id))),
    spawnManagedTask: async (id, spec, task) => {
      await spawn(await reach(id), spec, task);
    },
    cancelManagedTask: async (id, taskId) => tasks.cancelManaged(await idOf(id), taskId),
    registerBackgroundTask: async (id, spec, cancel) => {
      await tasks.register(await idOf(id), spec, cancel === undefined ? {} : { cancel });
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
    transferAsyncHandles: async (source, to, ids) =>
      handles.transfer(await idOf(source), await idOf(to), ids),
    cancelUnreferencedAsyncHandles: async (id, keep) => handles.cancelUnreferenced(await idOf(id), keep),
  };
}

export function monitorServices(reach: Reach): MonitorHost {
  return {
    monitorSnapshot: async (id) => (await reach(id)).work.monitors.snapshot(),
    takeMonitorUpdates: async (id) => (await reach(id)).work.monitors.takeUpdates(),
    startMonitor: async (id, spec) => startMonitor(await reach(id), spec),
    stopMonitor: async (id, monitorId) => (await reach(id)).work.monitors.stop(monitorId),
  };
}

/** Starts a monitor, which is a task of its session for as long as it runs. */
export async function startMonitor(
  session: ResidentSession,
  target: MonitorDeclaration | string,
): Promise<MonitorSnapshot> {
  const { monitors } = session.work;
  const snapshot = await monitors.start(target);
  const monitorId = typeof target === "string" ? target : target.id;
  const id = `monitor:${monitorId}`;
  const { tasks } = session.parts.work;
  const known = tasks.get(session.id, id);
  if (known === undefined || known.completedAt !== undefined) {
    await tasks.spawnManaged(session.id, { id, kind: "monitor", producer: "monitors" }, async () => {
      const { state } = await monitors.whenEnded(monitorId);
      return { state };
    });
  }
  return snapshot;
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
  parentInvocation: string,
): ProcessService {
  const { work } = from.parts;
  const { limit } = from.plugins.runner;
  return Object.freeze({
    ...processReads(from, reach),
    parentInvocation,
    start: async (id: string, spec: TaskSpec, run?: TaskRun) => spawn(await reach(id), spec, run),
    await: (id: string, processId: string) =>
      limit.during(async () => work.tasks.settled((await reach(id)).id, processId)),
    signal: async (id: string, processId: string, message: unknown) =>
      work.signal((await reach(id)).id, processId, message),
    cancel: async (id: string, processId: string) => work.tasks.cancel((await reach(id)).id, processId),
  });
}

/** What the work of a task is given here: messages, too. */
export interface SignalledTaskContext extends TaskContext {
  readonly signals: AsyncIterable<Json>;
}

/** Runs a task of a session. A durable one is run by the plugin that declares its label, so that a restart finds it. */
function spawn(session: ResidentSession, spec: TaskSpec, run: TaskRun | undefined): Promise<TaskRecord> {
  const { work } = session.parts;
  const given = run ?? session.work.runner(spec.producer, spec.label) ?? (() => undefined);
  return work.tasks.spawnManaged(session.id, spec, async (context) => {
    const signals: AsyncQueue<Json> = work.signals(session.id, spec.id);
    try {
      return await given({ ...context, signals } as SignalledTaskContext);
    } finally {
      work.endSignals(session.id, spec.id);
    }
  });
}

async function inject(
  from: ResidentSession,
  to: ResidentSession,
  { id, message }: InjectedInput,
): Promise<void> {
  const text = textOf(toMessage(message, "injected"));
  const { queue } = await from.parts.sessions.openBelow(to.id, from);
  await queue.submit(text, {
    deliver: "active_turn",
    cause: { kind: "injected", id: from.id },
    ...(id === undefined ? {} : { key: `injection:${id}` }),
  });
}

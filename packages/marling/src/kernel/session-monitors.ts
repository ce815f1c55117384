// The monitors of a session as everybody asks for them: each is a task of its session while it runs, and all of them run
// in the runtime that has the work of the session.

import type { MonitorDeclaration, MonitorSnapshot, MonitorUpdateBatch } from "../work/monitor.ts";
import type { ResidentSession } from "./resident-session.ts";

/** Starts a monitor by id, or declares one and starts it. */
export async function startMonitor(
  session: ResidentSession,
  target: MonitorDeclaration | string,
): Promise<MonitorSnapshot> {
  return session.work.asOwner(async () => {
    try {
      return await session.work.monitors.start(target);
    } finally {
      await listRunning(session);
    }
  });
}

export async function stopMonitor(session: ResidentSession, monitorId: string): Promise<MonitorSnapshot> {
  return session.work.asOwner(() => session.work.monitors.stop(monitorId));
}

/** All monitors; starts those that are armed. */
export async function monitorSnapshot(session: ResidentSession): Promise<MonitorSnapshot> {
  const { monitors } = session.work;
  await whereMonitorsRun(session, async () => {
    await monitors.snapshot();
    await listRunning(session);
  });
  return monitors.peek();
}

/** What monitors have said since this was asked last; starts those that are armed. */
export async function takeMonitorUpdates(session: ResidentSession): Promise<MonitorUpdateBatch> {
  const { monitors } = session.work;
  const updates = await whereMonitorsRun(session, async () => {
    await monitorSnapshot(session);
    return monitors.takeUpdates();
  });
  const { revision, activeCount } = monitors.peek();
  return updates ?? { revision, activeCount, events: [] };
}

/** Starts the monitors that come with the session, and those that an earlier process left to be started again. */
export async function startArmedMonitors(session: ResidentSession): Promise<void> {
  if (session.work.monitors.peek().monitors.some(({ armed }) => armed)) await monitorSnapshot(session);
}

/** Acts in the runtime that has the work of the session. The store is not asked while there is no monitor. */
async function whereMonitorsRun<T>({ work }: ResidentSession, act: () => Promise<T>): Promise<T | undefined> {
  return work.monitors.peek().monitors.length > 0 ? work.ifOwner(act) : undefined;
}

async function listRunning(session: ResidentSession): Promise<void> {
  const { id, parts, work } = session;
  const { tasks } = parts.work;
  for (const { spec, state } of work.monitors.peek().monitors) {
    const taskId = `monitor:${spec.id}`;
    const known = tasks.get(id, taskId);
    if (state !== "running" || (known !== undefined && known.completedAt === undefined)) continue;
    await tasks.spawnManaged(id, { id: taskId, kind: "monitor", producer: "monitors" }, async () => {
      const ended = await work.monitors.whenEnded(spec.id);
      return { state: ended.state };
    });
  }
}

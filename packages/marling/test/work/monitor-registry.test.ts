// Declaring, starting, stopping and looking at monitors: MONITORS.md, MO1-MO6, MO14, MO15.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { MarlingError } from "../../src/base/errors.ts";
import { folder, isRunning, messages, puppet, said, statusOf, until, watch } from "./monitor-support.ts";

vi.setConfig({ testTimeout: 30_000 });

const SLEEP = "sleep 1000";

test("[K119] start, snapshot, updates and stop of a scripted shell, with revision and sequence", async () => {
  const { registry } = watch();
  const { command, say } = puppet();
  const begun = await registry.start({ id: "build", command, wakePolicy: "notify" });
  expect(begun).toEqual({
    revision: 3,
    activeCount: 1,
    monitors: [
      {
        spec: {
          id: "build",
          command,
          env: {},
          persistent: false,
          timeoutMs: 300_000,
          armOn: "manual",
          wakePolicy: "notify",
          restartOnRestore: false,
        },
        armed: true,
        state: "running",
        eventCount: 0,
      },
    ],
  });
  await say("one", "", "  ", "two");
  await said(registry, "build", 2);
  expect(await registry.takeUpdates()).toEqual({
    revision: 5,
    activeCount: 1,
    events: [
      { sequence: 1, monitorId: "build", message: "one" },
      { sequence: 2, monitorId: "build", message: "two" },
    ],
  });
  expect(await registry.takeUpdates()).toEqual({ revision: 5, activeCount: 1, events: [] });
  const ended = await registry.stop("build");
  expect(ended).toMatchObject({
    revision: 7,
    activeCount: 0,
    monitors: [{ state: "stopped", armed: false, lastEvent: "two", eventCount: 2 }],
  });
  expect(await registry.takeUpdates()).toEqual({
    revision: 7,
    activeCount: 0,
    events: [{ sequence: 3, monitorId: "build", message: "stopped" }],
  });
});

test("[MO14] snapshots have their monitors by id", async () => {
  const { registry } = watch();
  registry.registerSpecs([
    { id: "b", command: SLEEP },
    { id: "B", command: SLEEP },
    { id: "a", command: SLEEP },
  ]);
  expect((await registry.snapshot()).monitors.map(({ spec }) => spec.id)).toEqual(["B", "a", "b"]);
});

test("[MO1] a time limit above an hour is an hour", () => {
  const { registry } = watch();
  registry.registerSpecs([{ id: "a", command: SLEEP, timeoutMs: 9_000_000 }]);
  expect(statusOf(registry, "a").spec.timeoutMs).toBe(3_600_000);
});

test.each([
  [{ id: " ", command: SLEEP }, 'monitor.id: expected a non-blank string, found " "'],
  [{ id: "a\n", command: SLEEP }, 'monitor.id: expected no control characters, found "a\\n"'],
  [{ id: "a", command: "" }, 'monitor a: command: expected a non-blank string, found ""'],
  [{ id: "a", command: "x\0" }, 'monitor a: command: expected no NUL character, found "x\\u0000"'],
  [
    { id: "a", command: SLEEP, timeoutMs: 0 },
    "monitor a: timeoutMs: expected a whole number of milliseconds above 0, found 0",
  ],
  [
    { id: "a", command: SLEEP, armOn: "never" },
    'monitor a: armOn: expected manual or session_start, found "never"',
  ],
  [
    { id: "a", command: SLEEP, env: { "A=B": "c" } },
    'monitor a: env: expected names without = and NUL, found "A=B"',
  ],
  [{ id: "a", command: SLEEP, env: { A: 1 } }, "monitor a: env.A: expected a string without NUL, found 1"],
])("[MO1] a malformed declaration is refused, and none of its batch is declared: %j", (spec, message) => {
  const { registry } = watch();
  const declared = [{ id: "good", command: SLEEP }, spec as { id: string; command: string }];
  expect(() => registry.registerSpecs(declared)).toThrow(
    expect.objectContaining({ code: "invalid_monitor", message }),
  );
  expect(registry.peek()).toEqual({ revision: 0, activeCount: 0, monitors: [] });
});

test("[MO2] monitors of a plugin carry its id; a colon of their own, or one id twice, is refused", () => {
  const { registry } = watch();
  registry.registerSpecs([{ id: "tail", command: SLEEP }], { pluginId: "logs" });
  expect(registry.peek().monitors.map(({ spec }) => spec.id)).toEqual(["logs:tail"]);
  expect(() => registry.registerSpecs([{ id: "a:b", command: SLEEP }], { pluginId: "logs" })).toThrow(
    'plugin logs: monitor.id: expected an id without a colon, found "a:b"',
  );
  const twice = [
    { id: "a", command: SLEEP },
    { id: "a", command: "true" },
  ];
  expect(() => registry.registerSpecs(twice)).toThrow("monitor a: expected one declaration, found two");
});

test("[MO3] declaring an equal spec again changes nothing", () => {
  const { registry, changes } = watch();
  registry.registerSpecs([{ id: "a", command: SLEEP, env: { A: "1", B: "2" } }]);
  expect([registry.peek().revision, changes()]).toEqual([1, 1]);
  registry.registerSpecs([{ id: "a", command: SLEEP, env: { B: "2", A: "1" }, persistent: false }]);
  expect([registry.peek().revision, changes()]).toEqual([1, 1]);
});

test("[MO3] another spec keeps the armed state and what runs, and takes effect with the next start", async () => {
  const { registry } = watch();
  await registry.start({ id: "a", command: `echo old; ${SLEEP}` });
  await said(registry, "a", 1);
  registry.registerSpecs([{ id: "a", command: `echo new; ${SLEEP}` }]);
  expect(statusOf(registry, "a")).toMatchObject({ armed: true, state: "running", lastEvent: "old" });
  await registry.stop("a");
  registry.registerSpecs([{ id: "a", command: `echo newest; ${SLEEP}`, armOn: "session_start" }]);
  expect(statusOf(registry, "a")).toMatchObject({ armed: false, state: "stopped" });
  await registry.start("a");
  await said(registry, "a", 2);
  expect(statusOf(registry, "a").lastEvent).toBe("newest");
});

test("[MO4] monitors that are armed with the session are started by the first look, by either call", async () => {
  for (const look of ["snapshot", "takeUpdates"] as const) {
    const { registry } = watch();
    registry.registerSpecs([
      { id: "auto", command: SLEEP, armOn: "session_start" },
      { id: "manual", command: SLEEP },
    ]);
    expect(registry.peek()).toMatchObject({ activeCount: 0 });
    expect(statusOf(registry, "auto")).toMatchObject({ armed: true, state: "idle" });
    expect(await registry[look]()).toMatchObject({ activeCount: 1 });
    expect(statusOf(registry, "auto").state).toBe("running");
    expect(statusOf(registry, "manual")).toMatchObject({ armed: false, state: "idle" });
  }
});

test("[MO4] an armed monitor that cannot be started shows it and is not tried again", async () => {
  const { registry } = watch({ cwd: join(folder(), "nowhere") });
  registry.registerSpecs([{ id: "a", command: SLEEP, armOn: "session_start" }]);
  const { monitors } = await registry.snapshot();
  expect(monitors[0]).toMatchObject({ armed: false, state: "failed" });
  expect((await registry.takeUpdates()).events).toHaveLength(1);
  expect((await registry.takeUpdates()).events).toEqual([]);
});

test("[MO4] two looks at once start an armed monitor once", async () => {
  const { registry } = watch();
  registry.registerSpecs([{ id: "a", command: SLEEP, armOn: "session_start" }]);
  await Promise.all([registry.snapshot(), registry.takeUpdates(), registry.start("a")]);
  // Declared, armed, running.
  expect(registry.peek()).toMatchObject({ revision: 3, activeCount: 1 });
});

test("[MO5] starting one that runs is a success and changes nothing", async () => {
  const { registry } = watch();
  const first = await registry.start({ id: "a", command: SLEEP });
  expect(await registry.start({ id: "a", command: SLEEP })).toEqual(first);
  expect(await registry.start("a")).toEqual(first);
});

test("[MO5] an id that is not known is refused with those that are", async () => {
  const { registry } = watch();
  registry.registerSpecs([{ id: "a", command: SLEEP }]);
  const refusal = { code: "unknown_monitor", message: "monitor b: expected one of a, found no such monitor" };
  await expect(registry.start("b")).rejects.toMatchObject(refusal);
  await expect(registry.stop("b")).rejects.toMatchObject(refusal);
  await expect(registry.whenEnded("b")).rejects.toMatchObject(refusal);
});

test("[MO6] what was stopped stays stopped, whoever looks or declares it again, until the next start", async () => {
  const { registry } = watch();
  const spec = { id: "a", command: SLEEP, armOn: "session_start" } as const;
  registry.registerSpecs([spec]);
  await registry.snapshot();
  await registry.stop("a");
  registry.registerSpecs([spec]);
  await registry.snapshot();
  await registry.takeUpdates();
  expect(statusOf(registry, "a")).toMatchObject({ armed: false, state: "stopped" });
  expect(await registry.start("a")).toMatchObject({ activeCount: 1 });
});

test("[MO6] stopping twice says so once, and one that never ran can be stopped", async () => {
  const { registry } = watch();
  registry.registerSpecs([{ id: "a", command: SLEEP, armOn: "session_start" }]);
  await registry.stop("a");
  await registry.stop("a");
  const { events, activeCount } = await registry.takeUpdates();
  expect([messages(events), activeCount]).toEqual([["stopped"], 0]);
});

test("[MO6] a start that is asked for during a stop runs after it", async () => {
  const { registry } = watch();
  await registry.start({ id: "a", command: `echo $$; ${SLEEP}` });
  await said(registry, "a", 1);
  const stopping = registry.stop("a");
  const starting = registry.start("a");
  await stopping;
  expect(await starting).toMatchObject({ activeCount: 1, monitors: [{ state: "running", armed: true }] });
  await said(registry, "a", 2);
  const { events } = await registry.takeUpdates();
  const [first, stopped, second] = messages(events);
  expect(stopped).toBe("stopped");
  expect(second).not.toBe(first);
  expect([isRunning(Number(first)), isRunning(Number(second))]).toEqual([false, true]);
});

test("[MO15] every change moves the revision and is told", async () => {
  const { registry, changes } = watch();
  const { command, say, finish } = puppet();
  const at = (): readonly number[] => [registry.peek().revision, changes()];
  registry.registerSpecs([{ id: "a", command }]);
  expect(at()).toEqual([1, 1]);
  await registry.start("a");
  expect(at()).toEqual([3, 3]);
  await say("x");
  await said(registry, "a", 1);
  expect(at()).toEqual([4, 4]);
  registry.ackWake(["a"]);
  expect(at()).toEqual([5, 5]);
  await finish();
  await registry.whenEnded("a");
  expect(at()).toEqual([6, 6]);
  await registry.stop("a");
  expect(at()).toEqual([7, 7]);
});

test("[MO19] after close everything but looking and exporting is refused", async () => {
  const { registry } = watch();
  await registry.start({ id: "a", command: SLEEP });
  await Promise.all([registry.close(), registry.close()]);
  const calls = [
    () => registry.snapshot(),
    () => registry.takeUpdates(),
    () => registry.start("a"),
    () => registry.stop("a"),
    async () => registry.registerSpecs([]),
    async () => registry.restoreState(registry.exportState()),
  ];
  for (const call of calls) {
    const error: unknown = await call().catch((thrown: unknown) => thrown);
    expect(MarlingError.is(error) && error.code).toBe("session_closed");
  }
  expect(registry.peek().activeCount).toBe(0);
});

test("[MO19] starts that are under way when the session closes leave nothing behind", async () => {
  const cwd = folder();
  const { registry } = watch({ cwd });
  const ids = ["a", "b", "c"];
  const starts = ids.map((id) =>
    registry.start({ id, command: `echo $$ > ${id}; ${SLEEP}` }).catch(() => undefined),
  );
  await until(() => registry.peek().activeCount > 0);
  await registry.close();
  await Promise.all(starts);
  expect(registry.peek().activeCount).toBe(0);
  const pids = readdirSync(cwd).map((name) => Number(readFileSync(join(cwd, name), "utf8")));
  expect(pids.filter((pid) => pid > 0 && isRunning(pid))).toEqual([]);
});

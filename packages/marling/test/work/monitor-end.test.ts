// How monitors end, and what is left of them for another process: MONITORS.md, MO7-MO9 and MO17-MO19.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import type { JsonObject } from "../../src/model/json.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { folder, isRunning, messages, said, statusOf, takePids, watch } from "./monitor-support.ts";

vi.setConfig({ testTimeout: 30_000 });

const SLEEP = "sleep 1000";

describe("exits", () => {
  test("[K121] status 0 is exited", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: "exit 0" });
    expect(await registry.whenEnded("a")).toMatchObject({ armed: false, state: "exited", lastExitStatus: 0 });
    expect(statusOf(registry, "a")).not.toHaveProperty("lastError");
    const { events, activeCount } = await registry.takeUpdates();
    expect([messages(events), activeCount]).toEqual([["exited with status 0"], 0]);
  });

  test("[K121] another status is failed, with the status in the error", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: "echo bye; exit 3" });
    expect(await registry.whenEnded("a")).toMatchObject({
      armed: false,
      state: "failed",
      lastExitStatus: 3,
      lastError: "exited with status 3",
      lastEvent: "bye",
    });
    expect(messages((await registry.takeUpdates()).events)).toEqual(["bye", "exited with status 3"]);
  });

  test("[MO9] a signal is failed, with the signal in the error", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: "kill -KILL $$" });
    const status = await registry.whenEnded("a");
    expect(status).toMatchObject({ armed: false, state: "failed", lastError: "ended by signal SIGKILL" });
    expect(status).not.toHaveProperty("lastExitStatus");
  });

  test("[MO9] the next start clears the error of the last", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: "exit 3" });
    await registry.whenEnded("a");
    await registry.start({ id: "a", command: SLEEP });
    expect(statusOf(registry, "a")).not.toHaveProperty("lastError");
    expect(statusOf(registry, "a")).not.toHaveProperty("lastExitStatus");
  });
});

describe("time limits", () => {
  test("[K121] one that is not persistent times out: failed, disarmed, an error and an update", async () => {
    const clock = new ManualClock();
    const { registry } = watch({ clock });
    await registry.start({ id: "a", command: `echo $$; ${SLEEP}`, timeoutMs: 1_000 });
    await said(registry, "a", 1);
    const [pid = 0] = await takePids(registry);
    clock.advance(999);
    expect(statusOf(registry, "a").state).toBe("running");
    clock.advance(1);
    expect(await registry.whenEnded("a")).toMatchObject({
      armed: false,
      state: "failed",
      lastError: "timed out after 1000 ms",
    });
    expect(messages((await registry.takeUpdates()).events)).toEqual(["timed out after 1000 ms"]);
    expect(isRunning(pid)).toBe(false);
  });

  test("[MO8] on the real clock too", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: `trap '' TERM; ${SLEEP}`, timeoutMs: 20 });
    expect(await registry.whenEnded("a")).toMatchObject({
      state: "failed",
      lastError: "timed out after 20 ms",
    });
  });

  test("[MO8] a persistent one has none, and what ended leaves no timer behind", async () => {
    const clock = new ManualClock();
    const { registry } = watch({ clock });
    await registry.start({ id: "a", command: SLEEP, persistent: true });
    expect(clock.pending).toBe(0);
    await registry.start({ id: "b", command: SLEEP });
    expect(clock.pending).toBe(1);
    await registry.stop("b");
    expect(clock.pending).toBe(0);
  });
});

describe("failed starts", () => {
  test("[MO5] a working directory that is missing", async () => {
    const cwd = join(folder(), "nowhere");
    const { registry } = watch();
    const message = `monitor a: cwd: expected a directory, found: ENOENT: no such file or directory, stat '${cwd}'`;
    await expect(registry.start({ id: "a", command: SLEEP, cwd })).rejects.toMatchObject({
      code: "monitor_start_failed",
      message,
    });
    expect(statusOf(registry, "a")).toMatchObject({ armed: false, state: "failed", lastError: message });
    expect(await registry.takeUpdates()).toMatchObject({
      activeCount: 0,
      events: [{ sequence: 1, monitorId: "a", message }],
    });
  });

  test("[MO5] a working directory that is a file", async () => {
    const cwd = folder();
    writeFileSync(join(cwd, "file"), "");
    const { registry } = watch({ cwd });
    await expect(registry.start({ id: "a", command: SLEEP, cwd: "file" })).rejects.toMatchObject({
      code: "monitor_start_failed",
      message: `monitor a: cwd: expected a directory, found a file at ${join(cwd, "file")}`,
    });
  });

  test("[MO5] a shell that is missing, and the next start may succeed", async () => {
    const { registry } = watch({ shell: join(folder(), "no-shell") });
    const error = await registry.start({ id: "a", command: SLEEP }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "monitor_start_failed", message: expect.stringContaining("ENOENT") });
    expect(statusOf(registry, "a")).toMatchObject({ armed: false, state: "failed" });
    await expect(registry.start("a")).rejects.toMatchObject({ code: "monitor_start_failed" });
  });

  test("[MO10] Windows has no monitors, and says so", async () => {
    const { registry } = watch();
    const original = Object.getOwnPropertyDescriptor(process, "platform") ?? {};
    Object.defineProperty(process, "platform", { ...original, value: "win32" });
    const error = await registry
      .start({ id: "a", command: SLEEP })
      .catch((thrown: unknown) => thrown)
      .finally(() => Object.defineProperty(process, "platform", original));
    expect(error).toMatchObject({ code: "host_service_unavailable" });
    expect(statusOf(registry, "a")).toMatchObject({ armed: false, state: "failed" });
  });
});

const SPEC = {
  env: {},
  persistent: true,
  timeoutMs: 300_000,
  armOn: "manual",
  wakePolicy: "queue_turn",
} as const;

describe("restore", () => {
  test("[MO17] the export is versioned and has neither process ids nor updates nor wakes", async () => {
    const { registry, wakes } = watch();
    await registry.start({ id: "a", command: `echo hello; ${SLEEP}`, persistent: true });
    await said(registry, "a", 1);
    expect(wakes).toHaveLength(1);
    expect(registry.exportState()).toEqual({
      version: 1,
      revision: 4,
      sequence: 1,
      monitors: [
        {
          spec: { ...SPEC, id: "a", command: `echo hello; ${SLEEP}`, restartOnRestore: false },
          armed: true,
          state: "running",
          lastEvent: "hello",
          eventCount: 1,
        },
      ],
    });
  });

  test("[K121] armed with restart on restore is idle and armed and runs at the next look; what ran otherwise is disarmed", async () => {
    const before = watch();
    const command = `echo hello; ${SLEEP}`;
    await before.registry.start({ id: "again", command, restartOnRestore: true });
    await before.registry.start({ id: "once", command });
    await before.registry.start({ id: "halted", command, restartOnRestore: true });
    await before.registry.stop("halted");
    await before.registry.start({ id: "over", command: "exit 2", restartOnRestore: true });
    await before.registry.whenEnded("over");
    await said(before.registry, "again", 1);
    await said(before.registry, "once", 1);
    const state = before.registry.exportState();

    const { registry, wakes } = watch();
    registry.restoreState(JSON.parse(JSON.stringify(state)));
    const shown = registry.peek().monitors.map(({ spec, armed, state: at }) => [spec.id, armed, at]);
    expect(shown).toEqual([
      ["again", true, "idle"],
      ["halted", false, "stopped"],
      ["once", false, "idle"],
      ["over", false, "failed"],
    ]);
    expect(statusOf(registry, "over")).toMatchObject({
      lastExitStatus: 2,
      lastError: "exited with status 2",
    });
    expect(statusOf(registry, "again")).toMatchObject({ lastEvent: "hello", eventCount: 1 });
    expect(await registry.snapshot()).toMatchObject({ activeCount: 1 });
    await said(registry, "again", 2);
    expect(wakes.map(({ monitorId }) => monitorId)).toEqual(["again"]);
  });

  test("[MO18] whatever is stored in the course of a start, the monitor does not start again by itself", async () => {
    const stored: JsonObject[] = [];
    const { registry } = watch({ onChange: () => stored.push(registry.exportState()) });
    await registry.start({ id: "once", command: "echo hello" });
    await registry.whenEnded("once");
    expect(stored.length).toBeGreaterThan(2);
    for (const state of stored) {
      const after = watch();
      after.registry.restoreState(state);
      expect(statusOf(after.registry, "once").armed).toBe(false);
    }
  });

  test("[MO17] revision and sequence go on where they were", async () => {
    const { registry } = watch();
    registry.restoreState({ version: 1, revision: 40, sequence: 30, monitors: [] });
    expect(registry.peek().revision).toBe(40);
    await registry.start({ id: "a", command: "echo x" });
    await registry.whenEnded("a");
    const { events, revision } = await registry.takeUpdates();
    expect(events.map(({ sequence }) => sequence)).toEqual([31, 32]);
    expect(revision).toBe(45);
  });

  test("[MO18] a monitor that is declared before the restore keeps its new spec and takes the rest", async () => {
    const old = watch();
    await old.registry.start({ id: "a", command: SLEEP, armOn: "session_start" });
    await old.registry.stop("a");
    const { registry } = watch();
    registry.registerSpecs([
      { id: "a", command: "sleep 2000", armOn: "session_start" },
      { id: "b", command: SLEEP, armOn: "session_start" },
    ]);
    registry.restoreState(old.registry.exportState());
    expect(statusOf(registry, "a")).toMatchObject({
      armed: false,
      state: "stopped",
      spec: { command: "sleep 2000" },
    });
    expect(statusOf(registry, "b")).toMatchObject({ armed: true, state: "idle" });
  });

  test("[MO18] a restore over a running monitor is refused", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: SLEEP });
    expect(() => registry.restoreState(registry.exportState())).toThrow(
      expect.objectContaining({ code: "session_busy" }),
    );
  });

  test.each([
    [{ version: 2 }, "unsupported_version", "stored monitors: expected version 1, found 2"],
    [
      { version: 1, revision: 1, sequence: 1 },
      "invalid_snapshot",
      "stored monitors: monitors: expected an array",
    ],
    [
      { version: 1, revision: -1, sequence: 1, monitors: [] },
      "invalid_snapshot",
      "stored monitors: revision: expected a whole number from 0 on",
    ],
    [
      { version: 1, revision: 1, sequence: 1, monitors: [{ spec: { id: "a" }, armed: true, state: "idle" }] },
      "invalid_snapshot",
      "stored monitors: monitors[0].spec: expected a spec (monitor a: command: expected a non-blank string, found undefined)",
    ],
    [
      { version: 1, revision: 1, sequence: 1, monitors: [{ state: "asleep" }] },
      "invalid_snapshot",
      "stored monitors: monitors[0].state: expected idle, running, stopped, exited, failed",
    ],
  ])("[MO17] malformed state is refused and changes nothing: %j", (json, code, message) => {
    const { registry } = watch();
    expect(() => registry.restoreState(json)).toThrow(expect.objectContaining({ code, message }));
    expect(registry.peek()).toEqual({ revision: 0, activeCount: 0, monitors: [] });
  });

  test("[MO19] what is exported after close restores as what was exported before", async () => {
    const { registry } = watch();
    await registry.start({ id: "again", command: SLEEP, restartOnRestore: true });
    await registry.start({ id: "once", command: SLEEP });
    const before = registry.exportState();
    await registry.close();
    const after = registry.exportState();
    for (const state of [before, after]) {
      const other = watch();
      other.registry.restoreState(state);
      const shown = other.registry.peek().monitors.map(({ spec, armed, state: at }) => [spec.id, armed, at]);
      expect(shown).toEqual([
        ["again", true, "idle"],
        ["once", false, "idle"],
      ]);
    }
  });
});

// Commands that behave badly, on real processes: MONITORS.md, MO7 and MO10-MO13, MO19.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { MonitorLines } from "../../src/work/monitor-lines.ts";
import { MonitorRegistry } from "../../src/work/monitor-registry.ts";
import { folder, isRunning, messages, said, statusOf, takePids, until, watch } from "./monitor-support.ts";

vi.setConfig({ testTimeout: 60_000 });

describe("floods", () => {
  test("[MO13] 100,000 lines at once are all counted, and the newest are kept", async () => {
    const { registry, wakes, changes } = watch();
    await registry.start({ id: "a", command: "seq 1 100000" });
    expect(await registry.whenEnded("a")).toMatchObject({
      state: "exited",
      eventCount: 100_000,
      lastEvent: "100000",
    });
    const { events } = await registry.takeUpdates();
    expect(events).toHaveLength(128);
    expect(messages(events.slice(0, 2))).toEqual(["99874", "99875"]);
    expect(events.slice(-2)).toEqual([
      { sequence: 100_000, monitorId: "a", message: "100000" },
      { sequence: 100_001, monitorId: "a", message: "exited with status 0" },
    ]);
    expect(wakes).toHaveLength(1);
    expect(changes()).toBeLessThan(50_000);
  });

  test("[MO13] 100 MB of lines leave less than a tenth of that in memory, also without a newline", async () => {
    const { registry } = watch();
    const line = "x".repeat(999);
    const before = memory();
    await registry.start({ id: "lines", command: `yes ${line} | head -n 100000` });
    await registry.start({ id: "line", command: "head -c 100000000 /dev/zero | tr '\\0' y" });
    expect(await registry.whenEnded("lines")).toMatchObject({ state: "exited", eventCount: 100_000 });
    expect(await registry.whenEnded("line")).toMatchObject({ state: "exited", eventCount: 1 });
    // Buffers that were read go some time after nobody holds them.
    await until(() => memory() - before < 10_000_000);
    expect(statusOf(registry, "line").lastEvent).toBe(
      `${"y".repeat(8192)} [cut: the line is longer than 8192 bytes]`,
    );
  });

  test("[MO13] a flood that never ends can be stopped", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: "echo $$; exec yes", wakePolicy: "notify" });
    await said(registry, "a", 10_000);
    await registry.stop("a");
    const { events } = await registry.takeUpdates();
    expect(events).toHaveLength(128);
    expect(messages(events.slice(-2))).toEqual(["y", "stopped"]);
  });
});

describe("ends", () => {
  test("[MO7] a command that ignores SIGTERM is killed after the grace period, and not before", async () => {
    const clock = new ManualClock();
    const { registry } = watch({ clock });
    const command = "trap 'echo term' TERM; echo $$; while :; do sleep 0.02; echo tick; done";
    await registry.start({ id: "a", command });
    await said(registry, "a", 1);
    const [pid = 0] = await takePids(registry);
    const stopping = registry.stop("a");
    await until(async () => messages((await registry.takeUpdates()).events).includes("term"));
    clock.advance(199);
    // It is alive for as long as it ticks, and that is as long as the clock stands still.
    await said(registry, "a", statusOf(registry, "a").eventCount + 20);
    expect([isRunning(pid), statusOf(registry, "a").state]).toEqual([true, "running"]);
    clock.advance(1);
    expect(await stopping).toMatchObject({ activeCount: 0, monitors: [{ state: "stopped" }] });
    expect(isRunning(pid)).toBe(false);
  });

  test("[MO7] stop ends everything the command forked, also what ignores SIGTERM", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: FORKS });
    await said(registry, "a", 4);
    const pids = await takePids(registry);
    expect([pids.length, pids.every(isRunning)]).toEqual([4, true]);
    await registry.stop("a");
    expect(pids.filter(isRunning)).toEqual([]);
  });

  test("[MO19] close ends everything of all monitors", async () => {
    const { registry } = watch();
    for (const id of ["a", "b", "c"]) await registry.start({ id, command: FORKS });
    for (const id of ["a", "b", "c"]) await said(registry, id, 4);
    const pids = await takePids(registry);
    expect([pids.length, pids.every(isRunning)]).toEqual([12, true]);
    await registry.close();
    expect(pids.filter(isRunning)).toEqual([]);
  });

  test("[MO7] a shell that exits and leaves others behind takes them along", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: `${LEAVES}; exit 0` });
    expect(await registry.whenEnded("a")).toMatchObject({
      state: "exited",
      lastExitStatus: 0,
      eventCount: 2,
    });
    const pids = await takePids(registry);
    expect([pids.length, pids.filter(isRunning)]).toEqual([2, []]);
  });

  test("[MO7] what holds the output open from another group does not hold up the end", async () => {
    const { registry } = watch({ cwd: folder() });
    const leaver = "setsid sh -c 'echo $$; touch left; exec sleep 1000'";
    await registry.start({ id: "a", command: `${leaver} & until [ -e left ]; do sleep 0.01; done` });
    expect(await registry.whenEnded("a")).toMatchObject({ state: "exited" });
    const [pid = 0] = await takePids(registry);
    const hadLeft = isRunning(pid);
    process.kill(pid, "SIGKILL");
    await until(() => !isRunning(pid));
    expect(hadLeft).toBe(true);
  });
});

/** Four processes, each of which says its id: the shell, a child, a child that ignores SIGTERM, a grandchild. */
const LEAVES = "sleep 1000 & echo $!; (trap '' TERM; exec sleep 1000) & echo $!";
const FORKS = `echo $$; ${LEAVES}; sh -c 'sleep 1000 & echo $!; wait' & wait`;

describe("the environment", () => {
  test("[MO11] it has the allow list and what the spec adds, and none of our secrets", async () => {
    vi.stubEnv("FAKE_API_KEY", "hunter2");
    vi.stubEnv("LC_PAPER", "C");
    vi.stubEnv("LC_API_KEY", "hunter3");
    vi.stubEnv("LC_ALL_TOKEN", "hunter3");
    vi.stubEnv("LANG", "C");
    try {
      const { registry } = watch();
      await registry.start({ id: "a", command: "env", env: { GIVEN: "yes", LANG: "C.UTF-8" } });
      await registry.whenEnded("a");
      const lines = messages((await registry.takeUpdates()).events);
      expect(lines).toEqual(expect.arrayContaining(["GIVEN=yes", "LANG=C.UTF-8", "LC_PAPER=C"]));
      expect(lines.some((line) => line.startsWith("PATH="))).toBe(true);
      expect(lines.join("\n")).not.toMatch(/FAKE_API_KEY|hunter[23]|VITEST/);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test.each([
    ["/bin/bash", "/bin/bash"],
    ["/usr/sbin/nologin", "/bin/sh"],
    [undefined, "/bin/sh"],
  ])("[MO10] the shell is that of the user, or /bin/sh where that is none: %s", async (SHELL, expected) => {
    const environment = { PATH: process.env.PATH, HOME: folder(), SHELL };
    const registry = new MonitorRegistry({ environment, onWake: () => undefined });
    onTestFinished(() => registry.close());
    await registry.start({ id: "a", command: "echo $0" });
    expect(await registry.whenEnded("a")).toMatchObject({ lastEvent: expected });
  });

  test("[MO10] it is a login shell: it reads the profile", async () => {
    const home = folder();
    writeFileSync(join(home, ".profile"), "FROM_PROFILE=seen\n");
    const { registry } = watch({ environment: { PATH: process.env.PATH, HOME: home } });
    await registry.start({ id: "a", command: "echo $FROM_PROFILE" });
    expect(await registry.whenEnded("a")).toMatchObject({ lastEvent: "seen" });
  });

  test("[MO10] a relative working directory is inside that of the session", async () => {
    const { registry } = watch({ cwd: folder() });
    await registry.start({ id: "make", command: "mkdir inner" });
    await registry.whenEnded("make");
    await registry.start({ id: "a", command: "pwd", cwd: "inner" });
    expect((await registry.whenEnded("a")).lastEvent).toMatch(/marling-monitor-\w+\/inner$/);
  });

  test("[MO10] it has no input to wait for", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: "cat; echo done" });
    expect(await registry.whenEnded("a")).toMatchObject({ state: "exited", lastEvent: "done" });
  });
});

describe("lines", () => {
  const bytes = (text: string): Buffer => Buffer.from(text, "utf8");

  test("[MO12] a last line without a newline counts, with its bytes that are not UTF-8", async () => {
    const { registry } = watch();
    await registry.start({ id: "a", command: "printf 'one\\r\\n\\ntwo \\377 \\000'" });
    await registry.whenEnded("a");
    expect(messages((await registry.takeUpdates()).events)).toEqual([
      "one",
      "two \ufffd \ufffd",
      "exited with status 0",
    ]);
  });

  test("[MO12] lines and characters may be cut anywhere between two reads", () => {
    const text = bytes("grün\nweiß\n");
    for (let at = 0; at <= text.length; at += 1) {
      const lines = new MonitorLines();
      expect([...lines.read(text.subarray(0, at)), ...lines.read(text.subarray(at)), ...lines.end()]).toEqual(
        ["grün", "weiß"],
      );
    }
  });

  test("[MO12] a line of 8,192 bytes is whole, a longer one is cut between characters and the next is whole again", () => {
    const lines = new MonitorLines();
    expect(lines.read(bytes(`${"a".repeat(8192)}\n`))).toEqual(["a".repeat(8192)]);
    expect(lines.read(bytes(`${"a".repeat(8191)}ü and more\nnext\n`))).toEqual([
      `${"a".repeat(8191)} [cut: the line is longer than 8192 bytes]`,
      "next",
    ]);
    expect(lines.end()).toEqual([]);
  });
});

/** Bytes in use after everything that can go is gone. */
function memory(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect === "function") collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

// Monitors of a session on real shells: kernel.md 10.9, rows 119-121, and rule WK2 of session-work.ts.

import type { MonitorDeclaration, Session } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import { isRunning, puppet } from "../work/monitor-support.ts";
import {
  BACKINGS,
  database,
  gate,
  gatedStep,
  gatedTool,
  live,
  mortal,
  unattended,
  userTexts,
} from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";
import { act, acting, answering, codeOf, hostTool } from "./services-support.ts";
import { play } from "./tools-support.ts";
import { eventually, monitorOf, states, taskOf } from "./work-support.ts";

vi.setConfig({ testTimeout: 30_000 });

const WAIT = { timeout: 20_000 };

const watching = (...monitors: readonly MonitorDeclaration[]) => plugin("w", { monitors });

/** The process id that a monitor said first; it is gone after the test whatever happens. */
async function pidOf(session: Session, id: string): Promise<number> {
  await vi.waitUntil(async () => Number((await monitorOf(session, id))?.lastEvent) > 1, WAIT);
  const pid = Number((await monitorOf(session, id))?.lastEvent);
  onTestFinished(() => {
    try {
      process.kill(-pid, "SIGKILL");
    } catch {
      // It is gone, as it should be.
    }
  });
  return pid;
}

const PRINTS_PID = { command: "echo $$; exec sleep 600", wakePolicy: "notify", persistent: true } as const;

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[K119] a declared monitor is started by id, is a task while it runs, and is stopped", async () => {
    const { session } = await live({ store: open()(), plugins: [watching({ id: "m", ...PRINTS_PID })] });
    expect(await session.monitors.snapshot()).toMatchObject({
      activeCount: 0,
      monitors: [{ spec: { id: "w:m" }, state: "idle", armed: false }],
    });
    await session.monitors.start("w:m");
    expect(session.tasks.list()).toMatchObject([{ id: "monitor:w:m", kind: "monitor", state: "running" }]);
    const pid = await pidOf(session, "w:m");
    expect(await session.monitors.stop("w:m")).toMatchObject({
      activeCount: 0,
      monitors: [{ state: "stopped" }],
    });
    expect(isRunning(pid)).toBe(false);
    await expect
      .poll(() => taskOf(session, "monitor:w:m"))
      .toMatchObject({
        state: "completed",
        result: { state: "stopped" },
      });
    const { events } = await session.monitors.takeUpdates();
    expect(events.map(({ message, sequence }) => [sequence, message])).toEqual([
      [1, String(pid)],
      [2, "stopped"],
    ]);
  });

  test("[K119] a tool starts, sees, hears and stops monitors of its session", async () => {
    const { session } = await live({
      store: open()(),
      script: [callTool("act"), say("done")],
      tools: [
        hostTool("act", async (host) => {
          await host.startMonitor("s", { id: "m", command: "echo hello; echo there", wakePolicy: "notify" });
          const all: string[] = [];
          while (all.length < 3) {
            await new Promise((resolve) => setTimeout(resolve, 5));
            const { events } = await host.takeMonitorUpdates("s");
            all.push(...events.map(({ message }) => message));
          }
          const { monitors } = await host.monitorSnapshot("s");
          return [
            all,
            monitors.map(({ state, eventCount }) => [state, eventCount]),
            await codeOf(host.stopMonitor("s", "x")),
          ];
        }),
      ],
    });
    const { report } = await play(session.turn("go"));
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({
      kind: "success",
      value: [["hello", "there", "exited with status 0"], [["exited", 2]], "unknown_monitor"],
    });
  });

  test("[K120] a line is a turn of its own when the session is idle, as a note and not as words of the user", async () => {
    const { session, model } = await live({ store: open()(), script: [say("seen")] });
    await session.monitors.start({ id: "m", command: "echo disk full" });
    await expect.poll(() => transcript(session)).toEqual(["system: Monitor m: disk full", "assistant: seen"]);
    expect(model.requests.map(userTexts)).toEqual([[]]);
  });

  test("[K120] a line joins the turn that runs, at its next checkpoint", async () => {
    const at = gate();
    const said = puppet();
    const { session, model } = await live({
      store: open()(),
      script: [callTool("wait"), say("seen")],
      tools: [gatedTool("wait", at)],
    });
    await session.monitors.start({ id: "m", command: said.command });
    const turn = session.turn("go");
    await at.begun;
    await said.say("disk full");
    await eventually(async () => (await session.pending()).length).toBe(2);
    at.open();
    const { report, events } = await play(turn);
    expect(report.text).toBe("seen");
    expect(events.filter(({ kind }) => kind === "input_accepted")).toEqual([
      { kind: "input_accepted", inputIds: ["s:input:2"], checkpoint: "after_work" },
    ]);
    expect(transcript(session)).toEqual([
      "user: go",
      "assistant: call wait",
      "tool: result wait done",
      "system: Monitor m: disk full",
      "assistant: seen",
    ]);
    expect(model.requests).toHaveLength(2);
    expect(await session.pending()).toEqual([]);
  });

  test("[K120] one wake is outstanding until it had its turn; stderr never wakes", async () => {
    const at = gate();
    const said = puppet();
    const { session, model } = await live({
      store: open()(),
      script: [gatedStep(at, say("first seen")), say("second seen")],
    });
    await session.monitors.start({ id: "m", command: said.command });
    await said.say("err:oh", "one", "two", "three");
    await eventually(async () => (await monitorOf(session, "m"))?.eventCount).toBe(4);
    await at.begun;
    expect((await session.pending()).map(({ input }) => input.text)).toEqual(["Monitor m: one"]);
    at.open();
    await expect.poll(() => transcript(session)).toEqual(["system: Monitor m: one", "assistant: first seen"]);
    await vi.waitUntil(async () => {
      await said.say("four");
      return transcript(session).length > 2;
    }, WAIT);
    expect(transcript(session)[2]).toBe("system: Monitor m: four");
    await said.finish();
    expect(model.requests.length).toBeGreaterThanOrEqual(2);
  });

  test("[K116] to cancel the task of a monitor stops its processes", async () => {
    const { session } = await live({ store: open()() });
    await session.monitors.start({ id: "m", ...PRINTS_PID });
    const pid = await pidOf(session, "m");
    expect(await session.tasks.cancel("monitor:m", "not needed")).toMatchObject({ state: "cancelled" });
    expect(isRunning(pid)).toBe(false);
    expect(await monitorOf(session, "m")).toMatchObject({ state: "stopped", armed: false });
  });

  test("[K121] a monitor of `session_start` runs when the session is open, in a child too", async () => {
    const { session, runtime } = await live({
      store: open()(),
      plugins: [
        watching({ id: "m", ...PRINTS_PID, armOn: "session_start" }),
        acting({ create: (host) => host.createSession({ sessionId: "child" }) }),
      ],
    });
    expect(states(session.tasks.list())).toEqual(["monitor:w:m running"]);
    await act(session, "create");
    const child = await runtime.session("child");
    const pids = [await pidOf(session, "w:m"), await pidOf(child, "w:m")];
    await child.close();
    expect(pids.map(isRunning)).toEqual([true, false]);
    await runtime.close();
    expect(pids.map(isRunning)).toEqual([false, false]);
  });

  test("[K121] closing a session leaves no process; opening it again starts what restarts and nothing else", async () => {
    const { session, runtime } = await live({
      store: open()(),
      plugins: [
        watching(
          { id: "again", ...PRINTS_PID, restartOnRestore: true },
          { id: "once", ...PRINTS_PID },
          { id: "stopped", ...PRINTS_PID, restartOnRestore: true },
        ),
      ],
    });
    const ids = ["w:again", "w:once", "w:stopped"];
    for (const id of ids) await session.monitors.start(id);
    const pids: number[] = [];
    for (const id of ids) pids.push(await pidOf(session, id));
    await session.monitors.stop("w:stopped");
    await session.close();
    expect(pids.map(isRunning)).toEqual([false, false, false]);
    const again = await runtime.session("s");
    expect(states(again.tasks.list())).toEqual(["monitor:w:again running"]);
    expect((await again.monitors.snapshot()).monitors.map(({ state, armed }) => [state, armed])).toEqual([
      ["running", true],
      ["idle", false],
      ["stopped", false],
    ]);
  });

  test("a command that ignores SIGTERM and leaves children behind is gone after runtime.close()", async () => {
    const { session, runtime } = await live({ store: open()() });
    await session.monitors.start({
      id: "m",
      wakePolicy: "notify",
      persistent: true,
      command: "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $!; while :; do sleep 1; done",
    });
    await vi.waitUntil(async () => Number((await monitorOf(session, "m"))?.lastEvent) > 1, WAIT);
    const pid = Number((await monitorOf(session, "m"))?.lastEvent);
    await runtime.close();
    expect(isRunning(pid)).toBe(false);
  });

  test("[WK1] what a monitor says costs no commit of its own, however much it is", async () => {
    let commits = 0;
    const { session } = await live({
      store: open()(),
      around: (method, call) => {
        if (method === "commit") commits += 1;
        return call();
      },
    });
    await session.monitors.start({ id: "m", command: "seq 1 20000", wakePolicy: "notify" });
    await eventually(() => taskOf(session, "monitor:m")?.state).toBe("completed");
    expect(await monitorOf(session, "m")).toMatchObject({ state: "exited", eventCount: 20_000 });
    expect(commits).toBeLessThan(8);
  });

  test("[K119] a monitor that cannot start says so, and one that is wrong keeps its session from opening", async () => {
    const { session, runtime } = await live({ store: open()() });
    expect(await codeOf(session.monitors.start({ id: "m", command: "true", cwd: "/nowhere/at/all" }))).toBe(
      "monitor_start_failed",
    );
    expect(await monitorOf(session, "m")).toMatchObject({ state: "failed", armed: false });
    expect(session.tasks.list()).toEqual([]);
    expect(await codeOf(session.monitors.start("unknown"))).toBe("unknown_monitor");
    await runtime.close();
    const { runtime: other } = unattended({
      store: open()(),
      plugins: [watching({ id: " ", command: "true" })],
    });
    expect(await codeOf(other.session("s"))).toBe("invalid_monitor");
  });
});

describe("after a crash", () => {
  test("[K121] what ran and restarts runs again in the next process", async () => {
    const path = database();
    const plugins = [watching({ id: "m", ...PRINTS_PID, restartOnRestore: true })];
    const first = await mortal({ store: sqliteStore({ path }), plugins });
    await first.session.monitors.start("w:m");
    const pid = await pidOf(first.session, "w:m");
    await first.session.turn("a commit that has it").result;
    await first.die();
    process.kill(-pid, "SIGKILL");
    const { session, runtime } = await live({ store: sqliteStore({ path }), plugins });
    expect(states(session.tasks.list())).toEqual(["monitor:w:m running"]);
    await runtime.close();
  });

  test("[WK2] a wake that was accepted and not delivered is delivered once, as a note", async () => {
    const path = database();
    const at = gate();
    const first = await mortal({
      store: sqliteStore({ path }),
      script: [gatedStep(at, say("never committed"))],
    });
    await first.session.monitors.start({ id: "m", command: "echo disk full" });
    await at.begun;
    await first.die();
    const second = await live({ store: sqliteStore({ path }), script: answering({}) });
    await second.runtime.recover();
    expect(transcript(second.session)).toEqual(["system: Monitor m: disk full", "assistant: Answer to ."]);
    await second.runtime.close();
    const { session, runtime, model } = await live({ store: sqliteStore({ path }), script: answering({}) });
    await runtime.recover();
    expect(transcript(session)).toHaveLength(2);
    expect(model.requests).toEqual([]);
  });

  test("[WK2] so is one that waited behind the turn that ran", async () => {
    const path = database();
    const at = gate();
    const script = answering({ go: [callTool("wait"), say("done")] });
    const tools = [gatedTool("wait", at)];
    const first = await mortal({ store: sqliteStore({ path }), script, tools });
    first.session.turn("go");
    await at.begun;
    await first.session.monitors.start({ id: "m", command: "echo disk full" });
    await eventually(async () => (await first.session.pending()).length).toBe(2);
    await first.die();
    at.open();
    const { session, runtime } = await live({ store: sqliteStore({ path }), script, tools });
    await runtime.recover();
    expect(transcript(session)).toEqual([
      "user: go",
      "assistant: call wait",
      "tool: result wait done",
      "system: Monitor m: disk full",
      "assistant: done",
    ]);
    expect(await session.pending()).toEqual([]);
  });

  test("[MO20] a monitor that starts again is quiet until the wake that was accepted before has had its turn", async () => {
    const path = database();
    const [cut, at, said] = [gate(), gate(), puppet()];
    const spec = { id: "m", command: said.command, persistent: true, restartOnRestore: true } as const;
    const store = sqliteStore({ path });
    const first = await mortal({ store, script: [say("hello"), gatedStep(cut, say("never said"))] });
    await first.session.turn("hello").result;
    await first.session.monitors.start(spec);
    await said.say("one");
    await cut.begun;
    await eventually(async () => (await store.load("s" as SessionId))?.components.work).toMatchObject({
      monitors: { monitors: [{ state: "running" }] },
    });
    await said.finish();
    await first.die();
    const { session, runtime } = await live({
      store: sqliteStore({ path }),
      script: [gatedStep(at, say("first seen")), say("next seen"), say("next seen")],
    });
    await at.begun;
    await eventually(() => states(session.tasks.list())).toEqual(["monitor:m running"]);
    await said.say("two", "three");
    await eventually(async () => (await monitorOf(session, "m"))?.lastEvent).toBe("three");
    expect((await session.pending()).map(({ input }) => input.text)).toEqual(["Monitor m: one"]);
    at.open();
    await runtime.recover();
    await vi.waitUntil(async () => {
      await said.say("four");
      return transcript(session).length > 4;
    }, WAIT);
    expect(transcript(session).slice(2, 5)).toEqual([
      "system: Monitor m: one",
      "assistant: first seen",
      "system: Monitor m: four",
    ]);
    await said.finish();
  });

  test("[WK3] two runtimes that have a session open run its monitors once", async () => {
    const path = database();
    const plugins = [watching({ id: "m", ...PRINTS_PID, armOn: "session_start" })];
    const first = await live({ store: sqliteStore({ path }), plugins });
    const second = await live({ store: sqliteStore({ path }), plugins, leaseMs: 300 });
    expect(states(first.session.tasks.list())).toEqual(["monitor:w:m running"]);
    expect((await second.session.monitors.snapshot()).activeCount).toBe(0);
    expect(await codeOf(second.session.monitors.start("w:m"))).toBe("lease_held");
    await first.runtime.close();
    expect((await second.session.monitors.start("w:m")).activeCount).toBe(1);
  });
});

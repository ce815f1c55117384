// The work of a session that several runtimes have open: rules WK3 to WK5 of session-work.ts. WK6 is in task-requests.test.ts.

import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import { database, gate, gatedTool, live, mortal } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";
import { AHEAD } from "./leases-support.ts";
import { codeOf } from "./services-support.ts";
import { durable, eventually, jobs, start, starting, states, taskOf } from "./work-support.ts";

vi.setConfig({ testTimeout: 30_000 });

describe("two runtimes on one file", () => {
  test("[WK3] durable tasks run in one of them; the other has them when the first is closed", async () => {
    const path = database();
    const [here, there] = [jobs(), jobs()];
    const first = await live({ store: sqliteStore({ path }), plugins: starting(here) });
    await start(first.session, durable("a"));
    here.attempts[0]?.context.progress("first");
    const second = await live({
      store: sqliteStore({ path }),
      plugins: starting(there),
      script: [say("answered")],
      leaseMs: 300,
    });
    expect(second.session.tasks.list()).toEqual([]);
    expect(there.attempts).toEqual([]);
    expect(await codeOf(start(second.session, durable("b", "report")))).toContain("run in another runtime"); // [WK4]
    expect((await second.session.turn("hello").result).text).toBe("answered");
    here.attempts[0]?.context.progress("second");
    await first.runtime.close();
    await start(second.session, durable("b"));
    await eventually(() => there.attempts.length).toBe(2);
    expect(there.attempts.map(({ context: { record } }) => [record.id, record.attempt]).sort()).toEqual([
      ["a", 2],
      ["b", 1],
    ]);
    expect(taskOf(second.session, "a")?.progress).toBe("second");
  });

  test("[WK3] work that has ended leaves the session to the runtime that needs it next", async () => {
    const path = database();
    const [here, there] = [jobs(), jobs()];
    const first = await live({ store: sqliteStore({ path }), plugins: starting(here) });
    await start(first.session, durable("a"));
    const second = await live({ store: sqliteStore({ path }), plugins: starting(there) });
    const started = start(second.session, durable("b", "report")); // [WK4]: it waits for the first.
    here.attempts[0]?.finish("done");
    await started;
    await eventually(() => there.attempts.length).toBe(1);
    await second.runtime.close();
    await start(first.session, durable("c"));
    expect([...states(first.session.tasks.list())].sort()).toEqual(["a completed", "b failed", "c running"]);
  });

  test("[WT26] a task that reuses the id of an ended one is recovered in the runtime that had run the ended one", async () => {
    const path = database();
    const [here, there] = [jobs(), jobs()];
    const first = await live({ store: sqliteStore({ path }), plugins: starting(here) });
    await start(first.session, durable("a"));
    here.attempts[0]?.finish("done");
    await eventually(() => states(first.session.tasks.list())).toEqual(["a completed"]);
    const second = await mortal({ store: sqliteStore({ path }), plugins: starting(there) });
    await start(second.session, durable("a", "report"));
    await eventually(() => there.attempts.length).toBe(1);
    await second.die();
    await first.runtime.recover();
    await eventually(() => states(first.session.tasks.list())).toEqual(["a failed"]); // As WT24 says.
  });

  test("[WK5] a runtime whose work another one took over writes nothing over it", async () => {
    const path = database();
    const [here, there] = [jobs(), jobs()];
    const first = await live({ store: sqliteStore({ path }), plugins: starting(here) });
    await start(first.session, durable("a"));
    // By its clock the lease of the first has expired.
    const second = await live({ store: sqliteStore({ path }), plugins: starting(there), clock: AHEAD });
    await start(second.session, durable("b"));
    here.attempts[0]?.context.progress("too late");
    await eventually(() => here.attempts[0]?.context.signal.aborted).toBe(true);
    await first.runtime.close();
    await second.runtime.close();
    const third = await live({ store: sqliteStore({ path }), plugins: starting(jobs()) });
    await eventually(() =>
      third.session.tasks
        .list()
        .map(({ id }) => id)
        .sort(),
    ).toEqual(["a", "b"]);
  });

  test("[WK3] progress is stored while turns run in the other", async () => {
    const path = database();
    const here = jobs();
    const at = gate();
    const first = await live({ store: sqliteStore({ path }), plugins: starting(here) });
    await start(first.session, durable("a"));
    const second = await live({
      store: sqliteStore({ path }),
      plugins: starting(jobs()),
      script: [callTool("wait"), say("done")],
      tools: [gatedTool("wait", at)],
    });
    const turn = second.session.turn("go");
    await at.begun;
    here.attempts[0]?.context.progress("during");
    here.attempts[0]?.finish("done meanwhile");
    at.open();
    expect((await turn.result).text).toBe("done");
    await first.runtime.close();
    await second.session.close();
    const again = await second.runtime.session("s");
    expect(again.tasks.list()).toMatchObject([{ id: "a", state: "completed", result: "done meanwhile" }]);
    expect(transcript(again).at(-1)).toBe("assistant: done");
  });

  test("[WK3] a runtime that lost the work of a session stops it, and writes nothing of it any more", async () => {
    const path = database();
    const [here, there] = [jobs(), jobs()];
    let isLost = false;
    const first = await live({
      store: sqliteStore({ path }),
      plugins: starting(here),
      leaseMs: 30,
      // As after a pause that was longer than the lease: others were told that it is free.
      around: async (method, call) => {
        if (isLost && method === "renew") return ["s\u001fwork"] as never;
        return call();
      },
    });
    await start(first.session, durable("a"));
    here.attempts[0]?.context.progress("stored");
    await first.session.turn("a commit that has it").result;
    await first.session.monitors.start({
      id: "m",
      command: "sleep 600",
      persistent: true,
      restartOnRestore: true,
    });
    isLost = true;
    await eventually(() => here.attempts[0]?.context.signal.aborted).toBe(true);
    here.attempts[0]?.context.progress("too late");
    await eventually(() => first.session.tasks.list({ includeTerminal: false })).toEqual([]);
    await first.session.turn("another commit").result;
    await first.runtime.close();
    const { session } = await live({ store: sqliteStore({ path }), plugins: starting(there) });
    await eventually(() => there.attempts.length).toBe(1);
    expect(there.attempts[0]?.context.record).toMatchObject({ attempt: 2, progress: "stored" });
    expect(states(session.tasks.list())).toEqual(["a running", "monitor:m running"]);
  });
});

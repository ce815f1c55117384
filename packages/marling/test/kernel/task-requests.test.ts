// Durable tasks that are begun in a session whose work another runtime has: rule WK6 of session-work.ts, and TR1 to TR4.

import { defineTool, type JsonObject } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import type { CallStore } from "../../src/testing/faulty-store.ts";
import { database, gate, type LifeOptions, live, mortal, unattended } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";
import { act, codeOf } from "./services-support.ts";
import { durable, eventually, type Jobs, jobs, simple, start, starting, states } from "./work-support.ts";

vi.setConfig({ testTimeout: 30_000 });

/** What ran here: the task and its attempt. */
const ran = ({ attempts }: Jobs): readonly string[] =>
  attempts.map(({ context: { record } }) => `${record.sessionId}/${record.id} ${record.attempt}`).sort();

/** Runtimes on one file, each with jobs of its own. */
function shared(): (background: Jobs, more?: Partial<LifeOptions>) => LifeOptions {
  const path = database();
  return (background, more = {}) => ({
    store: sqliteStore({ path }),
    plugins: starting(background),
    ...more,
  });
}

/** A store that shows, once it is told, nothing of what others write. */
function blinded(): { readonly around: CallStore; blind(): void } {
  let isBlind = false;
  return {
    around: async (method, call) => (isBlind && method === "revision" ? (0 as never) : call()),
    blind: () => {
      isBlind = true;
    },
  };
}

/** A tool that begins a durable task, and then waits at a gate. */
const beginning = (at: ReturnType<typeof gate>) =>
  defineTool({
    name: "begin",
    description: "Begins a task.",
    input: { type: "object" },
    replay: "safe",
    execute: async (_input, ctx) => {
      await ctx.host.spawnManagedTask("s", durable("b"));
      await at.pass();
      return "begun";
    },
  });

describe("a durable task that is begun where another runtime has the work", () => {
  test("[WK6] a turn begins it while a step of the other waits for the turn", async () => {
    const options = shared();
    const [here, there] = [jobs(), jobs()];
    const at = gate();
    const first = await live(options(here));
    await start(first.session, durable("a"));
    const script = [callTool("begin"), say("done")];
    const second = await live(options(there, { script, tools: [beginning(at)] }));
    const turn = second.session.turn("go");
    await eventually(() => second.model.requests.length).toBe(1);
    const step = here.attempts[0]?.context.step("x", () => "stepped");
    await at.begun;
    at.open();
    expect((await turn.result).text).toBe("done");
    expect(transcript(second.session).join("\n")).toContain("begun");
    expect(await step).toBe("stepped");
    await eventually(() => ran(here)).toEqual(["s/a 1", "s/b 1"]);
    for (const { finish } of here.attempts) finish("done");
    await eventually(() => states(first.session.tasks.list())).toEqual(["a completed", "b completed"]);
    expect(ran(there)).toEqual([]);
  });

  test("[WK6] the runtime that has the work finds the request with nothing to store of its own", async () => {
    const options = shared();
    const [here, there] = [jobs(), jobs()];
    const first = await live(options(here));
    await start(first.session, durable("a"));
    const second = await live(options(there));
    await start(second.session, durable("b"));
    await eventually(() => ran(here)).toEqual(["s/a 1", "s/b 1"]);
    expect(ran(there)).toEqual([]);
  });

  test("[TR1] one key is one task, before and after it was taken; another task of a live id is refused", async () => {
    const options = shared();
    const [here, there] = [jobs(), jobs()];
    const first = await live(options(here));
    await start(first.session, durable("a"));
    const second = await live(options(there));
    const keyed = durable("b", "rerun", { idempotencyKey: "one" });
    await start(second.session, keyed);
    await start(second.session, keyed);
    expect(await codeOf(start(second.session, durable("b")))).toContain("no live task");
    await eventually(() => ran(here)).toEqual(["s/a 1", "s/b 1"]);
    await start(second.session, keyed);
    expect(await codeOf(start(second.session, durable("b")))).toContain("no live task");
    here.attempts[1]?.finish("done");
    await eventually(() => states(first.session.tasks.list())).toEqual(["a running", "b completed"]);
    await start(second.session, keyed); // It has ended, and is not begun again.
    await start(second.session, durable("c"));
    await eventually(() => ran(here)).toEqual(["s/a 1", "s/b 1", "s/c 1"]);
    expect(ran(there)).toEqual([]);
  });

  test("[TR3] a request waits while a live task of the owner has its id", async () => {
    const options = shared();
    const here = jobs();
    const first = await live(options(here));
    await start(first.session, durable("a"));
    await act(first.session, "register", simple("b") as unknown as JsonObject);
    const second = await live(options(jobs()));
    await start(second.session, durable("b"));
    here.attempts[0]?.context.progress("a commit that sees the request");
    await first.session.turn("another").result.catch(() => undefined);
    expect(ran(here)).toEqual(["s/a 1"]);
    await first.session.tasks.cancel("b");
    await eventually(() => ran(here)).toEqual(["s/a 1", "s/b 1"]);
  });

  test("[TR4] a fork has no requests", async () => {
    const options = shared();
    const [here, there] = [jobs(), jobs()];
    const { around, blind } = blinded();
    const first = await live(options(here, { around }));
    await start(first.session, durable("a"));
    blind();
    const second = await live(options(there));
    await start(second.session, durable("b"));
    const fork = await second.runtime.sessions.fork("s", { as: "fork" });
    await fork.close();
    const again = await second.runtime.session("fork");
    expect(again.tasks.list()).toEqual([]);
    expect(ran(there)).toEqual([]);
  });
});

describe("a request whose runtimes die", () => {
  test("[WK6] the runtime that asked takes the work of a dead one, with the request", async () => {
    const options = shared();
    const [here, there] = [jobs(), jobs()];
    const { around, blind } = blinded();
    const first = await mortal(options(here, { around }));
    await start(first.session, durable("a"));
    blind();
    const second = await live(options(there));
    await start(second.session, durable("b"));
    await first.die();
    await second.runtime.recover();
    await eventually(() => ran(there)).toEqual(["s/a 2", "s/b 1"]);
  });

  test("[WK6] recovery finds a session that has a request and nothing else to resume", async () => {
    const options = shared();
    const [here, there, later] = [jobs(), jobs(), jobs()];
    const { around, blind } = blinded();
    const first = await mortal(options(here, { around }));
    await act(first.session, "register", durable("a", "external") as unknown as JsonObject);
    blind();
    const second = await mortal(options(there));
    await start(second.session, durable("b"));
    await second.die();
    await first.die();
    const { runtime } = unattended(options(later));
    await runtime.recover();
    await eventually(() => ran(later)).toEqual(["s/b 1"]);
  });

  test("[WK6] an opening takes a request that was left", async () => {
    const options = shared();
    const [here, there, later] = [jobs(), jobs(), jobs()];
    const { around, blind } = blinded();
    const first = await mortal(options(here, { around }));
    await start(first.session, durable("a"));
    blind();
    const second = await mortal(options(there));
    await start(second.session, durable("b"));
    await second.die();
    await first.die();
    const third = await live(options(later));
    await eventually(() => ran(later)).toEqual(["s/a 2", "s/b 1"]);
    for (const { finish } of later.attempts) finish("done");
    await eventually(() => states(third.session.tasks.list())).toEqual(["a completed", "b completed"]);
    await third.runtime.close();
    const last = jobs();
    await live(options(last));
    expect(ran(last)).toEqual([]);
  });
});

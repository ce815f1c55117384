// Commits beside a turn that goes to sleep at the same moment. The store is answered by hand, so that each order in which
// the two can meet is played, whatever the machine does.

import { MarlingError, type Session, type Store } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { type Deferred, deferred } from "../../src/base/deferred.ts";
import type { CallStore } from "../../src/testing/faulty-store.ts";
import { database, gate, gatedTool, type Life, live } from "./durable-support.ts";
import { counter } from "./leases-support.ts";
import { answering, asking, claimAsStranger, parked, rejectionOf, transcript } from "./parked-support.ts";
import { durable, eventually, type Jobs, jobs, start, starting, taskOf } from "./work-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };

const note = (text: string) => [{ kind: "message", message: { role: "user", content: text } }] as const;

interface World extends Life {
  readonly path: string;
  readonly store: Store;
  readonly background: Jobs;
  readonly keys: readonly string[];
}

/** A runtime with a durable task that runs, and a tool that puts its turn to sleep. */
async function world({
  path = database(),
  around = (_method, call) => call(),
}: {
  readonly path?: string;
  readonly around?: CallStore;
}): Promise<World> {
  const { tool, keys } = asking();
  const background = jobs();
  const store = sqliteStore({ path });
  const plugins = [...starting(background)];
  const life = await live({ store, script: answering(ASK), tools: [tool], plugins, around });
  if (taskOf(life.session, "a") === undefined) await start(life.session, durable("a"));
  return { ...life, store, path, background, keys };
}

interface Operation {
  readonly name: string;
  run(world: World): Promise<unknown>;
  /** What any runtime finds of it in the store. */
  seen(session: Session): Promise<unknown> | unknown;
  readonly expected: unknown;
}

/** What may be written beside a turn. */
const OPERATIONS: readonly Operation[] = [
  {
    name: "a step of a durable task",
    run: async ({ background }) => background.attempts[0]?.context.step("one", () => 1),
    seen: (session) => taskOf(session, "a")?.steps,
    expected: { one: 1 },
  },
  {
    name: "the outcome of a durable task",
    run: async ({ session, background }) => {
      const { context, finish } = background.attempts[0] as Jobs["attempts"][number];
      await context.step("last", () => 2);
      finish("made");
      await eventually(() => taskOf(session, "a")?.state).not.toBe("running");
    },
    seen: (session) => taskOf(session, "a")?.result,
    expected: "made",
  },
  {
    name: "nodes that are appended",
    run: ({ session }) => session.appendNodes(note("beside")),
    seen: async (session) => (await transcript(session)).filter((line) => line === "user: beside"),
    expected: ["user: beside"],
  },
  {
    name: "a change of the tools",
    run: ({ session }) => session.tools.setMembership(["ask"], false),
    seen: (session) => session.tools.list().map(({ name }) => name),
    expected: [],
  },
];

/** Resolves when the event loop has turned so often that whatever could happen without an answer has happened. */
async function loops(): Promise<void> {
  for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

interface Race {
  readonly around: CallStore;
  /** Settled when the operation is to begin. */
  readonly begin: Deferred<void>;
}

/** The turn is parked in the store, and the commit is asked for before the answer arrives. */
function parkFirst(): Race {
  const [begin, asked] = [deferred<void>(), deferred<void>()];
  let isBegun = false;
  const around: CallStore = async (method, call) => {
    if (method === "commit" && isBegun) asked.resolve();
    if (method !== "park") return call();
    const answer = await call();
    isBegun = true;
    begin.resolve();
    await Promise.race([asked.promise, loops()]);
    return answer;
  };
  return { around, begin };
}

/** The commit is asked for under the lease, and arrives when the turn was parked, if that does not wait for it. */
function commitFirst(): Race {
  const [begin, asked, made] = [deferred<void>(), deferred<void>(), deferred<void>()];
  let isBegun = false;
  const around: CallStore = async (method, call) => {
    if (method === "waits.create") {
      isBegun = true;
      begin.resolve();
      await asked.promise;
    }
    if (method === "commit" && isBegun) {
      asked.resolve();
      await Promise.race([made.promise, loops()]);
    }
    const answer = await call();
    if (method === "park") made.resolve();
    return answer;
  };
  return { around, begin };
}

describe.each([
  ["parking that is answered late", parkFirst],
  ["parking that overtakes it", commitFirst],
])("a commit beside a turn, with %s", (_name, race) => {
  test.each(OPERATIONS)("[C7] $name is stored, and the turn ends", async ({ run, seen, expected }) => {
    const { around, begin } = race();
    const first = await world({ around });
    const turn = first.session.turn("go");
    await begin.promise;
    await run(first);
    await parked(first.session);
    expect(await claimAsStranger(first.store)).toMatchObject({ kind: "claimed", isTakeover: false });
    await first.runtime.resolve(first.keys[0] ?? "", { ok: "yes" });
    expect((await turn.result).outcome).toMatchObject({ kind: "finished", text: "Done." });
    await first.runtime.close();
    const second = await world({ path: first.path });
    expect(await seen(second.session)).toEqual(expected);
  });
});

test("[LE6] a parking whose answer is lost leaves no lease behind: the next turn claims its own", async () => {
  let isLost = false;
  const { session, runtime, keys, store } = await world({
    around: async (method, call) => {
      const answer = await call();
      if (method !== "park" || isLost) return answer;
      isLost = true;
      throw new MarlingError("io_failed", "the answer was lost");
    },
  });
  const [turn, next] = [session.turn("go"), session.turn("next")];
  expect((await rejectionOf(turn.result)).code).toBe("io_failed");
  await runtime.resolve(keys[0] ?? "", { ok: "yes" });
  expect((await next.result).text).toBe("Answer to next.");
  expect((await transcript(session)).at(-1)).toBe("assistant: Answer to next.");
  expect(await claimAsStranger(store)).toMatchObject({ kind: "claimed", isTakeover: false });
});

test("[C7][LE5] a lease that others had meanwhile is claimed again for a commit beside turns, and not for the turn", async () => {
  const at = gate();
  const path = database();
  const written: string[] = [];
  const first = await live({
    store: sqliteStore({ path }),
    script: [callTool("wait"), say("Never said.")],
    tools: [gatedTool("wait", at, { isDeaf: true })],
    around: (method, call) => {
      written.push(method);
      return call();
    },
  });
  const turn = first.session.turn("go");
  await at.begun;
  const store = sqliteStore({ path });
  onTestFinished(() => store.close());
  const others = await claimAsStranger(store, { now: Date.now() + 3_600_000 });
  expect(others).toMatchObject({ kind: "claimed", isTakeover: true });

  expect((await first.session.appendNodes(note("beside"))).status).toBe("appended");
  const before = written.length;
  at.open();
  expect((await rejectionOf(turn.result)).code).toBe("lease_lost");
  const writes = ["commit", "journal.append", "waits.create", "waits.end", "deliver", "park"];
  expect(written.slice(before).filter((method) => writes.includes(method))).toEqual([]);
  expect(await transcript(first.session)).toEqual(["user: beside"]);
  expect(await claimAsStranger(store)).toMatchObject({ kind: "claimed", isTakeover: false });
});

test("[C7] what others committed while they had the lease forbids a change that was made for the state before", async () => {
  const path = database();
  const lost = deferred<void>();
  let isHeld = false;
  const first = await live({
    store: sqliteStore({ path }),
    plugins: [counter()],
    around: async (method, call) => {
      if (method === "commit" && isHeld) await lost.promise;
      return call();
    },
  });
  const second = await live({ store: sqliteStore({ path }), plugins: [counter()] });
  isHeld = true;
  const command = first.session.command("counter.add", {});
  await second.session.appendNodes(note("there"));
  lost.resolve();
  expect((await rejectionOf(command)).code).toBe("revision_conflict");
  expect(await first.session.query("counter.read", {})).toBe(0);
  await first.session.command("counter.add", {});
  expect(await second.session.query("counter.read", {})).toBe(1);
});

// One session, open in two runtimes: what each sees of the other, and who waits for whom. E15, claim-session.ts (CL2),
// commit.ts (C5), turn-queue.ts (TQ), operations.ts (OP3).

import type { Session } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import {
  database,
  gate,
  gatedStep,
  gatedTool,
  live,
  mortal,
  quickTool,
  userTexts,
} from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";
import { counted, sharedFile } from "./leases-support.ts";
import { rejectionOf } from "./tools-support.ts";

const NOTE = { kind: "message", message: { role: "user", content: "a note" } } as const;

describe("what the other runtime committed is there before anything is done", () => {
  /** The other one has run a turn, counted to two, and changed the policy and the tools. */
  async function movedByOther() {
    const open = sharedFile();
    const tools = [quickTool("one"), quickTool("two")];
    const here = await open({ script: () => say("here"), tools });
    const other = await open({ script: () => say("there"), tools });
    await other.session.turn("from there").result;
    await other.session.command("counter.add");
    await other.session.command("counter.add");
    await other.session.configure({ instructions: "Be brief." });
    await other.session.tools.setMembership(["two"], false);
    expect(here.session.read()).toMatchObject({ revision: 1, messages: [] });
    return { here, other };
  }

  /** What both have to show when nothing but the operation itself was added here. */
  function expectSeen(session: Session): void {
    expect(transcript(session).slice(0, 2)).toEqual(["user: from there", "assistant: there"]);
    expect(session.read().policy.instructions).toBe("Be brief.");
    expect(session.tools.list().map(({ name }) => name)).not.toContain("two");
  }

  test("[CL2] a turn", async () => {
    const { here } = await movedByOther();
    const report = await here.session.turn("from here").result;
    expect(report).toMatchObject({ text: "here", revision: 7 });
    expectSeen(here.session);
    expect(userTexts(here.model.requests[0])).toEqual(["from there", "from here"]);
    expect(here.model.requests[0]?.system).toContain("Be brief.");
    expect(here.model.requests[0]?.tools.map(({ name }) => name)).not.toContain("two");
    expect(await here.session.query("counter.read")).toBe(2);
  });

  test("[CL2] a turn after operations that accepted no input", async () => {
    const open = sharedFile();
    const here = await open({ script: () => say("here") });
    await here.session.turn("first").result;
    const other = await open();
    await other.session.configure({ instructions: "Be brief." });
    await other.session.command("counter.add");
    expect(await here.session.turn("second").result).toMatchObject({ text: "here", revision: 5 });
    expect(here.model.requests[1]?.system).toContain("Be brief.");
    expect(await here.session.query("counter.read")).toBe(1);
  });

  test("[OP3] a query", async () => {
    const { here } = await movedByOther();
    expect(await here.session.query("counter.read")).toBe(2);
    expectSeen(here.session);
  });

  test.each([
    ["command", "counter.add"],
    ["task", "counter.task"],
  ] as const)("[OP3] a %s", async (kind, name) => {
    const { here, other } = await movedByOther();
    expect((await here.session[kind](name)).output).toBe(3);
    expectSeen(here.session);
    expect(await other.session.query("counter.read")).toBe(3);
  });

  test("[OP3] an action", async () => {
    const { here, other } = await movedByOther();
    expect((await here.session.action("counter.act")).outcome).toMatchObject({ kind: "success", value: 3 });
    expectSeen(here.session);
    expect(await other.session.query("counter.read")).toBe(3);
  });

  test("[CL2] a change of policy", async () => {
    const { here, other } = await movedByOther();
    await here.session.configure({ maxTurns: 7 });
    expectSeen(here.session);
    expect(here.session.read().policy).toMatchObject({ instructions: "Be brief.", maxTurns: 7 });
    await other.session.query("counter.read");
    expect(other.session.read().policy).toMatchObject({ instructions: "Be brief.", maxTurns: 7 });
  });

  test("[CL2] a compaction", async () => {
    const { here, other } = await movedByOther();
    expect(await here.session.compact()).toBe(true);
    expect(transcript(here.session)).toEqual(["system: 2 messages"]);
    await other.session.query("counter.read");
    expect(transcript(other.session)).toEqual(["system: 2 messages"]);
  });

  test("[CL2] nodes that are appended, and the ancestor they ask for", async () => {
    const { here, other } = await movedByOther();
    const requiresAncestor = (await other.session.history()).at(-1)?.id ?? "";
    const result = await here.session.appendNodes([NOTE], { requiresAncestor });
    expect(result.status).toBe("appended");
    expectSeen(here.session);
    expect(transcript(here.session)).toEqual(["user: from there", "assistant: there", "user: a note"]);
  });

  test("[CL2] changes of tools, in both directions", async () => {
    const { here, other } = await movedByOther();
    await here.session.tools.setMembership(["one"], false);
    expectSeen(here.session);
    await other.session.tools.setMembership(["two"], true);
    await here.session.query("counter.read");
    for (const { session } of [here, other])
      expect(session.tools.list().map(({ name }) => name)).toEqual(["batch", "two"]);
  });

  test("[TQ4] what is asked for again after the other one has ended it", async () => {
    const open = sharedFile();
    const here = await open();
    const other = await open({ script: [say("there")] });
    const report = await other.session.turn("go", { key: "k" }).result;
    expect(await here.session.turn("go", { key: "k" }).result).toEqual(report);
    expect(here.model.requests).toEqual([]);
    expect(transcript(here.session)).toEqual(["user: go", "assistant: there"]);
  });
});

describe("while the other runtime runs a turn", () => {
  /** The session was open here before the turn began, or is opened while it runs. */
  async function atWork({ opens = "before" }: { readonly opens?: "before" | "during" } = {}) {
    const open = sharedFile();
    const at = gate();
    const tools = [gatedTool("work", at), quickTool("two")];
    const claims = counted("claim");
    const openHere = () => open({ tools, around: claims.around, script: () => say("here") });
    const opened = opens === "before" ? await openHere() : undefined;
    const other = await open({ script: [callTool("work"), say("done")], tools });
    const turn = other.session.turn("go");
    await at.begun;
    const here = opened ?? (await openHere());
    /** Resolves when the lease was asked for here, in vain. */
    const hasAsked = (): Promise<boolean> => vi.waitUntil(() => claims.calls() > 0, { timeout: 20_000 });
    return { other, here, turn, at, hasAsked };
  }

  test("[C5] an append waits, and lands behind the turn", async () => {
    const { here, other, turn, at, hasAsked } = await atWork();
    const appended = here.session.appendNodes([NOTE]);
    await hasAsked();
    at.open();
    await turn.result;
    expect((await appended).status).toBe("appended");
    expect(transcript(here.session)).toEqual([
      "user: go",
      "assistant: call work",
      "tool: result work done",
      "assistant: done",
      "user: a note",
    ]);
    await other.session.query("counter.read");
    expect(transcript(other.session)).toEqual(transcript(here.session));
  });

  test("[C5] a change of policy waits, and holds from the next turn on", async () => {
    const { here, other, turn, at, hasAsked } = await atWork();
    const configured = here.session.configure({ instructions: "Be brief." });
    await hasAsked();
    at.open();
    expect((await turn.result).text).toBe("done");
    await configured;
    await here.session.turn("next").result;
    expect(here.model.requests[0]?.system).toContain("Be brief.");
    expect(await other.session.query("counter.read")).toBe(0);
    expect(other.session.read().policy.instructions).toBe("Be brief.");
  });

  const OPERATIONS: readonly [string, (session: Session) => Promise<unknown>][] = [
    ["a command", (session) => session.command("counter.add")],
    ["a task", (session) => session.task("counter.task")],
    ["an action", (session) => session.action("counter.act")],
    ["a change of tools", (session) => session.tools.setMembership(["two"], false)],
    ["a compaction", (session) => session.compact()],
  ];

  test.each(OPERATIONS.filter(([name]) => name !== "a change of tools"))(
    "[C5] %s in a session that was opened meanwhile waits for the turn",
    async (_name, operate) => {
      const { here, turn, at } = await atWork({ opens: "during" });
      const operated = operate(here.session);
      at.open();
      await turn.result;
      await operated;
      expect(here.session.read().revision).toBe(3);
      expect((await here.session.history()).length).toBeGreaterThan(4);
    },
  );

  // A compaction waits for the lease before it asks anybody: see compaction-overtaken.test.ts.
  test.each(OPERATIONS.filter(([name]) => name !== "a compaction"))(
    "[C5] %s waits, is refused when the session has moved, and can be made again",
    async (_name, operate) => {
      const { here, turn, at, hasAsked } = await atWork();
      const operated = operate(here.session);
      const refused = rejectionOf(operated);
      await hasAsked();
      at.open();
      await turn.result;
      expect(await refused).toMatchObject({ code: "revision_conflict", advice: "reload" });
      expect(transcript(here.session).at(-1)).toBe("assistant: done");
      expect(await here.session.query("counter.read")).toBe(0);
      expect(here.session.tools.list().map(({ name }) => name)).toContain("two");
      await operate(here.session);
      expect(here.session.read().revision).toBe(3);
    },
  );

  test("[OP1] a query is answered at once, with what is committed", async () => {
    const { here, turn, at } = await atWork();
    expect(await here.session.query("counter.read")).toBe(0);
    expect(transcript(here.session)).toEqual([]);
    at.open();
    await turn.result;
  });

  test("[TQ3] a turn of this one runs after it, in order", async () => {
    const { here, turn, at } = await atWork();
    const next = [here.session.turn("second"), here.session.turn("third")];
    await Promise.all(next.map(({ accepted }) => accepted));
    expect(here.model.requests).toEqual([]);
    at.open();
    expect((await turn.result).revision).toBe(2);
    const reports = await Promise.all(next.map(({ result }) => result));
    expect(reports.map(({ revision, turnId }) => [turnId, revision])).toEqual([
      ["s:turn:2", 3],
      ["s:turn:3", 4],
    ]);
    expect(userTexts(here.model.requests[1])).toEqual(["go", "second", "third"]);
  });

  test("[E14] inputs that a runtime accepted and left are run by the other one", async () => {
    const { here, other, turn, at } = await atWork();
    const waiting = here.session.turn("left behind");
    await waiting.accepted;
    await here.runtime.close();
    expect(await rejectionOf(waiting.result)).toMatchObject({ code: "runtime_closed" });
    at.open();
    await turn.result;
    await rejectionOf(other.runtime.recover()).catch(() => undefined); // Its script is at its end.
    const report = await other.session.turn("left behind", { id: waiting.id }).result;
    expect(report.turnId).toBe("s:turn:2");
    expect(await other.session.pending()).toEqual([]);
  });
});

test("[TQ3] inputs that a runtime left run before those that were accepted after them, and each once", async () => {
  const open = sharedFile();
  const at = gate();
  const one = await open({
    script: (request) => (userTexts(request).at(-1) === "first" ? callTool("work") : say("done")),
    tools: [gatedTool("work", at)],
  });
  const first = one.session.turn("first");
  await at.begun;
  const two = await open();
  const second = two.session.turn("second");
  await second.accepted;
  const third = one.session.turn("third");
  await third.accepted;
  const fourth = two.session.turn("fourth");
  await fourth.accepted;
  const fifth = one.session.turn("fifth");
  await fifth.accepted;
  await two.runtime.close();
  const cancelled = one.session.cancel(first.id);
  at.open();
  await cancelled;
  const reports = await Promise.all([first.result, third.result, fifth.result]);
  expect(reports.map(({ revision }) => revision)).toEqual([2, 4, 6]);
  expect(transcript(one.session).filter((line) => line.startsWith("user"))).toEqual(
    ["first", "second", "third", "fourth", "fifth"].map((text) => `user: ${text}`),
  );
});

test("[CP1] an input that joins a turn which is taken over just before it is no turn of its own", async () => {
  const path = database();
  const at = gate();
  const tools = [gatedTool("work", at)];
  const two = await live({ store: sqliteStore({ path }), script: () => say("done"), tools });
  const one = await mortal({ store: sqliteStore({ path }), script: [callTool("work")], tools });
  one.session.turn("first").result.catch(() => undefined);
  await at.begun;
  await one.die();
  at.open();
  await two.session.enqueue("join");
  await vi.waitUntil(async () => (await two.session.pending()).length === 0, { timeout: 20_000 });
  await two.session.turn("last").result;
  expect(transcript(two.session).filter((line) => line.startsWith("user"))).toEqual([
    "user: first",
    "user: join",
    "user: last",
  ]);
  expect(two.session.read().turnIndex).toBe(2);
});

test("[TQ2] the same key given to both is one turn, and both get its report", async () => {
  const open = sharedFile();
  const at = gate();
  const one = await open({ script: [gatedStep(at, say("once"))] });
  const two = await open({ script: [gatedStep(at, say("once"))] });
  const turns = [one, two].map(({ session }) => session.turn("go", { key: "k" }));
  await Promise.all(turns.map(({ accepted }) => accepted));
  await at.begun;
  at.open();
  const [first, second] = await Promise.all(turns.map(({ result }) => result));
  expect(first).toEqual(second);
  expect(one.model.requests.length + two.model.requests.length).toBe(1);
  for (const { session } of [one, two]) expect(transcript(session)).toEqual(["user: go", "assistant: once"]);
});

test("[ST32] a turn is cancelled from the other runtime, and both are told so", async () => {
  const open = sharedFile();
  const at = gate();
  const one = await open({ script: [callTool("work"), say("late")], tools: [gatedTool("work", at)] });
  const turn = one.session.turn("go", { key: "k" });
  await at.begun;
  const two = await open();
  const same = two.session.turn("go", { key: "k" });
  await same.accepted;
  expect(await two.session.cancel(turn.id, "enough")).toBe("requested");
  const report = await turn.result;
  expect(report.outcome).toMatchObject({ kind: "stopped", reason: "cancelled", message: "enough" });
  expect(await same.result).toEqual(report);
  expect(two.model.requests).toEqual([]);
});

test("[E15] an input that joins from the other runtime is part of the turn that runs", async () => {
  const open = sharedFile();
  const at = gate();
  const one = await open({ script: [callTool("work"), say("done")], tools: [gatedTool("work", at)] });
  const turn = one.session.turn("go");
  await at.begun;
  const two = await open();
  await two.session.enqueue("and this");
  at.open();
  await turn.result;
  expect(userTexts(one.model.requests[1])).toEqual(["go", "and this"]);
  await vi.waitUntil(async () => (await two.session.pending()).length === 0, { timeout: 20_000 });
  expect(two.model.requests).toEqual([]);
});

describe("sessions that come and go elsewhere", () => {
  test("[ST4] a session that was deleted by the other runtime is refused by name, and its turn ends so", async () => {
    const open = sharedFile();
    const at = gate();
    const one = await open({ script: [callTool("work"), say("late")], tools: [gatedTool("work", at)] });
    await one.session.appendNodes([NOTE]);
    const turn = one.session.turn("go");
    await at.begun;
    const two = await open();
    await two.runtime.sessions.delete("s");
    at.open();
    expect(await rejectionOf(turn.result)).toMatchObject({ code: "session_deleted", advice: "fix" });
    const attempts: readonly (() => Promise<unknown>)[] = [
      () => one.session.turn("more").result,
      () => one.session.enqueue("more"),
      () => one.session.command("counter.add"),
      () => one.session.query("counter.read"),
      () => one.session.configure({ instructions: "x" }),
      () => one.session.compact(),
      () => one.session.appendNodes([NOTE]),
      () => one.session.tools.setMembership(["work"], false),
      () => two.runtime.session("s"),
    ];
    for (const attempt of attempts)
      expect(await rejectionOf(attempt())).toMatchObject({ code: "session_deleted" });
    expect((await two.runtime.sessions.list()).items).toEqual([]);
  });

  test("[E17] a fork made by the other runtime has what was committed, and the two go on apart", async () => {
    const open = sharedFile();
    const at = gate();
    const one = await open({
      script: [say("one"), gatedStep(at, say("two"))],
      tools: [],
    });
    await one.session.turn("first").result;
    const turn = one.session.turn("second");
    await at.begun;
    const two = await open({ script: [say("forked")] });
    const fork = await two.runtime.sessions.fork("s", { as: "f" });
    at.open();
    await turn.result;
    await fork.turn("other").result;
    expect(transcript(fork)).toEqual(["user: first", "assistant: one", "user: other", "assistant: forked"]);
    expect(transcript(one.session)).toEqual([
      "user: first",
      "assistant: one",
      "user: second",
      "assistant: two",
    ]);
    expect(await rejectionOf(two.runtime.sessions.fork("s", { as: "f" }))).toMatchObject({
      code: "duplicate_session",
    });
  });
});

test("[C5] two runtimes that append, count and configure at once lose nothing of what they acknowledged", async () => {
  const open = sharedFile();
  const lives = await Promise.all([open(), open()]);
  let counts = 0;
  const work = lives.map(async ({ session }, who) => {
    for (let number = 0; number < 15; number += 1) {
      await session.appendNodes([{ kind: "plugin", type: "mark", body: { who, number } }]);
      await session.command("counter.add").then(
        () => {
          counts += 1;
        },
        (thrown: unknown) => expect(thrown).toMatchObject({ code: "revision_conflict" }),
      );
    }
  });
  await Promise.all(work);
  const { session } = await open();
  expect(await session.query("counter.read")).toBe(counts);
  const marks = (await session.history()).flatMap((node) =>
    node.kind === "plugin" ? [node.body as { readonly who: number; readonly number: number }] : [],
  );
  for (const who of [0, 1])
    expect(marks.filter((mark) => mark.who === who).map(({ number }) => number)).toEqual(
      Array.from({ length: 15 }, (_, index) => index),
    );
});

test("[O3] runtimes that begin a session at once get the same one", async () => {
  const open = sharedFile();
  const lives = await Promise.all([open(), open(), open()]);
  await lives[0]?.session.command("counter.add");
  for (const { session } of lives) {
    expect(await session.query("counter.read")).toBe(1);
    expect((await session.history()).map(({ kind }) => kind)).toEqual(["frame_open"]);
  }
});

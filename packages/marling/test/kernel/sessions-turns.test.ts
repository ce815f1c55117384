// Turns of a session over time: asked for twice, queued, closed over, and continued by another runtime.

import type { MarlingError, Session } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { memoryStore } from "../../src/store/memory.ts";
import { held } from "./sessions-support.ts";
import { play, plugin, rejectionOf, stage, until } from "./tools-support.ts";

function said(session: Session): readonly string[] {
  return session
    .read()
    .messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.kind === "text" || part.kind === "prose" ? [part.text] : [])),
    );
}

describe("asking twice", () => {
  test.each([
    ["key", { key: "k" }],
    ["id", { id: "t" }],
    ["key and id", { key: "k", id: "t" }],
  ])("[A2] the same %s and content is one turn: while it runs, and afterwards", async (_by, options) => {
    const { session, model, begun, gate } = await held([callTool("wait"), say("Done."), say("Never.")]);
    const first = session.turn("Go", options);
    await begun.promise;
    const second = session.turn("Go", options);
    expect([await first.accepted, await second.accepted]).toEqual([
      { inputId: "s:input:1", status: "accepted" },
      { inputId: "s:input:1", status: "duplicate" },
    ]);
    gate.resolve();
    const [one, two] = await Promise.all([play(first), play(second)]);
    expect(two.report).toEqual(one.report);
    expect(two.events.filter(({ kind }) => kind === "committed")).toHaveLength(1);
    const third = session.turn("Go", options);
    expect(await third.accepted).toMatchObject({ status: "duplicate" });
    expect(await third.result).toEqual(one.report);
    expect(third.id).toBe(one.report.turnId);
    expect([model.requests.length, session.read().turnIndex]).toEqual([2, 1]);
  });

  test.each([
    ["the same key with other content", { key: "k" }, "Other", { key: "k" }],
    ["the same id with other content", { id: "t" }, "Other", { id: "t" }],
    ["the key of a turn with another id", { key: "k", id: "t" }, "Go", { key: "k", id: "u" }],
  ])("[A2] %s is a conflict, and nothing is accepted", async (_what, first, again, second) => {
    const store = memoryStore();
    const { session } = await stage({ store, script: [say("Hi."), say("Never.")] });
    await play(session.turn("Go", first));
    const error = await rejectionOf(session.turn(again, second).result);
    expect(error).toMatchObject({ code: "idempotency_conflict", advice: "fix" });
    expect(await store.pending("s" as never)).toEqual([]);
    expect(session.read().turnIndex).toBe(1);
  });

  test("[A2] plugin inputs are part of the content", async () => {
    const { session } = await stage({ script: [say("Hi.")] });
    await play(session.turn("Go", { key: "k", pluginInputs: { p: { n: 1 } } }));
    expect((await session.turn("Go", { key: "k", pluginInputs: { p: { n: 1 } } }).accepted).status).toBe(
      "duplicate",
    );
    expect(
      (await rejectionOf(session.turn("Go", { key: "k", pluginInputs: { p: { n: 2 } } }).result)).code,
    ).toBe("idempotency_conflict");
  });

  test("[A2] hooks see an input once: one that was accepted is not asked about again", async () => {
    const asked: string[] = [];
    const gate = plugin("gate", {
      input: {
        before: ({ input }) => {
          asked.push(input.text ?? "");
          return asked.length === 1 ? undefined : { reject: { code: "late", message: "Too late." } };
        },
      },
    });
    const { session } = await stage({ plugins: [gate], script: [say("Hi.")] });
    const { report } = await play(session.turn("Go", { key: "k" }));
    expect(await session.turn("Go", { key: "k" }).result).toEqual(report);
    expect(asked).toEqual(["Go"]);
  });

  test("[ST3] an id that a later turn would have derived is left to who took it", async () => {
    const { session } = await stage({ script: () => say("Hi.") });
    await play(session.turn("One", { id: "s:turn:2" }));
    const { report } = await play(session.turn("Two"));
    expect(report.turnId).toBe("s:turn:2.2");
    expect(session.read().turnIndex).toBe(2);
  });

  test("[A2] a stored report is what it was, whatever a caller did to the one it got", async () => {
    const { session } = await stage({ script: [callTool("missing"), say("Hi.")] });
    const { report } = await play(session.turn("Go", { key: "k" }));
    const before = structuredClone(report);
    (report.toolCalls as unknown[]).length = 0;
    expect(await session.turn("Go", { key: "k" }).result).toEqual(before);
  });
});

describe("one after the other", () => {
  test("[TQ1] turns that are asked for while one runs are accepted and run in order", async () => {
    // architecture.md section 8, ruling 2: a busy session queues
    const { session, begun, gate } = await held([callTool("wait"), say("One."), say("Two."), say("Three.")]);
    const first = session.turn("A");
    await begun.promise;
    const rest = [session.turn("B"), session.turn("C")];
    expect(await Promise.all(rest.map(({ accepted }) => accepted))).toEqual([
      { inputId: "s:input:2", status: "accepted" },
      { inputId: "s:input:3", status: "accepted" },
    ]);
    expect(session.read().turnIndex).toBe(0);
    gate.resolve();
    const reports = await Promise.all([first, ...rest].map(({ result }) => result));
    expect(reports.map(({ turnId, text, revision }) => [turnId, text, revision])).toEqual([
      ["s:turn:1", "One.", 2],
      ["s:turn:2", "Two.", 3],
      ["s:turn:3", "Three.", 4],
    ]);
    expect(said(session)).toEqual(["A", "One.", "B", "Two.", "C", "Three."]);
  });

  test("[TQ2] a queued turn that is cancelled is committed as cancelled, in its place", async () => {
    const { session, model, begun, gate } = await held([callTool("wait"), say("One."), say("Three.")]);
    const first = session.turn("A");
    await begun.promise;
    const second = session.turn("B");
    const third = session.turn("C");
    await second.accepted;
    expect(await session.cancel(second.id)).toBe("requested");
    gate.resolve();
    const reports = await Promise.all([first, second, third].map(({ result }) => result));
    expect(
      reports.map(({ outcome }) => (outcome.kind === "stopped" ? outcome.reason : outcome.text)),
    ).toEqual(["One.", "cancelled", "Three."]);
    expect(model.requests).toHaveLength(3);
  });

  test("[TQ1] two callers of one id get one session", async () => {
    const { runtime } = await stage({ script: () => say("Hi.") });
    const [one, two] = await Promise.all([runtime.session("new"), runtime.session("new")]);
    expect(one).toBe(two);
    expect(await runtime.session("new")).toBe(one);
    expect((await runtime.sessions.list({ prefix: "new" })).items).toEqual([
      { id: "new", revision: 1, turnIndex: 0 },
    ]);
  });

  test("[TQ1] sessions do not wait for each other", async () => {
    const { runtime, session, begun, gate } = await held([callTool("wait"), say("Elsewhere."), say("Here.")]);
    const turn = session.turn("Go");
    await begun.promise;
    const other = await runtime.session("other");
    expect((await other.turn("Go").result).text).toBe("Elsewhere.");
    gate.resolve();
    expect((await turn.result).text).toBe("Here.");
  });
});

describe("closing", () => {
  test("[TQ2] a session that closes waits for what it accepted, and takes nothing more", async () => {
    const { session, runtime, begun, gate } = await held([callTool("wait"), say("One."), say("Two.")]);
    const turns = [session.turn("A"), session.turn("B")];
    await begun.promise;
    let isClosed = false;
    const closing = session.close().then(() => {
      isClosed = true;
    });
    expect((await rejectionOf(session.turn("C").result)).code).toBe("session_closed");
    expect((await rejectionOf(session.configure({ maxTurns: 1 }))).code).toBe("session_closed");
    expect(isClosed).toBe(false);
    gate.resolve();
    await closing;
    expect(await Promise.all(turns.map(async ({ result }) => (await result).text))).toEqual(["One.", "Two."]);
    const again = await runtime.session("s");
    expect(again).not.toBe(session);
    expect(said(again)).toEqual(["A", "One.", "B", "Two."]);
    await session.close();
  });

  test("[TQ2] what a command queued before the end is run before the end", async () => {
    const queuing = plugin("desk", {
      operations: {
        commands: {
          "desk.queue": {
            session: "required",
            handler: () => ({ output: null, directives: [{ kind: "queue_turn", input: "Later" }] }),
          },
        },
      },
    });
    const disposed: string[] = [];
    const watching = plugin("watching", {
      dispose: () => void disposed.push("disposed"),
      turn: { after: () => void disposed.push("turn") as undefined },
    });
    const { session } = await stage({ plugins: [queuing, watching], script: [say("Done.")] });
    const command = session.command("desk.queue");
    await session.close();
    expect((await command).pendingInputs).toHaveLength(1);
    expect(disposed).toEqual(["turn", "disposed"]);
    expect(session.read().turnIndex).toBe(1);
  });

  test("[TQ2] a runtime that closes waits for all its sessions, and takes nothing more", async () => {
    const { session, runtime, begun, gate } = await held([callTool("wait"), say("One.")]);
    const turn = session.turn("A");
    await begun.promise;
    const closing = runtime.close();
    for (const refused of [
      runtime.session("x"),
      runtime.sessions.delete("s"),
      runtime.sessions.fork("s", { as: "f" }),
    ]) {
      expect((await rejectionOf(refused)).code).toBe("runtime_closed");
    }
    gate.resolve();
    await closing;
    expect((await turn.result).text).toBe("One.");
    expect((await rejectionOf(session.turn("B").result)).code).toBe("runtime_closed");
    await runtime.close();
  });
});

describe("the sessions of a runtime", () => {
  test("[ST5] they are listed by prefix, page by page, in the order of their ids", async () => {
    const { runtime } = await stage();
    for (const id of ["b/2", "a/1", "b/1", "b/3", "c"]) await runtime.session(id);
    const all = await runtime.sessions.list();
    expect(all.items.map(({ id }) => id)).toEqual(["a/1", "b/1", "b/2", "b/3", "c", "s"]);
    expect(all.cursor).toBeUndefined();
    const first = await runtime.sessions.list({ prefix: "b/", limit: 2 });
    expect(first.items.map(({ id }) => id)).toEqual(["b/1", "b/2"]);
    await runtime.session("b/25");
    const second = await runtime.sessions.list({
      prefix: "b/",
      limit: 2,
      ...(first.cursor === undefined ? {} : { cursor: first.cursor }),
    });
    expect(second.items.map(({ id }) => id)).toEqual(["b/25", "b/3"]);
    expect(second.cursor).toBeUndefined();
    expect((await rejectionOf(runtime.sessions.list({ limit: 0 }))).code).toBe("invalid_input");
  });

  test.each([
    ["an unknown member", { preffix: "b/" }, "preffix"],
    ["an unknown member beside known ones", { prefix: "b/", title: "x" }, "title"],
    ["a prefix that is no text", { prefix: 7 }, "prefix"],
    ["a cursor that is no text", { cursor: null }, "cursor"],
    ["no object", "b/", "filter"],
    ["nothing", null, "filter"],
  ])("[ST5] a list by %s is refused", async (_what, filter, option) => {
    const { runtime } = await stage();
    const error = await rejectionOf(runtime.sessions.list(filter as never));
    expect(error).toMatchObject({ code: "invalid_options", advice: "fix", details: { option } });
    expect((await runtime.sessions.list({ prefix: undefined } as never)).items).toHaveLength(1);
  });

  test("[ST4] they exist until they are deleted, and then never again", async () => {
    const { runtime, session } = await stage({ script: [say("Hi.")] });
    await play(session.turn("Go"));
    expect([await runtime.sessions.exists("s"), await runtime.sessions.exists("t")]).toEqual([true, false]);
    await runtime.sessions.delete("s");
    expect(await runtime.sessions.exists("s")).toBe(false);
    expect((await runtime.sessions.list()).items).toEqual([]);
    expect((await rejectionOf(session.turn("More").result)).code).toBe("session_closed");
    for (const refused of [runtime.session("s"), runtime.sessions.fork("s", { as: "x" })]) {
      expect((await rejectionOf(refused)).code).toBe("session_deleted");
    }
    await runtime.session("other");
    expect((await rejectionOf(runtime.sessions.fork("other", { as: "s" }))).code).toBe("session_deleted");
  });

  test("[ST4] a session is deleted after what it accepted, and forks of it live on", async () => {
    const { runtime, session, begun, gate } = await held([callTool("wait"), say("One."), say("Two.")]);
    const turn = session.turn("A");
    await begun.promise;
    const deleting = runtime.sessions.delete("s");
    gate.resolve();
    await deleting;
    expect((await turn.result).text).toBe("One.");
  });
});

describe("two runtimes on one store", () => {
  test("[ST1] the second continues where the first left off", async () => {
    const store = memoryStore();
    const first = await stage({ store, script: [say("One.")] });
    const { report } = await play(first.session.turn("A", { key: "k" }));
    await first.runtime.close();
    const second = await stage({ store, script: [say("Two.")] });
    expect(said(second.session)).toEqual(["A", "One."]);
    expect(await second.session.turn("A", { key: "k" }).result).toEqual(report);
    await play(second.session.turn("B"));
    expect(said(second.session)).toEqual(["A", "One.", "B", "Two."]);
    expect(second.model.requests).toHaveLength(1);
  });

  test("[ST1] one that did not see the other's commit is told to reload, and loses nothing of what it sees", async () => {
    const store = memoryStore();
    const counting = plugin("counter", (ctx) => {
      const count = ctx.durable({ version: 1, initial: () => 0 });
      return {
        turn: {
          before: () => {
            count.update((n) => n + 1);
            return undefined;
          },
        },
        operations: { queries: { "counter.get": { session: "required", handler: () => count.get() } } },
      };
    });
    const first = await stage({ store, plugins: [counting], script: () => say("First.") });
    const second = await stage({ store, plugins: [counting], script: () => say("Second.") });
    await play(first.session.turn("A"));
    const turn = second.session.turn("B");
    expect(await rejectionOf(turn.result)).toMatchObject({
      code: "revision_conflict",
      advice: "reload",
      details: { expected: 1, found: 2 },
    });
    expect([said(second.session), await second.session.query("counter.get")]).toEqual([[], 0]);
    await second.session.close();
    const reloaded = await second.runtime.session("s");
    await play(reloaded.turn("C"));
    expect(said(reloaded).slice(0, 2)).toEqual(["A", "First."]);
    expect(await reloaded.query("counter.get")).toBe(said(reloaded).length / 2);
  });

  test("[ST2] of two that run one turn, one commits it and the other is told", async () => {
    const store = memoryStore();
    const first = await held([callTool("wait"), say("First.")], { store });
    const second = await held([callTool("wait"), say("Second.")], { store });
    const turns = [first.session.turn("A", { key: "k" }), second.session.turn("A", { key: "k" })];
    await Promise.all([first.begun.promise, second.begun.promise]);
    first.gate.resolve();
    const report = await turns[0]?.result;
    second.gate.resolve();
    const error = (await rejectionOf(turns[1]?.result as Promise<unknown>)) as MarlingError;
    expect(error.code).toBe("revision_conflict");
    await second.session.close();
    expect(await (await second.runtime.session("s")).turn("A", { key: "k" }).result).toEqual(report);
    await until(() => first.session.read().turnIndex === 1);
  });
});

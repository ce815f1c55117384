// Forks: another session with the same past. What it shares, what it keeps, and where it may begin.

import { definePlugin, defineTool, type ForkPolicy, type Plugin, type Session } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { memoryStore } from "../../src/store/memory.ts";
import { failureOf, play, plugin, rejectionOf, stage } from "./tools-support.ts";

/** Counts turns in declared state; how a fork begins is up to the test. */
function counter(fork?: ForkPolicy<number>): Plugin {
  return plugin("counter", (ctx) => {
    const count = ctx.durable({ version: 1, initial: () => 0, ...(fork === undefined ? {} : { fork }) });
    return {
      turn: {
        before: () => {
          count.update((n) => n + 1);
          return undefined;
        },
      },
      operations: {
        queries: {
          "counter.get": { session: "required", handler: () => count.get() },
          "counter.who": {
            session: "required",
            handler: (query) => ({
              given: query.sessionId ?? null,
              own: ctx.sessionId,
              isRoot: ctx.isRoot,
              parent: ctx.parentSessionId ?? null,
            }),
          },
        },
      },
    };
  });
}

const TOOLS = ["a", "b"].map((name) =>
  defineTool({ name, description: "Is there.", input: { type: "object" }, execute: () => name }),
);

async function leaf(session: Session): Promise<string> {
  return (await session.history()).at(-1)?.id ?? "";
}

describe("what a fork has", () => {
  test("[K81] plugin state is the fork's own from then on", async () => {
    const { runtime, session } = await stage({ plugins: [counter()], script: () => say("Hi.") });
    await play(session.turn("One"));
    const fork = await runtime.sessions.fork("s", { as: "f" });
    await play(fork.turn("Two"));
    await play(fork.turn("Three"));
    await play(session.turn("Two, here"));
    expect([await session.query("counter.get"), await fork.query("counter.get")]).toEqual([2, 3]);
  });

  test.each<[string, ForkPolicy<number>, number]>([
    ["copied", "copy", 1],
    ["reset", "reset", 0],
    ["made from the old one", (n) => n + 100, 101],
  ])(
    "[K81] declared state is %s as its policy says, now and when it is opened again",
    async (_how, policy, expected) => {
      const store = memoryStore();
      const first = await stage({ store, plugins: [counter(policy)], script: () => say("Hi.") });
      await play(first.session.turn("One"));
      const fork = await first.runtime.sessions.fork("s", { as: "f" });
      expect(await fork.query("counter.get")).toBe(expected);
      await first.runtime.close();
      const second = await stage({ store, plugins: [counter(policy)] });
      expect(await (await second.runtime.session("f")).query("counter.get")).toBe(expected);
      expect(await second.session.query("counter.get")).toBe(1);
    },
  );

  test("[K78] it is a root with its own id in every plugin, and keeps tools that were opted out", async () => {
    const { runtime, session } = await stage({
      plugins: [counter()],
      tools: TOOLS,
      script: [callTool("a"), say("No.")],
    });
    await session.tools.setMembership(["a"], false);
    const fork = await runtime.sessions.fork("s", { as: "f" });
    expect(await fork.query("counter.who")).toEqual({ given: "f", own: "f", isRoot: true, parent: null });
    expect(fork.tools.list().map(({ name }) => name)).toEqual(["b", "batch"]);
    const { report } = await play(fork.turn("Try"));
    expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_unavailable");
    await fork.tools.setMembership(["a"], true);
    expect(session.tools.list().map(({ name }) => name)).toEqual(["b", "batch"]);
  });

  test("[K78] it keeps the authority and the plugin options of its source; only the parent is dropped", async () => {
    // architecture.md section 8, ruling 5, in the place of spec 8.4 (empty authority)
    const request = {
      sessionId: "child",
      toolAccess: { hiddenTools: ["a"] },
      pluginOptions: { opener: { dir: "x" } },
    };
    const opener = definePlugin({
      id: "opener",
      options: z.object({ dir: z.string() }).optional(),
      build: ({ options, toolAccess }) => ({
        operations: {
          commands: {
            "opener.open": {
              session: "required",
              handler: (ctx) => ctx.sessionLifecycle.createSession(request),
            },
          },
          queries: {
            "opener.options": {
              session: "required",
              handler: () => ({ options, hidden: toolAccess.hiddenTools }),
            },
          },
        },
      }),
    });
    const { runtime, session } = await stage({
      plugins: [opener(), counter()],
      tools: TOOLS,
      script: [callTool("a"), say("No.")],
    });
    await session.command("opener.open");
    const fork = await runtime.sessions.fork("child", { as: "f" });
    expect(await fork.query("opener.options")).toEqual({ options: { dir: "x" }, hidden: ["a"] });
    expect(await fork.query("counter.who")).toMatchObject({ isRoot: true, parent: null });
    const { report } = await play(fork.turn("Try"));
    expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_unavailable");
    expect((await runtime.sessions.list({ prefix: "f" })).items).toEqual([
      { id: "f", revision: 3, turnIndex: 1 },
    ]);
  });

  test("[K80] plugins see a fork as one: their catalogs are resolved for it alone", async () => {
    const picky = plugin("picky", {
      toolCatalog: ({ sessionId }) => ({ remove: sessionId === "f" ? ["b"] : ["a"] }),
    });
    const { runtime, session } = await stage({ plugins: [picky], tools: TOOLS });
    const fork = await runtime.sessions.fork("s", { as: "f" });
    expect([session, fork].map(({ tools }) => tools.list().map(({ name }) => name))).toEqual([
      ["b", "batch"],
      ["a", "batch"],
    ]);
  });

  test("[K81] it shares the past and nothing after; usage and queue begin anew", async () => {
    const { runtime, session } = await stage({ script: () => say("Hi.", { usage: { input: 5 } }) });
    await play(session.turn("One"));
    const past = await session.history();
    const fork = await runtime.sessions.fork("s", { as: "f" });
    expect(await fork.history()).toEqual(past);
    expect(fork.usage().entries).toEqual([]);
    await play(fork.turn("Other"));
    await play(session.turn("More"));
    expect((await fork.history()).slice(0, past.length)).toEqual(past);
    expect((await session.history()).map(({ id }) => id)).not.toEqual(
      (await fork.history()).map(({ id }) => id),
    );
    expect(fork.usage().entries).toMatchObject([{ usage: { input: 5 } }]);
    const { report } = await play(fork.turn("Again", { id: "s:turn:1" }));
    expect(report.turnId).toBe("s:turn:1");
  });

  test("[K81] the policy is that of the source, and is changed apart", async () => {
    const { runtime, session } = await stage({ script: () => say("Hi.") });
    await session.configure({ instructions: "Be brief." });
    const fork = await runtime.sessions.fork("s", { as: "f" });
    await fork.configure({ instructions: "Be long." });
    expect([session.read().policy.instructions, fork.read().policy.instructions]).toEqual([
      "Be brief.",
      "Be long.",
    ]);
  });
});

describe("where a fork may begin", () => {
  test("[K81] at the last node of a commit, with the plugin and tool state of that commit", async () => {
    const { runtime, session } = await stage({
      plugins: [counter()],
      tools: TOOLS,
      script: () => say("Hi."),
    });
    await play(session.turn("One"));
    const first = await leaf(session);
    await session.tools.setMembership(["a"], false);
    await play(session.turn("Two"));
    const second = await leaf(session);
    await session.tools.setMembership(["b"], false);
    await session.configure({ instructions: "Late." });
    await play(session.turn("Three"));
    const forks = await Promise.all([
      runtime.sessions.fork("s", { as: "f1", at: first }),
      runtime.sessions.fork("s", { as: "f2", at: second }),
      runtime.sessions.fork("s", { as: "f3" }),
    ]);
    expect(await Promise.all(forks.map((fork) => fork.query("counter.get")))).toEqual([1, 2, 3]);
    // What was committed without nodes belongs to the last node before it.
    expect(forks.map(({ tools }) => tools.list().map(({ name }) => name))).toEqual([["b", "batch"], [], []]);
    expect(forks.map((fork) => fork.read().policy.instructions)).toEqual([undefined, "Late.", "Late."]);
    expect(forks.map((fork) => fork.read().turnIndex)).toEqual([1, 2, 3]);
    const { report } = await play(forks[0].turn("Two, otherwise"));
    expect(report.outcome.kind).toBe("finished");
    expect(await forks[0].query("counter.get")).toBe(2);
  });

  test("[K81] inside a turn it is refused with the two boundaries around it", async () => {
    const { runtime, session } = await stage({
      tools: TOOLS,
      script: [say("Hi."), callTool("a"), say("Done.")],
    });
    await play(session.turn("One"));
    const before = await leaf(session);
    await play(session.turn("Two"));
    const after = await leaf(session);
    const history = await session.history();
    const inside = history[history.findIndex(({ id }) => id === before) + 2]?.id ?? "";
    const error = await rejectionOf(runtime.sessions.fork("s", { as: "f", at: inside }));
    expect(error).toMatchObject({ code: "fork_point_inside_turn", details: { before, after } });
    for (const id of [inside, before, after]) expect(error.message).toContain(id);
    expect(await runtime.sessions.exists("f")).toBe(false);
  });

  test.each([
    ["an unknown node", { as: "f", at: "n_nowhere" }, "fork_point_unknown"],
    ["an id that is taken", { as: "s" }, "duplicate_session"],
    ["a blank id", { as: " " }, "invalid_id"],
  ])("[K81] %s is refused", async (_what, to, code) => {
    const { runtime } = await stage();
    expect((await rejectionOf(runtime.sessions.fork("s", to))).code).toBe(code);
  });

  test("[K81] a session that does not exist is refused", async () => {
    const { runtime } = await stage();
    expect((await rejectionOf(runtime.sessions.fork("nobody", { as: "f" }))).code).toBe("unknown_session");
  });

  test("[K81] a fork of a fork begins anywhere in the shared past", async () => {
    const { runtime, session } = await stage({ plugins: [counter()], script: () => say("Hi.") });
    await play(session.turn("One"));
    const first = await leaf(session);
    await play(session.turn("Two"));
    const fork = await runtime.sessions.fork("s", { as: "f" });
    await play(fork.turn("Three"));
    const again = await runtime.sessions.fork("f", { as: "g", at: first });
    expect(await again.query("counter.get")).toBe(1);
    expect(await again.history()).toEqual((await session.history()).slice(0, 3));
  });
});

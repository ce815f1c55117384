// Sessions that plugins create: what they begin with, what they run with, and how they end.

import { defineTool, directive, type MarlingError, type RuntimeOptions } from "marling";
import { callTool, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import type { SessionCreateRequest } from "../../src/plugin/session-create.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { create, family } from "./sessions-support.ts";
import { play, plugin, rejectionOf, type Stage, stage } from "./tools-support.ts";

async function staged(options: Omit<RuntimeOptions, "model"> = {}): Promise<Stage> {
  return stage({ plugins: [family], script: () => say("Hi."), ...options });
}

describe("what a child begins with", () => {
  test("[K79] it has a parent and the authority it was given", async () => {
    const on = await staged();
    const child = await create(on, on.session, {
      sessionId: "c",
      toolAccess: { hiddenTools: ["x"] },
      subagent: { parentSessionId: "s", capability: "search", depth: 1, maxDepth: 2 },
    });
    expect(await child.query("family.who")).toEqual({
      isRoot: false,
      parent: "s",
      subagent: { parentSessionId: "s", capability: "search", depth: 1, maxDepth: 2 },
      hidden: ["x"],
      tools: [],
    });
    expect((await on.runtime.sessions.list()).items).toEqual([
      { id: "c", revision: 1, turnIndex: 0, parentSessionId: "s" },
      { id: "s", revision: 1, turnIndex: 0 },
    ]);
  });

  test("[K79] a child that is a root has no parent and still no more authority", async () => {
    const on = await staged();
    const child = await create(on, on.session, { sessionId: "c", toolAccess: { hiddenTools: ["x"] } });
    const root = await create(on, child, { sessionId: "r", relation: { kind: "root" } });
    expect(await root.query("family.who")).toMatchObject({ isRoot: true, parent: null, hidden: ["x"] });
  });

  test("[K81] plugin state is forked or fresh, and the child's own in both cases", async () => {
    const on = await staged();
    await play(on.session.turn("One"));
    const forked = await create(on, on.session, { sessionId: "forked" });
    const fresh = await create(on, on.session, { sessionId: "fresh", plugins: "fresh" });
    await play(forked.turn("Two"));
    const counts = [on.session, forked, fresh].map((session) => session.query("family.count"));
    expect(await Promise.all(counts)).toEqual([1, 2, 0]);
  });

  test.each<[string, SessionCreateRequest, readonly string[]]>([
    ["nothing", {}, []],
    ["the current session", { start: { kind: "current_session" } }, ["user One", "assistant Hi."]],
    ["another session", { start: { kind: "existing_session", id: "other" } }, ["user Seed"]],
  ])(
    "[K82] a session that starts from %s has its messages, and the initial nodes behind them",
    async (_what, request, past) => {
      const on = await staged();
      await create(on, on.session, {
        sessionId: "other",
        initialNodes: [{ kind: "message", message: { role: "user", content: "Seed" } }],
      });
      await play(on.session.turn("One"));
      const child = await create(on, on.session, {
        ...request,
        sessionId: "c",
        initialNodes: [{ kind: "message", message: { role: "system", content: "Note" } }],
      });
      const said = child
        .read()
        .messages.map(
          ({ role, parts }) => `${role} ${parts.map((part) => ("text" in part ? part.text : "")).join("")}`,
        );
      expect(said).toEqual([...past, "system Note"]);
    },
  );

  test("[K82] the policy is the one asked for; else the creator's for an empty start, else that of the start", async () => {
    const models = { slow: scriptedModel([]), quick: scriptedModel([]) };
    const on = await staged({ models });
    await on.session.configure({ instructions: "Creator.", maxTurns: 7 });
    await create(on, on.session, { sessionId: "other", policy: { instructions: "Other.", model: "slow" } });
    const policyOf = async (request: SessionCreateRequest): Promise<unknown> =>
      (await create(on, on.session, request)).read().policy;
    expect(await policyOf({ sessionId: "c1" })).toEqual({
      model: "default",
      instructions: "Creator.",
      maxTurns: 7,
    });
    expect(await policyOf({ sessionId: "c2", start: { kind: "current_session" } })).toEqual({
      model: "default",
      instructions: "Creator.",
      maxTurns: 7,
    });
    expect(await policyOf({ sessionId: "c3", start: { kind: "existing_session", id: "other" } })).toEqual({
      model: "slow",
      instructions: "Other.",
      maxTurns: 7,
    });
    expect(
      await policyOf({
        sessionId: "c4",
        start: { kind: "existing_session", id: "other" },
        policy: { model: "quick", maxTurns: 1 },
      }),
    ).toEqual({
      model: "quick",
      instructions: "Other.",
      maxTurns: 1,
    });
    expect(on.session.read().policy).toEqual({ model: "default", instructions: "Creator.", maxTurns: 7 });
  });

  test("[K82] a child that starts from a session in a turn begins with what was committed", async () => {
    const store = memoryStore();
    const peek = defineTool({
      name: "peek",
      description: "Creates a child in the middle of the turn.",
      input: { type: "object" },
      execute: () => null,
    });
    const midway = plugin("midway", {
      toolCalls: {
        after: () => directive.createSession({ sessionId: "c", start: { kind: "current_session" } }),
      },
    });
    const on = await stage({
      store,
      tools: [peek],
      plugins: [family, midway],
      script: [say("Hi."), callTool("peek"), say("Done.")],
    });
    await play(on.session.turn("One"));
    await play(on.session.turn("Two"));
    const child = await on.runtime.session("c");
    expect(child.read().messages).toHaveLength(2);
    await on.runtime.close();
    const again = await stage({ store, tools: [peek], plugins: [family, midway] });
    expect((await again.runtime.session("c")).read().messages).toHaveLength(2);
  });
});

describe("ids and failures", () => {
  test("[K83] a blank id is derived, and every one of them is new", async () => {
    const on = await staged();
    const ids: string[] = [];
    for (const sessionId of ["", "  ", undefined])
      ids.push((await create(on, on.session, sessionId === undefined ? {} : { sessionId })).id);
    expect(ids).toEqual(["s:child:1.1", "s:child:1.2", "s:child:1.3"]);
    await play(on.session.turn("Go"));
    expect((await create(on, on.session, {})).id).toBe("s:child:2.1");
  });

  test("[K83] sessions that are created at the same time have ids of their own", async () => {
    const twins = plugin("twins", {
      operations: {
        commands: {
          "twins.create": {
            session: "required",
            handler: (ctx, requests) =>
              Promise.allSettled(
                (requests as SessionCreateRequest[]).map((request) =>
                  ctx.sessionLifecycle.createSession(request),
                ),
              ).then((settled) =>
                settled.map((one) =>
                  one.status === "fulfilled" ? one.value.sessionId : (one.reason as MarlingError).code,
                ),
              ),
          },
        },
      },
    });
    const on = await staged({ plugins: [family, twins] });
    expect(
      (await on.session.command("twins.create", [{}, { start: { kind: "current_session" } }, {}])).output,
    ).toEqual(["s:child:1.1", "s:child:1.2", "s:child:1.3"]);
    expect(
      (await on.session.command("twins.create", [{ sessionId: "same" }, { sessionId: "same" }])).output,
    ).toEqual(["same", "duplicate_session"]);
  });

  test.each(["s", "c", "stored"])("[K83] the id %s is taken, and nothing changes", async (sessionId) => {
    const on = await staged();
    await create(on, on.session, { sessionId: "c" });
    await (await create(on, on.session, { sessionId: "stored" })).close();
    const before = await on.runtime.sessions.list();
    const error = await rejectionOf(on.session.command("family.create", { sessionId }));
    expect((error.cause as MarlingError).code).toBe("duplicate_session");
    expect(await on.runtime.sessions.list()).toEqual(before);
  });

  test.each<[string, object, string]>([
    ["an unknown start", { start: { kind: "existing_session", id: "nobody" } }, "unknown_session"],
    ["an unknown parent", { relation: { kind: "child", parent: "nobody" } }, "unknown_session"],
    ["an unknown model", { policy: { model: "nothing" } }, "provider_unavailable"],
    ["a policy that is none", { policy: { maxTurns: 0 } }, "invalid_policy"],
    ["nodes that are none", { initialNodes: [{ kind: "nonsense" }] }, "invalid_node"],
    ["an unknown member", { nonsense: 1 }, "invalid_directive"],
  ])("[K83] %s is refused, and the id stays free", async (_what, request, code) => {
    const on = await staged();
    const error = await rejectionOf(on.session.command("family.create", { sessionId: "c", ...request }));
    expect((error.cause as MarlingError).code).toBe(code);
    expect(await on.runtime.sessions.exists("c")).toBe(false);
    await create(on, on.session, { sessionId: "c" });
  });

  test("[K83] a plugin that cannot be built for a child leaves nothing behind", async () => {
    let isBroken = true;
    const picky = plugin("picky", ({ isRoot }) => {
      if (!isRoot && isBroken) throw new Error("Not for children.");
      return {};
    });
    const on = await staged({ plugins: [family, picky] });
    for (const start of ["empty", "current_session"] as const) {
      await rejectionOf(on.session.command("family.create", { sessionId: "c", start: { kind: start } }));
    }
    expect(await on.runtime.sessions.exists("c")).toBe(false);
    isBroken = false;
    expect((await create(on, on.session, { sessionId: "c", start: { kind: "current_session" } })).id).toBe(
      "c",
    );
  });

  test("[K83] a protocol that refuses a child leaves nothing behind, not even the shared history", async () => {
    let isBroken = true;
    const protocol = plugin("protocol", {
      protocol: {
        session: {
          restoreSession: ({ sessionId }) => {
            if (sessionId === "c" && isBroken) throw new Error("Not this one.");
          },
        },
        driver: {
          buildPreamble: () => ({
            driver: { prepareRound: () => [], onModelResponse: () => [], onToolResults: () => [] },
            syncsEnvironment: false,
            executionPrompt: "",
            promptContributions: [],
          }),
        },
      },
    });
    const on = await staged({ plugins: [family, protocol] });
    await rejectionOf(
      on.session.command("family.create", { sessionId: "c", start: { kind: "current_session" } }),
    );
    expect(await on.runtime.sessions.exists("c")).toBe(false);
    isBroken = false;
    expect((await create(on, on.session, { sessionId: "c", start: { kind: "current_session" } })).id).toBe(
      "c",
    );
  });
});

describe("closing", () => {
  test("[K84] a session does not close itself, nor one that is at work; an unknown one is fine", async () => {
    const [begun, gate] = [deferred<void>(), deferred<void>()];
    const wait = defineTool({
      name: "wait",
      description: "Waits.",
      input: { type: "object" },
      execute: async () => {
        begun.resolve();
        await gate.promise;
        return null;
      },
    });
    const on = await stage({ plugins: [family], tools: [wait], script: [callTool("wait"), say("Done.")] });
    const child = await create(on, on.session, { sessionId: "c" });
    const codeOf = async (id: string): Promise<string> =>
      ((await rejectionOf(on.session.command("family.close", id))).cause as MarlingError).code;
    expect(await codeOf("s")).toBe("session_busy");
    const turn = child.turn("Go");
    await begun.promise;
    expect(await codeOf("c")).toBe("session_busy");
    gate.resolve();
    await turn.result;
    await on.session.command("family.close", "c");
    await on.session.command("family.close", "nobody");
    expect((await rejectionOf(child.command("family.read", "c"))).code).toBe("session_closed");
    expect(await on.runtime.sessions.exists("c")).toBe(true);
    expect((await on.runtime.session("c")).read().turnIndex).toBe(1);
  });

  test("[K84] a session reaches those below it and no others", async () => {
    const on = await staged();
    const child = await create(on, on.session, { sessionId: "c" });
    const grandchild = await create(on, child, { sessionId: "g" });
    const sibling = await create(on, on.session, { sessionId: "sibling" });
    expect((await on.session.command("family.read", "g")).output).toBe("g");
    expect((await child.command("family.read", "g")).output).toBe("g");
    for (const [from, to] of [
      [child, "s"],
      [child, "sibling"],
      [grandchild, "c"],
      [sibling, "g"],
    ] as const) {
      const error = await rejectionOf(from.command("family.read", to));
      expect((error.cause as MarlingError).code).toBe("unknown_session");
      const closing = await rejectionOf(from.command("family.close", to));
      expect((closing.cause as MarlingError).code).toBe("unknown_session");
    }
  });
});

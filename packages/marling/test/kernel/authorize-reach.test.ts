// Who may change what a session may do, and what becomes of the sessions below it: rules AU7 and AU9 of plugin/fork.ts.

import { definePlugin, defineTool, type Json } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { EVERYTHING, reach, records, TOKENS, WORLD } from "./authority-support.ts";
import { act, acting } from "./services-support.ts";
import { create, family } from "./sessions-support.ts";
import { play, plugin, rejectionOf, stage } from "./tools-support.ts";

const WHY = { reason: "as agreed" };

describe("nobody but the host", () => {
  /** The names of everything that is reached from a value. */
  function namesBelow(value: unknown, depth = 4, seen = new Set<unknown>()): readonly string[] {
    if (typeof value !== "object" || value === null || depth === 0 || seen.has(value)) return [];
    seen.add(value);
    const names: string[] = [];
    for (let at: object = value; at !== Object.prototype && at !== null; at = Object.getPrototypeOf(at))
      names.push(...Object.getOwnPropertyNames(at));
    const members = value as Readonly<Record<string, unknown>>;
    return [...names, ...names.flatMap((name) => namesBelow(read(members, name), depth - 1, seen))];
  }

  function read(members: Readonly<Record<string, unknown>>, name: string): unknown {
    try {
      return members[name];
    } catch {
      return undefined; // It is there, and that is all that is asked.
    }
  }

  test("[AU7] nothing that tools, hooks and operations are given changes it", async () => {
    const given: Record<string, readonly string[]> = {};
    const note = (who: string, context: unknown): void => {
      given[who] = namesBelow(context);
    };
    const looking = defineTool({
      name: "look",
      description: "Looks.",
      input: { type: "object" },
      execute: (_args, context) => note("tool", context),
    });
    const curious = plugin("curious", (build) => {
      note("build", build);
      return {
        ready: (ctx) => note("ready", ctx),
        turn: { before: (ctx) => note("turn", ctx) as undefined },
        session: { onEvent: (event) => note("event", event) },
        operations: {
          commands: { "curious.command": { session: "required", handler: (ctx) => note("command", ctx) } },
          actions: {
            "curious.action": { session: "required", handler: (ctx) => note("action", ctx) as never },
          },
        },
      };
    });
    const { session } = await stage({
      plugins: [curious],
      tools: [looking as never],
      script: [callTool("look"), say("done")],
    });
    await play(session.turn("look"));
    await session.command("curious.command", {});
    await session.action("curious.action", {});
    expect(Object.keys(given).sort()).toEqual([
      "action",
      "build",
      "command",
      "event",
      "ready",
      "tool",
      "turn",
    ]);
    expect(given.tool).toContain("createSession");
    expect(given.action).toContain("createSession");
    const doors = ["authorize", "holdTo", "hide", "adopt", "commit"];
    expect(Object.values(given).flatMap((names) => names.filter((name) => doors.includes(name)))).toEqual([]);
  });

  test("[AU8] nobody appends a record", async () => {
    const record = { reason: "so", at: 1, before: {}, after: {} };
    const node = { kind: "authority_change", ...record } as never;
    const appending = acting({
      "do.append": (host) => host.appendSessionNodes("s", { nodes: [node] }),
    });
    const { session } = await stage({ plugins: [appending] });
    expect(await rejectionOf(session.appendNodes([node]))).toMatchObject({ code: "invalid_node" });
    await expect(act(session, "do.append")).rejects.toThrow("authority_change");
    expect(await records(session)).toEqual([]);
  });
});

describe("who is below", () => {
  test("[AU9] children that are there keep what they have; later ones are cut to what holds then", async () => {
    const world = await stage({ ...WORLD, plugins: [...(WORLD.plugins ?? []), family] });
    const before = await create(world, world.session, {});
    await world.session.authorize({ hiddenTools: ["secret"], paths: ["docs"] }, WHY);
    const wide = { toolAccess: { tools: ["secret", "read"] }, paths: ["."] };
    const narrow = await create(world, world.session, wide);
    const fresh = await create(world, world.session, { ...wide, plugins: "fresh" });
    await world.session.authorize(EVERYTHING, WHY);
    const after = await create(world, world.session, wide);
    const results = [];
    for (const one of [before, narrow, fresh, after]) {
      results.push([await reach(one, "secret"), await reach(one, "outside")]);
    }
    expect(results).toEqual([
      ["told", "told"],
      ["tool_unavailable", "path_denied"],
      ["tool_unavailable", "path_denied"],
      ["told", "told"],
    ]);
  });

  test("[AU7] what is no authority stays: plugin options, and how deep a session is", async () => {
    const greeting = definePlugin({
      id: "greeting",
      options: { type: "object" },
      build: ({ options }) => ({
        operations: { queries: { "greeting.read": { session: "required", handler: () => options as Json } } },
      }),
    })();
    const world = await stage({ plugins: [greeting, family] });
    const subagent = { parentSessionId: "s", capability: "reader", depth: 1, maxDepth: 3 };
    const pluginOptions = { greeting: { word: "hello" } };
    const child = await create(world, world.session, { sessionId: "c", subagent, pluginOptions });
    await child.authorize({ tools: ["read"] }, WHY);
    expect(child.read().frames[0]?.assignment.authority).toMatchObject({ subagent, pluginOptions });
    await child.close();
    const again = await world.runtime.session("c");
    expect(await again.query("greeting.read")).toEqual({ word: "hello" });
    const relation = { kind: "child", parent: "c" } as const;
    const below = await create(world, world.session, { relation });
    expect(below.read().frames[0]?.assignment.authority.subagent).toMatchObject({ depth: 2, maxDepth: 3 });
  });

  test("[AU7] a child may be given more than its parent has, and nobody else gets it by that", async () => {
    const world = await stage({ ...WORLD, plugins: [...(WORLD.plugins ?? []), family] });
    const limits = { hiddenTools: ["secret"], paths: ["docs"], budget: { tokens: 100 * TOKENS } };
    const parent = await world.runtime.session("p", { authority: limits });
    const child = await create(world, parent, { sessionId: "c" });
    await child.authorize(EVERYTHING, { reason: "this one may" });
    expect([await reach(child, "secret"), await reach(child, "outside")]).toEqual(["told", "told"]);
    expect(await reach(parent, "secret")).toBe("tool_unavailable");
    // What the child makes is cut to the child's; what the parent makes below it is cut to the parent's too.
    expect((await create(world, child, {})).authority).toEqual({});
    const relation = { kind: "child", parent: "c" } as const;
    const made = await create(world, parent, { relation, paths: ["docs/a", "private"] });
    const left = 100 * TOKENS - 2 * TOKENS;
    expect(made.authority).toEqual({
      hiddenTools: ["secret"],
      paths: ["docs/a"],
      budget: { tokens: left },
    });
    expect([await reach(made, "secret"), await reach(made, "outside")]).toEqual([
      "tool_unavailable",
      "path_denied",
    ]);
  });
});

// Forks: what they take along, what they leave behind, and what a child may do.

import { expect, test } from "vitest";
import { narrowAuthority } from "../../src/plugin/fork.ts";
import { createPluginHost } from "../../src/plugin/plugin-host.ts";
import type { SessionAuthority } from "../../src/session/frame.ts";
import { defineTool } from "../../src/tool/define-tool.ts";
import { plugin, sessionOf, thrownBy, turnCtx } from "./samples.ts";

const tool = (name: string) =>
  defineTool({ name, description: name, input: { type: "object" }, execute: () => 1 });
const tools = plugin("tools", { tools: [tool("add"), tool("rm"), tool("ls")] });

test("[K78] a fork is a root with the overlay and the tool state of its source", () => {
  const seen: boolean[] = [];
  const look = plugin("look", (ctx) => {
    seen.push(ctx.isRoot);
    return {};
  });
  const host = createPluginHost([tools, look]);
  const source = host.buildSession("s", { parent: "p", overlay: { remove: ["ls"] } });
  source.toolRegistry.setMembership(["rm"], false);
  const fork = source.forkForSession("f");
  expect(seen).toEqual([false, true]);
  expect([fork.sessionId, fork.parentSessionId]).toEqual(["f", undefined]);
  expect(fork.overlay).toEqual({ remove: ["ls"] });
  expect(fork.toolRegistry.manifests().map(({ name }) => name)).toEqual(["add", "batch", "ls"]);
  expect(fork.resolveToolCatalog().names).toEqual(["add", "batch"]);
  source.toolRegistry.setMembership(["add"], false);
  expect(fork.toolRegistry.has("add")).toBe(true);
});

test("[K78] a fork keeps the authority and the plugin options of its source", () => {
  const source = createPluginHost([tools]).buildSession("s", {
    authority: { toolAccess: { hiddenTools: ["rm"] }, pluginOptions: { other: { x: 1 } } },
  });
  expect(source.forkForSession("f").authority).toEqual(source.authority);
  expect(source.forkForSession("g").toolRegistry.has("rm")).toBe(false);
});

test("[K79] a child has its parent and hides what its authority hides", () => {
  const seen: unknown[] = [];
  const look = plugin("look", (ctx) => {
    seen.push([ctx.isRoot, ctx.parentSessionId]);
    return {};
  });
  const source = createPluginHost([tools, look]).buildSession("s");
  const child = source.forkForChildSession("c", "s", { toolAccess: { hiddenTools: ["rm"] } });
  expect(seen).toEqual([
    [true, undefined],
    [false, "s"],
  ]);
  expect(child.parentSessionId).toBe("s");
  expect(child.toolRegistry.manifests().map(({ name }) => name)).toEqual(["add", "batch", "ls"]);
  expect(child.resolveToolCatalog().names).toEqual(["add", "batch", "ls"]);
});

test("[K80] a fork may have another overlay in the place of its source's", () => {
  const source = createPluginHost([tools]).buildSession("s", { overlay: { remove: ["ls"] } });
  const fork = source.forkForSessionWithToolCatalog("f", { remove: ["add", "rm"] });
  expect(source.resolveToolCatalog().names).toEqual(["add", "batch", "rm"]);
  expect(fork.resolveToolCatalog().names).toEqual(["batch", "ls"]);
  expect(fork.parentSessionId).toBeUndefined();
});

test("[K81] what a fork does to its state is its own", async () => {
  const counter = plugin("counter", (ctx) => {
    let low = 0;
    const state = ctx.durable({ version: 1, initial: () => 0 });
    return {
      turn: {
        before: () => {
          low += 1;
          state.update((n) => n + 10);
        },
      },
      snapshot: () => low,
      restore: ({ state: kept }) => {
        low = typeof kept === "number" ? kept : 0;
      },
      revision: () => low,
      operations: { queries: { value: { handler: (query) => [query.sessionId ?? "", low, state.get()] } } },
    };
  });
  const source = sessionOf([counter]);
  await source.beforeTurn(turnCtx());
  const fork = source.forkForSession("f");
  await fork.beforeTurn(turnCtx());
  expect((await source.queryPlugin("value")).output).toEqual(["s", 1, 10]);
  expect((await fork.queryPlugin("value")).output).toEqual(["f", 2, 20]);
});

test("[K149] a failing snapshot fails the fork before anything is built or registered", () => {
  let builds = 0;
  const host = createPluginHost([
    plugin("a", () => {
      builds += 1;
      return {
        snapshot: () => {
          throw new Error("no");
        },
      };
    }),
  ]);
  const source = host.buildSession("s");
  expect(thrownBy(() => source.forkForSession("f")).code).toBe("snapshot_failed");
  expect(thrownBy(() => source.forkForChildSession("f", "s")).code).toBe("snapshot_failed");
  expect(builds).toBe(1);
  expect(thrownBy(() => host.session("f")).code).toBe("unknown_session");
});

test("[K149] a child without a parent is a root with the given authority", () => {
  const child = sessionOf([tools]).forkForChildSession("c", undefined, {
    toolAccess: { tools: ["ls", "add"] },
  });
  expect(child.parentSessionId).toBeUndefined();
  expect(child.resolveToolCatalog().names).toEqual(["ls", "add"]);
});

test("[K149] a fork under a live id is refused and changes nothing", () => {
  const source = sessionOf([tools]);
  expect(thrownBy(() => source.forkForSession("s")).code).toBe("duplicate_session");
  expect(source.host.session("s")).toBe(source);
});

const held = (tools: readonly string[], hiddenTools: readonly string[] = []): SessionAuthority => ({
  toolAccess: { tools, hiddenTools },
  pluginOptions: { a: 1, b: 2 },
});

test("[AU1] hidden tools add up and lists of tools are met; asking for more is not granted", () => {
  const access = (parent: SessionAuthority, wanted: Parameters<typeof narrowAuthority>[1]) =>
    narrowAuthority(parent, wanted).toolAccess;
  expect(access(held([], ["rm"]), { toolAccess: { hiddenTools: ["ls"] } })).toEqual({
    tools: [],
    hiddenTools: ["rm", "ls"],
  });
  expect(access(held([], ["rm"]), { toolAccess: { hiddenTools: [] } })).toEqual({
    tools: [],
    hiddenTools: ["rm"],
  });
  expect(access(held(["add", "ls"]), { toolAccess: { tools: ["rm", "ls"] } })).toEqual({
    tools: ["ls"],
    hiddenTools: [],
  });
  expect(access(held(["add"]), {})).toEqual({ tools: ["add"], hiddenTools: [] });
  expect(access(held(["add", "ls"]), { toolAccess: { tools: [] } }).tools).toEqual(["add", "ls"]);
});

test("[AU1] nothing in common is no tool at all, not all of them", () => {
  const source = createPluginHost([tools]).buildSession("s", {
    authority: { toolAccess: { tools: ["add"] } },
  });
  const child = source.forkForChildSession("c", "s", { toolAccess: { tools: ["rm"] } });
  expect(child.resolveToolCatalog().names).toEqual([]);
});

test("[AU2] a child of a subagent is deeper and has no higher limit, whatever it asks for", () => {
  const subagent = { parentSessionId: "p", capability: "search", depth: 1, maxDepth: 3 };
  const parent = { ...held([]), subagent };
  const wanted = { parentSessionId: "s", capability: "write", depth: 0, maxDepth: 9 };
  expect(narrowAuthority(parent, { subagent: wanted }).subagent).toEqual({
    parentSessionId: "s",
    capability: "write",
    depth: 2,
    maxDepth: 3,
  });
  expect(narrowAuthority(parent).subagent).toEqual({ ...subagent, depth: 2 });
  expect(narrowAuthority(held([]), { subagent: wanted }).subagent).toEqual(wanted);
  const once = narrowAuthority(parent, { subagent: wanted });
  expect(narrowAuthority(parent, once)).toEqual(once);
});

test("[AU3] a child's plugin options stand in the place of its parent's, plugin by plugin", () => {
  expect(narrowAuthority(held([]), { pluginOptions: { b: 3 } }).pluginOptions).toEqual({ a: 1, b: 3 });
});

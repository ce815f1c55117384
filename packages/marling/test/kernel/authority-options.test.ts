// What a host allows a session that begins: rule AU6 of plugin/fork.ts.

import type { AuthorityLimits, SessionOptions } from "marling";
import { describe, expect, test } from "vitest";
import { RESTRICTIONS, reach, TOKENS, WORLD } from "./authority-support.ts";
import { BACKINGS, live } from "./durable-support.ts";
import { create, family } from "./sessions-support.ts";
import { rejectionOf, stage } from "./tools-support.ts";

describe.each(BACKINGS)("on $name", ({ open }) => {
  test.each(RESTRICTIONS)(
    "[AU6] a root that begins with %s is held to it",
    async (_what, authority, how, code) => {
      const store = open();
      const { runtime } = await live({ store: store(), ...WORLD });
      const session = await runtime.session("r", { authority });
      expect(await reach(session, how)).toBe(code);
      await session.close();
      expect(await reach(await runtime.session("r"), how)).toBe(code);
      expect(await reach(await runtime.session("free"), how)).toBe("told");
    },
  );

  test("[AU6] a session that is there keeps what is stored with it, open or not", async () => {
    const { runtime } = await live({ store: open()(), ...WORLD });
    const session = await runtime.session("r", { authority: { hiddenTools: ["secret"] } });
    const wider: SessionOptions = { authority: { tools: ["secret"], paths: ["docs"] } };
    expect(await runtime.session("r", wider)).toBe(session);
    expect(session.authority).toEqual({ hiddenTools: ["secret"] });
    await session.close();
    const again = await runtime.session("r", wider);
    expect(again.authority).toEqual({ hiddenTools: ["secret"] });
    expect(await reach(again, "secret")).toBe("tool_unavailable");
  });
});

test("[AU6] what is not denied is reached", async () => {
  const { runtime } = await stage(WORLD);
  const authority = { tools: ["read"], paths: ["docs"], budget: { tokens: 2 * TOKENS + 1 } };
  const session = await runtime.session("r", { authority });
  expect(await reach(session, "inside")).toBe("told");
  expect(session.tools.list().map(({ name }) => name)).toEqual(["read"]);
});

test("[AU6] a model is told of the tools that are left, and of none when none is", async () => {
  const { runtime, model } = await stage(WORLD);
  await reach(await runtime.session("some", { authority: { tools: ["read"] } }), "secret");
  await reach(await runtime.session("none", { authority: { tools: [] } }), "secret");
  await reach(await runtime.session("hidden", { authority: { hiddenTools: ["secret", "batch"] } }), "secret");
  const told = model.requests.map(({ tools }) => tools.map(({ name }) => name));
  expect(told).toEqual([["read"], ["read"], [], [], ["caller", "read"], ["caller", "read"]]);
});

test("[AU6] what a session may do is told as it was given, frozen; without restrictions there is nothing to tell", async () => {
  const { runtime, session } = await stage(WORLD);
  expect(session.authority).toEqual({});
  const authority = { tools: [], hiddenTools: ["secret"], paths: ["./docs//a/"], budget: { tokens: 7 } };
  const limited = await runtime.session("r", { authority });
  expect(limited.authority).toEqual({ ...authority, paths: ["docs/a"] });
  const { tools, hiddenTools, paths, budget } = limited.authority;
  expect([limited.authority, tools, hiddenTools, paths, budget].every(Object.isFrozen)).toBe(true);
  authority.hiddenTools.pop();
  expect(limited.authority.hiddenTools).toEqual(["secret"]);
});

describe("below a parent", () => {
  const PARENT: AuthorityLimits = {
    tools: ["read", "batch"],
    hiddenTools: ["batch"],
    paths: ["docs"],
    budget: { tokens: 100 },
  };
  const WIDE: AuthorityLimits = {
    tools: ["secret", "read"],
    hiddenTools: ["caller"],
    paths: ["docs/a", "private"],
    budget: { tokens: 1_000 },
  };

  test("[AU6] a session that the host begins is cut to its parent's", async () => {
    const { runtime } = await stage(WORLD);
    await runtime.session("p", { authority: PARENT });
    const child = await runtime.session("c", { parent: "p", authority: WIDE });
    expect(child.authority).toEqual({
      tools: ["read"],
      hiddenTools: ["batch", "caller"],
      paths: ["docs/a"],
      budget: { tokens: 100 },
    });
    expect((await runtime.session("same", { parent: "p" })).authority).toEqual(PARENT);
    const none = await runtime.session("none", { parent: "p", authority: { tools: [] } });
    expect(none.tools.list()).toEqual([]);
  });

  test("[AU6] nothing below a session without tools has one, whatever it asks for", async () => {
    const stageOf = await stage({ ...WORLD, plugins: [...(WORLD.plugins ?? []), family] });
    const parent = await stageOf.runtime.session("p", { authority: { tools: [] } });
    const asked = await create(stageOf, parent, { toolAccess: { tools: ["secret"] } });
    const silent = await create(stageOf, parent, {});
    expect([asked.tools.list(), silent.tools.list()]).toEqual([[], []]);
    expect(await reach(asked, "secret")).toBe("tool_unavailable");
    expect(asked.authority).toEqual({ tools: [] });
  });
});

test.each<[string, unknown, string]>([
  ["what is no object", "read", "authority"],
  ["a list", ["read"], "authority"],
  ["nothing", null, "authority"],
  ["an unknown member", { tool: ["read"] }, "authority.tool"],
  ["a member of what is stored", { pluginOptions: {} }, "authority.pluginOptions"],
  ["tools that are no list", { tools: "read" }, "authority.tools"],
  ["a tool that is no name", { tools: ["read", 7] }, "authority.tools[1]"],
  ["a blank name", { hiddenTools: [" "] }, "authority.hiddenTools[0]"],
  ["a list with a hole", { hiddenTools: new Array(1) }, "authority.hiddenTools[0]"],
  ["a path outside the root", { paths: ["docs", "../key"] }, "authority.paths"],
  ["an absolute path", { paths: ["/etc"] }, "authority.paths"],
  ["a budget that is a number", { budget: 10 }, "authority.budget"],
  ["a budget without tokens", { budget: {} }, "authority.budget.tokens"],
  ["a budget below nothing", { budget: { tokens: -1 } }, "authority.budget.tokens"],
  ["a part of a token", { budget: { tokens: 1.5 } }, "authority.budget.tokens"],
  ["a budget of something else", { budget: { tokens: 1, euros: 1 } }, "authority.budget.euros"],
])("[AU6] %s is refused by name before anything is written", async (_what, authority, option) => {
  const { runtime } = await stage(WORLD);
  const error = await rejectionOf(runtime.session("r", { authority } as never));
  expect(error).toMatchObject({ code: "invalid_options", details: { option } });
  expect(error.message).toContain(`option ${option}: expected`);
  expect(await runtime.sessions.exists("r")).toBe(false);
});

test("[AU6] a member that is left undefined restricts nothing", async () => {
  const { runtime } = await stage(WORLD);
  const authority = { tools: undefined, paths: undefined } as never;
  expect((await runtime.session("r", { authority })).authority).toEqual({});
});

// The host changes what a session may do: rules AU7 and AU8 of plugin/fork.ts, and RS6 of resident-session.ts.

import type { AuthorityChange, Session, ToolProvider } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { EVERYTHING, keeper, RESTRICTIONS, reach, records, WORLD } from "./authority-support.ts";
import { BACKINGS, live } from "./durable-support.ts";
import { counter } from "./leases-support.ts";
import { held } from "./sessions-support.ts";
import {
  failureOf,
  outputsOf,
  play,
  plugin,
  rejectionOf,
  stage,
  successOf,
  TestClock,
} from "./tools-support.ts";

const WHY = { reason: "as agreed" };

describe.each(BACKINGS)("on $name", ({ open }) => {
  test.each(RESTRICTIONS)(
    "[AU7] %s holds from the next turn on, and is lifted as well",
    async (_what, limits, how, code) => {
      const store = open();
      const { runtime, session } = await live({ store: store(), ...WORLD });
      expect(await reach(session, how)).toBe("told");
      await session.authorize(limits, WHY);
      expect(await reach(session, how)).toBe(code);
      await session.close();
      const again = await runtime.session("s");
      expect(await reach(again, how)).toBe(code);
      await again.authorize(EVERYTHING, WHY);
      expect(again.authority).toEqual({});
      expect(await reach(again, how)).toBe("told");
      await again.close();
      expect(await reach(await runtime.session("s"), how)).toBe("told");
    },
  );

  test("[AU8] the record has who, why, when, before and after, and stays when the session opens again", async () => {
    const clock = new TestClock();
    const { runtime, session } = await live({ store: open()(), ...WORLD, clock });
    await session.authorize({ paths: ["docs/./a"], tools: [] }, { reason: "an audit", actor: "ada" });
    clock.advance(5);
    await session.authorize({ tools: undefined, budget: { tokens: 7 } }, { reason: "it is over" });
    const told = [
      {
        kind: "authority_change",
        reason: "an audit",
        actor: "ada",
        at: 1_000_000,
        before: {},
        after: { tools: [], paths: ["docs/a"] },
      },
      {
        kind: "authority_change",
        reason: "it is over",
        at: 1_000_005,
        before: { tools: [], paths: ["docs/a"] },
        after: { paths: ["docs/a"], budget: { tokens: 7 } },
      },
    ];
    expect(await records(session)).toMatchObject(told);
    expect((await records(session))[1]).not.toHaveProperty("actor");
    await session.close();
    expect(await records(await runtime.session("s"))).toMatchObject(told);
  });

  test("[AU8] a fork has the authority and the records of its source, and keeps them when that is gone", async () => {
    const { runtime, session } = await live({ store: open()(), ...WORLD });
    await session.authorize({ hiddenTools: ["secret"] }, WHY);
    await runtime.sessions.fork("s", { as: "f" });
    await session.authorize(EVERYTHING, { reason: "only here" });
    await runtime.sessions.delete("s");
    await (await runtime.session("f")).close();
    const fork = await runtime.session("f");
    expect(fork.authority).toEqual({ hiddenTools: ["secret"] });
    expect((await records(fork)).map(({ reason }) => reason)).toEqual(["as agreed"]);
    expect(await reach(fork, "secret")).toBe("tool_unavailable");
  });

  test("[AU0] a fork has what its source had where it starts", async () => {
    const { runtime, session } = await live({ store: open()(), ...WORLD });
    await session.authorize({ hiddenTools: ["secret"] }, WHY);
    const at = (await records(session))[0]?.id ?? "";
    await session.authorize({ hiddenTools: undefined, paths: ["docs"] }, WHY);
    const fork = await runtime.sessions.fork("s", { as: "f", at });
    expect([fork.authority, await reach(fork, "secret")]).toEqual([
      { hiddenTools: ["secret"] },
      "tool_unavailable",
    ]);
    expect(session.authority).toEqual({ paths: ["docs"] });
  });

  test("[AU7] it holds in the frames that are opened later", async () => {
    const { runtime, session } = await live({ store: open()(), ...WORLD, plugins: [keeper, counter()] });
    await session.authorize({ hiddenTools: ["secret"] }, WHY);
    expect(await session.compact()).toBe(true);
    expect(session.read().frames).toHaveLength(2);
    expect(await reach(session, "secret")).toBe("tool_unavailable");
    await session.close();
    const again = await runtime.session("s");
    expect(again.authority).toEqual({ hiddenTools: ["secret"] });
    expect(await records(again)).toHaveLength(1);
  });

  test("[AU7] a change that cannot be committed changes nothing, in memory and in the store", async () => {
    let isDown = false;
    const store = open();
    const { session } = await live({
      store: store(),
      ...WORLD,
      storeRetryMs: 0,
      around: async (method, call) => {
        if (isDown && method === "commit") throw new Error("the disk is full");
        return call();
      },
    });
    await session.authorize({ hiddenTools: ["secret"] }, WHY);
    const { revision } = session.read();
    isDown = true;
    await rejectionOf(session.authorize({ hiddenTools: ["read"], paths: [] }, { reason: "too late" }));
    isDown = false;
    const unchanged = async (one: Session): Promise<void> => {
      expect(one.authority).toEqual({ hiddenTools: ["secret"] });
      expect(one.tools.list().map(({ name }) => name)).toEqual(["batch", "caller", "read"]);
      expect(one.read().revision).toBe(revision);
      expect(await records(one)).toHaveLength(1);
    };
    await unchanged(session);
    const other = await live({ store: store(), ...WORLD });
    await unchanged(other.session);
    expect(await reach(session, "inside")).toBe("told");
    await session.authorize({ hiddenTools: ["read"] }, WHY);
    expect(session.authority).toEqual({ hiddenTools: ["read"] });
  });
});

describe("what is written", () => {
  test("[AU7] members that are given stand in the place of what holds, and the others stay", async () => {
    const { session } = await stage(WORLD);
    await session.authorize({ hiddenTools: ["secret"], paths: ["docs"] }, WHY);
    await session.authorize({ hiddenTools: ["batch"], budget: { tokens: 100 } }, WHY);
    expect(session.authority).toEqual({ hiddenTools: ["batch"], paths: ["docs"], budget: { tokens: 100 } });
  });

  test.each<[string, AuthorityChange]>([
    ["nothing", {}],
    ["what holds", { hiddenTools: ["secret"], paths: ["docs"] }],
    ["what holds, written otherwise", { paths: ["./docs/"] }],
    ["what does not hold anyway", { tools: undefined, budget: undefined }],
  ])("[AU7] nothing, when the change is %s", async (_what, change) => {
    const { session } = await stage(WORLD);
    await session.authorize({ hiddenTools: ["secret"], paths: ["docs"] }, WHY);
    const { revision } = session.read();
    await session.authorize(change, { reason: "again" });
    expect(session.read().revision).toBe(revision);
    expect(await records(session)).toHaveLength(1);
  });

  test("[AU8] one commit with one node, which observers see; neither frames nor later turns carry it", async () => {
    const { session } = await stage(WORLD);
    const { revision } = session.read();
    const watching = session.observe()[Symbol.asyncIterator]();
    const seen = watching.next();
    await session.authorize({ paths: ["docs"] }, { reason: "a word to find" });
    const nodes = [{ kind: "authority_change", reason: "a word to find" }];
    expect((await seen).value).toMatchObject({ kind: "committed", revision: revision + 1, nodes });
    await watching.return?.();
    expect(JSON.stringify(session.read())).not.toContain("a word to find");
    await reach(session, "inside");
    expect(await records(session)).toHaveLength(1);
  });

  test("[AU8] no model sees it", async () => {
    const { session, model } = await stage(WORLD);
    await session.authorize({ paths: ["docs"] }, { reason: "a word to find", actor: "somebody to find" });
    await reach(session, "inside");
    expect(model.requests).toHaveLength(2);
    expect(JSON.stringify(model.requests.map(({ system, messages }) => [system, messages]))).not.toContain(
      "to find",
    );
  });

  test("[AU7] plugins are not asked, and not told of a change of the policy", async () => {
    const asked: string[] = [];
    const watching = plugin("watching", {
      session: {
        mutateConfig: () => void asked.push("mutate"),
        onEvent: ({ kind }) => void (kind === "session_config_changed" && asked.push(kind)),
      },
    });
    const { session } = await stage({ plugins: [watching] });
    await session.authorize({ hiddenTools: ["secret"] }, WHY);
    expect(asked).toEqual([]);
    await session.configure({ maxTurns: 3 });
    expect(asked).toEqual(["mutate", "session_config_changed"]);
    expect(session.authority).toEqual({ hiddenTools: ["secret"] });
  });
});

test.each<[string, unknown, unknown, string]>([
  ["no options", {}, undefined, "options"],
  ["no reason", {}, {}, "reason"],
  ["a blank reason", {}, { reason: " \n" }, "reason"],
  ["a reason that is no text", {}, { reason: 7 }, "reason"],
  ["an actor that is none", {}, { reason: "so", actor: "" }, "actor"],
  ["an unknown option", {}, { reason: "so", who: "me" }, "options.who"],
  ["no change", undefined, WHY, "change"],
  ["an unknown member", { toolAccess: {} }, WHY, "change.toolAccess"],
  ["a path outside the root", { paths: [".."] }, WHY, "change.paths"],
])("[AU7] %s is refused by name, and nothing changes", async (_what, change, options, option) => {
  const { session } = await stage(WORLD);
  const { revision } = session.read();
  const members = change === undefined ? undefined : { hiddenTools: ["secret"], ...(change as object) };
  const refused = session.authorize(members as never, options as never);
  expect(await rejectionOf(refused)).toMatchObject({ code: "invalid_options", details: { option } });
  expect([session.authority, session.read().revision]).toEqual([{}, revision]);
});

test("[AU7] a session that is closed is not changed", async () => {
  const { session } = await stage(WORLD);
  await session.close();
  expect(await rejectionOf(session.authorize({ tools: [] }, WHY))).toMatchObject({ code: "session_closed" });
});

test("[AZ1] a turn that runs ends with what it began with; the change comes after it, and before the next", async () => {
  const script = [callTool("wait"), callTool("secret"), say("one"), callTool("secret"), say("two")];
  const { session, begun, gate } = await held(script, { plugins: [keeper] });
  const first = play(session.turn("first"));
  await begun.promise;
  const changed = session.authorize({ hiddenTools: ["secret"] }, WHY);
  const second = play(session.turn("second"));
  expect(session.authority).toEqual({});
  gate.resolve();
  await changed;
  expect(outputsOf(await first, "secret").map(successOf)).toEqual(["told"]);
  expect(outputsOf(await second, "secret").map((output) => failureOf(output).code)).toEqual([
    "tool_unavailable",
  ]);
});

test("[RS6] tools that a context brings, or stands before, are held to it as well", async () => {
  const extra: ToolProvider = {
    manifests: () => [{ id: "extra-id", name: "extra", description: "Is extra." }],
    contract: () => ({ inputSchema: { type: "object" } }),
    execute: () => "told",
  };
  const bringing = plugin("bringing", {
    context: {
      prepareTurn: { transform: (_ctx, prepared) => ({ ...prepared, toolProviders: [{ ...extra }] }) },
    },
  });
  const { session, model } = await stage({ ...WORLD, plugins: [keeper, bringing] });
  const shown = (): readonly string[] => model.requests.at(-1)?.tools.map(({ name }) => name) ?? [];
  expect(await reach(session, "granted")).toBe("told");
  expect(shown()).toEqual(["batch", "caller", "extra", "read", "secret"]);
  await session.authorize({ hiddenTools: ["secret", "extra"] }, WHY);
  expect(session.tools.list().map(({ name }) => name)).toEqual(["batch", "caller", "read"]);
  expect(await reach(session, "granted")).toBe("tool_unavailable");
  expect(shown()).toEqual(["batch", "caller", "read"]);
  await session.authorize({ hiddenTools: ["extra"] }, WHY);
  expect(await reach(session, "granted")).toBe("told");
  expect(shown()).toEqual(["batch", "caller", "read", "secret"]);
});

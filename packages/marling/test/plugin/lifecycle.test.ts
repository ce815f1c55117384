// Lifecycle events and config mutators: nobody's failure is anybody else's.

import { expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import type { LifecycleEvent } from "../../src/plugin/hook-context.ts";
import { hostView, unavailableHost } from "../../src/plugin/host-services.ts";
import { configCtx, plugin, readView, restored, sessionOf, turnResultCtx } from "./samples.ts";

const host = unavailableHost();
const events: readonly LifecycleEvent[] = [
  { kind: "turn_finalized", sessionId: "s", turn: turnResultCtx().turn },
  { kind: "turn_persisted", sessionId: "s", turnId: "t", state: readView(), host: hostView(host, "history") },
  restored(),
  { kind: "session_config_changed", ...configCtx() },
];

test("[K5] the probe knows four lifecycle phases by name, and no others", async () => {
  const log: string[] = [];
  const probe = { beginNamed: (name: string) => log.push(name), endNamed: () => {} };
  const session = sessionOf([plugin("a", { session: { onEvent: () => undefined } })]);
  for (const event of events) await session.emitRuntimeEvent(event, probe);
  await session.emitRuntimeEvent({ kind: "session_forked", sessionId: "s", from: "r" }, probe);
  expect(log).toEqual([
    "plugin_hook.turn_finalized.a",
    "plugin_hook.turn_persisted.a",
    "plugin_hook.session_restored.a",
    "plugin_hook.session_config_changed.a",
  ]);
});

test("[K57] handlers of an event run at once: each waits for the other to have started", async () => {
  const started = { a: deferred<void>(), b: deferred<void>() };
  const meet = (mine: "a" | "b", other: "a" | "b") => async () => {
    started[mine].resolve();
    await started[other].promise;
  };
  const session = sessionOf([
    plugin("a", { session: { onEvent: meet("a", "b") } }),
    plugin("b", { session: { onEvent: meet("b", "a") } }),
  ]);
  expect(await session.emitRuntimeEvent(restored())).toEqual([]);
});

test("[K57] a failing handler affects no other, and failures are reported by plugin id", async () => {
  const log: string[] = [];
  const session = sessionOf([
    plugin("z", {
      session: {
        onEvent: () => {
          throw new Error("at once");
        },
      },
    }),
    plugin("m", {
      session: {
        onEvent: async () => {
          await Promise.resolve();
          log.push("m done");
        },
      },
    }),
    plugin("a", { session: { onEvent: () => Promise.reject(new Error("later")) } }),
  ]);
  const issues = await session.emitRuntimeEvent(restored());
  expect(log).toEqual(["m done"]);
  expect(issues).toEqual([
    {
      kind: "lifecycle_hook_failed",
      code: "hook_failed",
      message: "plugin a: hook session.on_event failed: later",
      pluginId: "a",
      hook: "session.on_event",
    },
    {
      kind: "lifecycle_hook_failed",
      code: "hook_failed",
      message: "plugin z: hook session.on_event failed: at once",
      pluginId: "z",
      hook: "session.on_event",
    },
  ]);
});

test("[P4] all handlers of an event get the same frozen event", async () => {
  const seen: unknown[] = [];
  const look = (event: unknown) => seen.push(event);
  const session = sessionOf([plugin("a", { session: { onEvent: [look, look] } })]);
  await session.emitRuntimeEvent(restored());
  expect(seen[0]).toBe(seen[1]);
  expect(Object.isFrozen(seen[0])).toBe(true);
});

test("[K58] without handlers the event is not looked at", async () => {
  const session = sessionOf([plugin("a")]);
  const event = new Proxy(restored(), {
    get: () => {
      throw new Error("looked at");
    },
  });
  expect(session.hasRuntimeEventHooks).toBe(false);
  expect(session.runner.notify("session.on_event", event)).toEqual([]);
});

test("[K60] config mutators fold in order; one that fails is skipped; nothing is thrown", async () => {
  const seen: unknown[] = [];
  const session = sessionOf([
    plugin("a", {
      session: {
        mutateConfig: (ctx, policy) => {
          seen.push([ctx.previous.model, ctx.current.model, policy.model]);
          return { ...policy, model: "a" };
        },
      },
    }),
    plugin("b", {
      session: {
        mutateConfig: () => {
          throw new Error("no");
        },
      },
    }),
    plugin("c", {
      session: {
        mutateConfig: async (ctx, policy) => {
          seen.push([ctx.previous.model, ctx.current.model, policy.model]);
        },
      },
    }),
    plugin("d", { session: { mutateConfig: () => ({ model: 3 }) as never } }),
  ]);
  const policy = { model: "b", maxTurns: 1 } as const;
  expect(await session.mutateSessionConfig(configCtx(), policy)).toEqual({ model: "a", maxTurns: 1 });
  expect(seen).toEqual([
    ["a", "b", "b"],
    ["a", "b", "a"],
  ]);
  const { issues } = await session.foldSessionConfig(configCtx(), policy);
  expect(issues.map(({ pluginId, code }) => [pluginId, code])).toEqual([
    ["b", "hook_failed"],
    ["d", "hook_returned_nonsense"],
  ]);
});

test("[K60] without mutators the policy is the same object", async () => {
  const policy = { model: "b", maxTurns: 1 } as const;
  expect(await sessionOf([]).mutateSessionConfig(configCtx(), policy)).toBe(policy);
});

// Time limits of hooks: what is counted, what is left behind, and who is named.

import { expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import { toolSuccess } from "../../src/model/tool-output.ts";
import { HookLimit } from "../../src/plugin/hook-limit.ts";
import { hostView, unavailableHost } from "../../src/plugin/host-services.ts";
import { ManualClock, plugin, rejection, restored, sessionOf, settle, thrownBy, turnCtx } from "./samples.ts";

const LIMIT_MS = 1000;

test("[HL2] a hook that never settles fails with its plugin and hook, and leaves no timer", async () => {
  const clock = new ManualClock();
  const never = () => new Promise<undefined>(() => {});
  const session = sessionOf([plugin("a", { turn: { before: never } })], { hookTimeoutMs: LIMIT_MS, clock });
  const running = rejection(session.beforeTurn(turnCtx()));
  await settle();
  clock.advance(LIMIT_MS - 1);
  await settle();
  expect(clock.pending).toBe(1);
  clock.advance(1);
  const error = await running;
  expect({ code: error.code, message: error.message, details: error.details }).toEqual({
    code: "hook_timeout",
    message: "plugin a: hook turn.before did not settle within 1000 ms",
    details: { pluginId: "a", hook: "turn.before", limitMs: 1000 },
  });
  expect(clock.pending).toBe(0);
});

test("[HL2] a hook that settles in time leaves no timer; one that answers at once starts none", async () => {
  const clock = new ManualClock();
  const session = sessionOf(
    [plugin("a", { turn: { before: async () => undefined, after: () => undefined } })],
    {
      hookTimeoutMs: LIMIT_MS,
      clock,
    },
  );
  const running = session.beforeTurn(turnCtx());
  expect(clock.pending).toBe(1);
  await running;
  expect(clock.pending).toBe(0);
});

test("[HL2] what a hook does after its limit is ignored, a late failure included", async () => {
  const unhandled: unknown[] = [];
  const listen = (reason: unknown): void => {
    unhandled.push(reason);
  };
  process.on("unhandledRejection", listen);
  const clock = new ManualClock();
  const late = deferred<undefined>();
  const session = sessionOf([plugin("a", { turn: { before: () => late.promise } })], {
    hookTimeoutMs: LIMIT_MS,
    clock,
  });
  const running = rejection(session.beforeTurn(turnCtx()));
  clock.advance(LIMIT_MS);
  expect((await running).code).toBe("hook_timeout");
  late.reject(new Error("too late"));
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", listen);
  expect(unhandled).toEqual([]);
});

test("[HL1] time does not count while an effect is awaited", async () => {
  const clock = new ManualClock();
  const effect = deferred<void>();
  const session = sessionOf(
    [
      plugin("a", {
        turn: {
          before: async (ctx) => {
            await ctx.host.emitTrace({ name: "x" });
            await new Promise(() => {});
          },
        },
      }),
    ],
    { hookTimeoutMs: LIMIT_MS, clock },
  );
  const emitTrace = () => session.runner.limit.during(() => effect.promise);
  const host = hostView({ ...unavailableHost(), emitTrace }, "turn");
  const running = rejection(session.beforeTurn({ ...turnCtx(), host }));
  await settle();
  clock.advance(LIMIT_MS * 10);
  expect(clock.pending).toBe(0);
  effect.resolve();
  await settle();
  clock.advance(LIMIT_MS - 1);
  await settle();
  expect(clock.pending).toBe(1);
  clock.advance(1);
  expect((await running).code).toBe("hook_timeout");
});

test("[HL1] a phase may have a limit of its own", async () => {
  const clock = new ManualClock();
  const session = sessionOf([plugin("a", { turn: { before: () => new Promise<undefined>(() => {}) } })]);
  const running = rejection(session.beforeTurn(turnCtx(), { limit: new HookLimit(5, clock) }));
  clock.advance(5);
  expect((await running).message).toBe("plugin a: hook turn.before did not settle within 5 ms");
});

test("[HL1] two pauses are two reasons: the time goes on when both are over", async () => {
  const clock = new ManualClock();
  const limit = new HookLimit(LIMIT_MS, clock);
  const running = rejection(
    limit.race(new Promise(() => {}), () => thrownBy(() => sessionOf([plugin("a"), plugin("a")]))),
  );
  clock.advance(400);
  const resumeFirst = limit.pause();
  const resumeSecond = limit.pause();
  resumeFirst();
  resumeFirst();
  expect(clock.pending).toBe(0);
  resumeSecond();
  clock.advance(599);
  expect(clock.pending).toBe(1);
  clock.advance(1);
  expect((await running).code).toBe("duplicate_plugin");
});

test("[HL1] each handler has the whole limit for itself", async () => {
  const clock = new ManualClock();
  const gates = [deferred<undefined>(), deferred<undefined>()];
  const session = sessionOf([plugin("a", { turn: { before: gates.map((gate) => () => gate.promise) } })], {
    hookTimeoutMs: LIMIT_MS,
    clock,
  });
  const running = session.beforeTurn(turnCtx());
  clock.advance(900);
  gates[0]?.resolve(undefined);
  await settle();
  clock.advance(900);
  gates[1]?.resolve(undefined);
  expect(await running).toEqual([]);
});

test("[HL2] a lifecycle handler past its limit is an issue of its own", async () => {
  const clock = new ManualClock();
  const session = sessionOf([plugin("a", { session: { onEvent: () => new Promise(() => {}) } })], {
    hookTimeoutMs: LIMIT_MS,
    clock,
  });
  const running = session.emitRuntimeEvent(restored());
  clock.advance(LIMIT_MS);
  expect(await running).toEqual([
    {
      kind: "lifecycle_hook_failed",
      code: "hook_timeout",
      message: "plugin a: hook session.on_event did not settle within 1000 ms",
      pluginId: "a",
      hook: "session.on_event",
    },
  ]);
});

test("[HL2] a projector has the same limit", async () => {
  const clock = new ManualClock();
  const session = sessionOf([plugin("a", { toolResults: { projector: () => new Promise(() => {}) } })], {
    hookTimeoutMs: LIMIT_MS,
    clock,
  });
  const output = toolSuccess(1);
  const ctx = { sessionId: "s", callId: "c", toolName: "add", args: {}, output, durationMs: 0 };
  const running = rejection(session.projectToolResult(ctx));
  clock.advance(LIMIT_MS);
  expect((await running).details).toEqual({ pluginId: "a", hook: "tool_results.projector", limitMs: 1000 });
});

test.each([0, -1, Number.NaN, 2 ** 31, "10" as never])(
  "[PH4] a limit of %s is refused by name",
  (hookTimeoutMs) => {
    const error = thrownBy(() => sessionOf([], { hookTimeoutMs }));
    expect([error.code, error.details]).toEqual(["invalid_options", { option: "hookTimeoutMs" }]);
  },
);

test("[PH4] an infinite limit starts no timer", async () => {
  const clock = new ManualClock();
  const gate = deferred<undefined>();
  const session = sessionOf([plugin("a", { turn: { before: () => gate.promise } })], {
    hookTimeoutMs: Number.POSITIVE_INFINITY,
    clock,
  });
  const running = session.beforeTurn(turnCtx());
  expect(clock.pending).toBe(0);
  gate.resolve(undefined);
  expect(await running).toEqual([]);
});

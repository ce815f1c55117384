// What becomes of a turn that sleeps when a new input comes: the same on every store.

import { approvals } from "marling/plugins";
import { callTool, callTools, type ScriptStep, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import { gate, gatedTool } from "./durable-support.ts";
import { asking, DESKS, parked, rejectionOf, transcript, until } from "./parked-support.ts";
import { hostTool } from "./services-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };

describe.each(DESKS)("on $name", ({ open }) => {
  test("[E10] a new input may take the place of a turn that sleeps: that one is cancelled first", async () => {
    const { tool, keys } = asking();
    const { runtime, session } = await open({ tools: [tool], answers: ASK });
    const turn = session.turn("go");
    await parked(session);
    const next = session.turn("instead", { onParked: "cancel" });
    expect((await turn.result).outcome).toMatchObject({
      kind: "stopped",
      reason: "cancelled",
      message: "a new input took its place",
    });
    expect((await next.result).text).toBe("Answer to instead.");
    expect(await runtime.resolve(keys[0] ?? "", { ok: "yes" })).toBe("already_resolved");
    expect((await transcript(session)).filter((line) => line.startsWith("user"))).toEqual([
      "user: go",
      "user: instead",
    ]);
  });

  test("[E10] a new input may refuse to wait: it is not accepted, and the turn sleeps on", async () => {
    const { tool, keys } = asking();
    const { runtime, session } = await open({ tools: [tool], answers: ASK });
    const turn = session.turn("go");
    await parked(session);
    const next = session.turn("now", { onParked: "reject", key: "now" });
    expect(await rejectionOf(next.accepted)).toMatchObject({
      name: "MarlingError",
      code: "turn_parked",
      message: "session s: expected no turn that waits, found s:turn:1",
      details: { turnId: "s:turn:1" },
    });
    expect(await rejectionOf(next.result)).toMatchObject({ code: "turn_parked" });
    expect(await session.pending()).toHaveLength(1);
    await runtime.resolve(keys[0] ?? "", { ok: "yes" });
    expect((await turn.result).text).toBe("Done.");
    expect((await session.turn("now", { onParked: "reject", key: "now" }).result).text).toBe(
      "Answer to now.",
    );
  });

  test.each(["reject", "cancel"] as const)(
    "[TQ2] asking again for the turn that sleeps is that turn, whatever is to become of others: %s",
    async (onParked) => {
      const { tool, keys } = asking();
      const { runtime, session } = await open({ tools: [tool], answers: ASK });
      const turn = session.turn("go", { key: "k" });
      await parked(session);
      const again = session.turn("go", { key: "k", onParked });
      expect(await again.accepted).toMatchObject({ status: "duplicate" });
      await runtime.resolve(keys[0] ?? "", { ok: "yes" });
      expect((await turn.result).outcome.kind).toBe("finished");
      expect(await again.result).toEqual(await turn.result);
    },
  );

  test.each(["reject", "cancel"] as const)(
    "[E10] a turn that is awake again does not sleep: a new input queues behind it, whatever was asked for: %s",
    async (onParked) => {
      const { tool, keys } = asking();
      const blocked = deferred<ScriptStep>();
      const answers = { go: [callTool("ask", {}), blocked.promise] };
      const { runtime, session, model } = await open({ tools: [tool], answers });
      const turn = session.turn("go");
      await parked(session);
      await runtime.resolve(keys[0] ?? "", { ok: "yes" });
      await until(() => model.requests.length === 2);
      const next = session.turn("next", { onParked });
      const status = await next.accepted.then(
        ({ status }) => status,
        (thrown: { readonly code: string }) => thrown.code,
      );
      blocked.resolve(say("Done."));
      expect(status).toBe("accepted");
      expect((await turn.result).text).toBe("Done.");
      expect((await next.result).text).toBe("Answer to next.");
    },
  );

  test("[E10] with nobody asleep a new input is accepted, whatever was asked for; another word is refused", async () => {
    const { session } = await open();
    expect((await session.turn("a", { onParked: "reject" }).result).text).toBe("Answer to a.");
    expect((await session.turn("b", { onParked: "cancel" }).result).text).toBe("Answer to b.");
    expect(() => session.turn("c", { onParked: "wait" as never })).toThrow(
      "option onParked: expected queue, cancel or reject, found wait",
    );
  });

  test("[E10] a turn that waits for an approval sleeps as well, and so does one that waits for a time only", async () => {
    const { tool } = asking({ deadlineMs: 600_000 });
    for (const plugins of [[], [approvals({ rules: { ask: "ask" } })]]) {
      const { session } = await open({ tools: [tool], plugins, answers: ASK });
      const turn = session.turn("go");
      await parked(session);
      expect(await rejectionOf(session.turn("now", { onParked: "reject" }).accepted)).toMatchObject({
        code: "turn_parked",
      });
      expect((await session.turn("now", { onParked: "cancel" }).result).text).toBe("Answer to now.");
      expect((await turn.result).outcome).toMatchObject({ reason: "cancelled" });
    }
  });

  test("[SL1] a turn sleeps only when nothing else goes on in it", async () => {
    const at = gate();
    const { tool, keys } = asking();
    const both = callTools([
      ["ask", {}],
      ["work", {}],
    ]);
    const answers = { go: [both, say("Done.")] };
    const { runtime, session } = await open({ tools: [tool, gatedTool("work", at)], answers });
    const turn = session.turn("go");
    await until(() => at.visits === 1 && keys.length === 1);
    const status = (await session.pending())[0]?.status;
    const early = session.turn("early", { onParked: "cancel" });
    await early.accepted;
    at.open();
    await parked(session);
    expect(status).toBe("running");
    expect(await rejectionOf(session.turn("now", { onParked: "reject" }).accepted)).toMatchObject({
      code: "turn_parked",
    });
    await runtime.resolve(keys[0] ?? "", { ok: "yes" });
    expect((await turn.result).text).toBe("Done.");
    expect((await early.result).text).toBe("Answer to early.");
  });

  test("[SL1] a tool that has called one that waits is at work: its turn does not sleep", async () => {
    const { tool, keys } = asking();
    const outer = hostTool("outer", (_host, _args, ctx) => ctx.callTools([{ name: "ask", args: {} }]));
    const answers = { go: [callTool("outer", {}), say("Done.")] };
    const { runtime, session } = await open({ tools: [tool, outer], answers });
    const turn = session.turn("go");
    await until(() => keys.length === 1);
    const next = session.turn("next", { onParked: "reject" });
    expect(await next.accepted).toMatchObject({ status: "accepted" });
    expect((await session.pending()).map(({ status }) => status)).toEqual(["running", "queued"]);
    await runtime.resolve(keys[0] ?? "", { ok: "yes" });
    expect((await turn.result).text).toBe("Done.");
    expect((await next.result).text).toBe("Answer to next.");
  });

  test("[SL1] a tool that only calls others sleeps with them", async () => {
    const { tool, keys } = asking();
    const outer = hostTool("outer", (_host, _args, ctx) => ctx.callTools([{ name: "ask", args: {} }]), {
      isOrchestrating: true,
    });
    const answers = { go: [callTool("outer", {}), say("Done.")] };
    const { runtime, session } = await open({ tools: [tool, outer], answers });
    const turn = session.turn("go");
    await parked(session);
    expect(await rejectionOf(session.turn("next", { onParked: "reject" }).accepted)).toMatchObject({
      code: "turn_parked",
    });
    await runtime.resolve(keys[0] ?? "", { ok: "yes" });
    expect((await turn.result).text).toBe("Done.");
  });
});

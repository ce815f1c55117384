// Whose triggers reach whom: sessions and those below them, and tenants. work/TRIGGERS.md, and TN6 of tenant-triggers.ts.

import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import { database, gate, live, mortal, unattended } from "./durable-support.ts";
import { act, acting, answering, codeOf, hostTool } from "./services-support.ts";
import { eventually, MAIL, mail, subjects } from "./triggers-support.ts";

vi.setConfig({ testTimeout: 30_000 });

describe("from plugins and tools", () => {
  test("[TR25] a session subscribes itself and those below it, and sees nothing of others", async () => {
    const { runtime, session } = await live({
      store: sqliteStore({ path: database() }),
      script: () => say("noted"),
      plugins: [
        mail,
        acting({
          create: (host) => host.createSession({ sessionId: "child" }),
          subscribe: (host, id) => host.subscribeTrigger(id as string, { source: MAIL, name: "mine" }),
          list: (host, id) => host.listTriggers(id as string),
          drop: (host, id) => host.unsubscribeTrigger("s", id as string),
        }),
      ],
    });
    await runtime.session("other");
    const foreign = await runtime.triggers.subscribe({ sessionId: "other", source: MAIL });
    await act(session, "create");
    const own = (await act(session, "subscribe", "s")) as { readonly id: string };
    expect(await act(session, "subscribe", "s")).toEqual(own);
    expect(await act(session, "subscribe", "child")).toMatchObject({ sessionId: "child" });
    for (const name of ["subscribe", "list"])
      expect(await codeOf(act(session, name, "other"))).toContain("expected itself or a session below it");
    expect(await act(session, "list", "s")).toEqual({ items: [own] });
    expect(await act(session, "drop", foreign.id)).toBe(false);
    expect(await act(session, "drop", own.id)).toBe(true);
    const left = (await runtime.triggers.subscriptions()).items.map(({ sessionId }) => sessionId);
    expect([...left].sort()).toEqual(["child", "other"]);
  });

  test("[TR25] a tool that runs again after a crash subscribes once", async () => {
    const path = database();
    const at = gate();
    let runs = 0;
    const options = {
      script: answering({ go: [callTool("subscribe"), say("done")] }),
      plugins: [mail],
      tools: [
        hostTool("subscribe", async (host) => {
          await host.subscribeTrigger("s", { source: MAIL });
          runs += 1;
          if (runs === 1) await at.pass();
          return "subscribed";
        }),
      ],
    };
    const first = await mortal({ ...options, store: sqliteStore({ path }) });
    first.session.turn("go");
    await at.begun;
    await first.die();
    const { runtime } = await live({ ...options, store: sqliteStore({ path }) });
    await runtime.recover();
    expect(runs).toBe(2);
    expect((await runtime.triggers.subscriptions()).items).toHaveLength(1);
  });
});

describe("tenants", () => {
  test("[TN6] what occurs for one tenant reaches no session of another, and is taken up after a restart", async () => {
    const path = database();
    const options = { script: () => say("noted"), plugins: [mail] };
    const first = await mortal({
      ...options,
      store: sqliteStore({ path }),
      around: (method, call) => (method === "triggers.pending" ? new Promise(() => undefined) : call()),
    });
    const event = { source: MAIL, key: "m1", payload: { subject: "acme only" } };
    for (const tenant of ["acme", "other"]) {
      const scope = first.runtime.scope(tenant);
      await scope.session("s");
      await scope.triggers.subscribe({ sessionId: "s", source: MAIL, name: "n" });
    }
    await first.runtime.triggers.subscribe({ sessionId: "s", source: MAIL, name: "n" });
    expect((await first.runtime.scope("acme").triggers.emit(event)).deliveries).toBe(1);
    expect((await first.runtime.triggers.subscriptions()).items).toHaveLength(1);
    await first.die();
    const { runtime } = unattended({ ...options, store: sqliteStore({ path }) });
    await runtime.recover();
    const acme = await runtime.scope("acme").session("s");
    await eventually(() => subjects(acme)).toEqual(["acme only"]);
    expect(subjects(await runtime.scope("other").session("s"))).toEqual([]);
    expect(subjects(await runtime.session("s"))).toEqual([]);
    expect((await runtime.scope("other").triggers.emit(event)).status).toBe("accepted");
    expect((await runtime.scope("acme").triggers.subscriptions()).items).toMatchObject([{ sessionId: "s" }]);
  });
});

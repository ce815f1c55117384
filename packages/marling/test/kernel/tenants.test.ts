// Tenants: `runtime.scope`. security.md rule 3; tenants.ts, recovery.ts rule RC3.

import { createRuntime, defineTool, memoryStore, type Runtime, type Store } from "marling";
import { approvals } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { BACKINGS, database, mortal } from "./durable-support.ts";

function runtimeOn(store: Store, steps: Parameters<typeof scriptedModel>[0]): Runtime {
  const runtime = createRuntime({ store, model: scriptedModel(steps) });
  onTestFinished(() => runtime.close());
  return runtime;
}

for (const { name, open } of BACKINGS) {
  test(`[S3] sessions of one name under two tenants share nothing: ${name}`, async () => {
    const runtime = runtimeOn(open()(), () => say("hello"));
    const scopes = [runtime.scope("acme"), runtime.scope("initech"), runtime];
    for (const [index, scope] of scopes.entries()) {
      const session = await scope.session("chat");
      for (let turn = 0; turn <= index; turn += 1) await session.turn(`input ${index}`).result;
    }
    const views = await Promise.all(scopes.map(async (scope) => (await scope.session("chat")).read()));
    expect(views.map(({ turnIndex }) => turnIndex)).toEqual([1, 2, 3]);
    expect(views.map(({ messages }) => messages.length)).toEqual([2, 4, 6]);
    const lists = await Promise.all(scopes.map(({ sessions }) => sessions.list()));
    expect(lists.map(({ items }) => items.map(({ id }) => id))).toEqual([["chat"], ["chat"], ["chat"]]);
  });

  test(`[S3] deleting a session of a tenant leaves those of the others: ${name}`, async () => {
    const runtime = runtimeOn(open()(), () => say("hello"));
    const acme = runtime.scope("acme");
    for (const scope of [acme, runtime]) await (await scope.session("chat")).turn("hi").result;
    await acme.sessions.delete("chat");
    await expect(acme.session("chat")).rejects.toMatchObject({ code: "session_deleted" });
    expect((await runtime.session("chat")).read().turnIndex).toBe(1);
  });

  test(`[S3] a wait key of a tenant is unknown to the others and to the whole: ${name}`, async () => {
    let key = "";
    const later = defineTool({
      name: "later",
      description: "Waits.",
      input: { type: "object" },
      execute: async (_args, ctx) => {
        key = await ctx.completionKey();
        return ctx.pending();
      },
    });
    const runtime = createRuntime({
      store: open()(),
      tools: [later],
      model: scriptedModel([callTool("later", {}), say("done")]),
    });
    onTestFinished(() => runtime.close());
    const turn = (await runtime.scope("acme").session("chat")).turn("go");
    await expect.poll(() => key).not.toBe("");
    expect(await runtime.scope("initech").resolve(key, { ok: 1 })).toBe("unknown");
    expect(await runtime.resolve(key, { ok: 1 })).toBe("unknown");
    expect(await runtime.scope("acme").resolve(key, { ok: 1 })).toBe("resolved");
    expect((await turn.result).text).toBe("done");
  });
}

test("[S3] approvals are listed and decided in their tenant only", async () => {
  const work = defineTool({
    name: "work",
    description: "Works.",
    input: { type: "object" },
    execute: () => 1,
  });
  const runtime = createRuntime({
    store: memoryStore(),
    tools: [work],
    plugins: [approvals()],
    model: scriptedModel([callTool("work", {}), say("done")]),
  });
  onTestFinished(() => runtime.close());
  const acme = runtime.scope("acme");
  const turn = (await acme.session("chat")).turn("go");
  await expect.poll(async () => (await acme.approvals.list()).length).toBe(1);
  const [question] = await acme.approvals.list();
  if (question === undefined) throw new Error("expected a question");
  expect(question.sessionId).toBe("chat");
  expect(await runtime.approvals.list()).toEqual([]);
  const verdict = { decision: "allow", actor: "op" } as const;
  expect(await runtime.scope("initech").approvals.decide(question, verdict)).toBe("unknown");
  expect(await runtime.approvals.decide(question, verdict)).toBe("unknown");
  expect(await acme.approvals.decide(question, verdict)).toBe("decided");
  expect((await turn.result).text).toBe("done");
});

test("[RC3] what tenants left unfinished is finished by the runtime of the whole store, and reported by tenant", async () => {
  const path = database();
  let asked = 0;
  const before = await mortal({
    store: sqliteStore({ path }),
    script: () => {
      asked += 1;
      return new Promise<never>(() => {});
    },
  });
  for (const scope of [before.runtime.scope("acme"), before.runtime.scope("initech"), before.runtime])
    (await scope.session("chat")).turn("go", { key: "k" });
  await expect.poll(() => asked).toBe(3);
  await before.die();
  const runtime = runtimeOn(sqliteStore({ path }), () => say("finished"));
  const { resumed, skipped } = await runtime.recover();
  expect(skipped).toEqual([]);
  expect(resumed).toHaveLength(3);
  expect(resumed).toEqual(
    expect.arrayContaining([
      { sessionId: "chat", turnId: "chat:turn:1" },
      { sessionId: "chat", turnId: "chat:turn:1", tenant: "acme" },
      { sessionId: "chat", turnId: "chat:turn:1", tenant: "initech" },
    ]),
  );
  for (const scope of [runtime.scope("acme"), runtime.scope("initech"), runtime])
    expect((await scope.session("chat")).read().turnIndex).toBe(1);
});

test("[S3] what a plugin, a tool and a trace are told of a session of a tenant is its own name", async () => {
  const seen: string[] = [];
  const records: { readonly sessionId: string; readonly tenant?: string }[] = [];
  const look = defineTool({
    name: "look",
    description: "Looks.",
    input: { type: "object" },
    execute: (_args, ctx) => void seen.push(ctx.sessionId, ctx.turnId),
  });
  const runtime = createRuntime({
    tools: [look],
    model: scriptedModel([callTool("look", {}), say("done")]),
    trace: { record: (record) => void records.push(record) },
  });
  onTestFinished(() => runtime.close());
  const turn = (await runtime.scope("acme").session("chat")).turn("go");
  expect((await turn.accepted).inputId).toBe("chat:input:1");
  await turn.result;
  expect(seen).toEqual(["chat", "chat:turn:1"]);
  for (const record of records) expect([record.sessionId, record.tenant]).toEqual(["chat", "acme"]);
});

test("[S3] a scope is the same until it is closed, and is closed with the whole", async () => {
  const runtime = runtimeOn(memoryStore(), () => say("hello"));
  const acme = runtime.scope("acme");
  expect(runtime.scope("acme")).toBe(acme);
  expect([acme.tenant, runtime.tenant]).toEqual(["acme", undefined]);
  await acme.close();
  await expect(acme.session("chat")).rejects.toMatchObject({ code: "runtime_closed" });
  const again = runtime.scope("acme");
  expect(again).not.toBe(acme);
  await (await again.session("chat")).turn("hi").result;
  await runtime.close();
  await expect(again.session("chat")).rejects.toMatchObject({ code: "runtime_closed" });
  expect(() => runtime.scope("acme")).toThrowError(expect.objectContaining({ code: "runtime_closed" }));
});

test("[S3] names of tenants follow the rules of ids, and tenants have no tenants", () => {
  const runtime = runtimeOn(memoryStore(), []);
  for (const bad of ["", " ", "a\u001fb", "__proto__", "x".repeat(513)])
    expect(() => runtime.scope(bad)).toThrowError(expect.objectContaining({ code: "invalid_id" }));
  expect(() => runtime.scope("acme").scope("more")).toThrowError(
    expect.objectContaining({ code: "not_of_tenants" }),
  );
});

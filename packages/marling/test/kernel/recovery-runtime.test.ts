// Recovery as a runtime does it: by itself, reported, and leaving nothing open. recovery.ts, rules RC1 and RC2, and
// runtime.ts.

import { definePlugin, type Plugin, type RuntimeOptions } from "marling";
import { sqliteStore } from "marling/sqlite";
import { say, scriptedModel } from "marling/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import type { SessionId } from "../../src/model/ids.ts";
import { database, gate, gatedStep, live, mortal, unattended, userTexts } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";

/** Sessions whose turn "go" was accepted, and whose process died while the model was asked. */
async function interrupted(
  path: string,
  ids: readonly string[],
  options: Partial<RuntimeOptions> = {},
): Promise<void> {
  const { model: _model, store: _store, ...others } = options;
  let asked = 0;
  const before = await mortal({
    ...others,
    store: sqliteStore({ path }),
    script: () => {
      asked += 1;
      return new Promise<never>(() => {});
    },
  });
  for (const id of ids) (await before.runtime.session(id)).turn("go", { key: "k" });
  await expect.poll(() => asked).toBe(ids.length);
  await before.die();
}

const pendingIn = async (path: string, id = "s"): Promise<number> => {
  const store = sqliteStore({ path });
  const pending = await store.pending(id as SessionId);
  await store.close();
  return pending.length;
};

test("[RC1] recovery begins with the runtime: nobody has to ask for it, or to open the session", async () => {
  const path = database();
  await interrupted(path, ["s"]);
  const { model } = unattended({ store: sqliteStore({ path }), script: [say("by itself")] });
  await expect.poll(() => pendingIn(path)).toBe(0);
  expect(model.requests.map(userTexts)).toEqual([["go"]]);
});

test("[RC1] recover joins what has begun by itself, and says what was resumed", async () => {
  const path = database();
  await interrupted(path, ["a", "b"]);
  const at = gate();
  const { runtime, model } = unattended({
    store: sqliteStore({ path }),
    script: [gatedStep(at, say("one")), say("two")],
  });
  await at.begun;
  const recovering = [runtime.recover(), runtime.recover()];
  at.open();
  const report = {
    resumed: [
      { sessionId: "a", turnId: "a:turn:1" },
      { sessionId: "b", turnId: "b:turn:1" },
    ],
    resumedWork: [],
    skipped: [],
  };
  expect(await Promise.all(recovering)).toEqual([report, report]);
  expect(model.requests).toHaveLength(2);
  expect(await pendingIn(path, "a")).toBe(0);
  expect(await pendingIn(path, "b")).toBe(0);
});

test("recover with nothing to do reports nothing", async () => {
  const { runtime } = unattended({ store: sqliteStore({ path: database() }) });
  expect(await runtime.recover()).toEqual({ resumed: [], resumedWork: [], skipped: [] });
});

test("[RC2] a session that cannot be opened is skipped and reported, the others go on, and its input stays", async () => {
  const path = database();
  await interrupted(path, ["broken", "fine"]);
  const picky = definePlugin({
    id: "picky",
    build: ({ sessionId }) => {
      if (sessionId === "broken") throw new Error("not this one");
      return {};
    },
  });
  const first = await live({ store: sqliteStore({ path }), plugins: [picky()], script: [say("done")] });
  const report = await first.runtime.recover();
  expect(report.resumed).toEqual([{ sessionId: "fine", turnId: "fine:turn:1" }]);
  expect(report.skipped).toEqual([
    { sessionId: "broken", code: expect.any(String), message: expect.stringContaining("not this one") },
  ]);
  expect(await pendingIn(path, "broken")).toBe(1);
  await first.runtime.close();

  const { runtime } = unattended({ store: sqliteStore({ path }), script: [say("done at last")] });
  expect(await runtime.recover()).toEqual({
    resumed: [{ sessionId: "broken", turnId: "broken:turn:1" }],
    resumedWork: [],
    skipped: [],
  });
});

test("[E19] a runtime without the model of a session leaves its turn to one that has it", async () => {
  const path = database();
  const special = (answer: string) => ({ special: scriptedModel([say(answer)]) });
  const at = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    models: { special: scriptedModel([gatedStep(at, say("never said"))]) },
  });
  (await before.runtime.session("s", { model: "special" })).turn("go", { key: "k" });
  await at.begun;
  await before.die();

  const without = unattended({ store: sqliteStore({ path }), script: [say("by the wrong one")] });
  expect(await without.runtime.recover()).toEqual({
    resumed: [],
    resumedWork: [],
    skipped: [{ sessionId: "s", code: "needs_binding", message: expect.stringContaining("model special") }],
  });
  await without.runtime.close();
  expect(await pendingIn(path)).toBe(1);

  const { session } = await live({ store: sqliteStore({ path }), models: special("by the right one") });
  expect((await session.turn("go", { key: "k" }).result).text).toBe("by the right one");
  expect(without.model.requests).toHaveLength(0);
});

/** A plugin with an option, which says when its sessions come and go. */
function noting(log: string[]): Plugin {
  const definition = definePlugin({
    id: "noting",
    options: z.object({ volume: z.number() }).optional(),
    build: ({ sessionId, options }) => {
      log.push(`built ${sessionId} ${JSON.stringify(options ?? null)}`);
      return { dispose: () => void log.push(`gone ${sessionId}`) };
    },
  });
  return definition();
}

test("a session that was opened for recovery only is let go when it is done", async () => {
  const path = database();
  await interrupted(path, ["s"], { plugins: [noting([])] });
  const log: string[] = [];
  const { runtime } = unattended({
    store: sqliteStore({ path }),
    plugins: [noting(log)],
    script: [say("done"), say("next")],
  });
  await runtime.recover();
  await expect.poll(() => log).toEqual(["built s null", "gone s"]);
  expect(() => runtime.plugins.session("s")).toThrow(/expected a live session s, found none/);
  const session = await runtime.session("s");
  expect(transcript(session)).toEqual(["user: go", "assistant: done"]);
  expect((await session.run("on")).text).toBe("next");
});

test("a session that somebody asks for while recovery has it open stays, and is the same one", async () => {
  const path = database();
  await interrupted(path, ["s"], { plugins: [noting([])] });
  const log: string[] = [];
  const at = gate();
  const { runtime } = unattended({
    store: sqliteStore({ path }),
    plugins: [noting(log)],
    script: [gatedStep(at, say("done")), say("next")],
  });
  await at.begun;
  const session = await runtime.session("s");
  at.open();
  await runtime.recover();
  expect((await session.run("on")).text).toBe("next");
  expect(log).toEqual(["built s null"]);
  expect(runtime.plugins.session("s").sessionId).toBe("s");
});

test("plugin options open a session anew when the recovery that has it open is done", async () => {
  const path = database();
  await interrupted(path, ["s"], { plugins: [noting([])] });
  const log: string[] = [];
  const at = gate();
  const { runtime } = unattended({
    store: sqliteStore({ path }),
    plugins: [noting(log)],
    script: [gatedStep(at, say("done")), say("next")],
  });
  await at.begun;
  const opening = runtime.session("s", { plugins: { noting: { volume: 11 } } });
  at.open();
  const session = await opening;
  expect(log).toEqual(["built s null", "gone s", 'built s {"volume":11}']);
  expect(transcript(session)).toEqual(["user: go", "assistant: done"]);
  expect((await session.run("on")).text).toBe("next");
});

test("a runtime that is closed while it recovers leaves no turn half-way: it is done, or the next one does it", async () => {
  const path = database();
  await interrupted(path, ["s"]);
  const at = gate();
  const first = unattended({ store: sqliteStore({ path }), script: [gatedStep(at, say("done"))] });
  await at.begun;
  const closing = first.runtime.close();
  at.open();
  await closing;
  expect(await pendingIn(path)).toBe(0);
  const { session } = await live({ store: sqliteStore({ path }) });
  expect(transcript(session)).toEqual(["user: go", "assistant: done"]);
});

test("[TQ3] several turns that were left behind are finished in their order", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({ store: sqliteStore({ path }), script: [gatedStep(at, say("never said"))] });
  for (const text of ["one", "two", "three"]) before.session.turn(text, { key: text });
  await at.begun;
  await expect.poll(async () => (await before.session.pending()).length).toBe(3);
  await before.die();
  const { runtime, model } = unattended({
    store: sqliteStore({ path }),
    script: [say("1"), say("2"), say("3")],
  });
  const { resumed } = await runtime.recover();
  expect(resumed.map(({ turnId }) => turnId)).toEqual(["s:turn:1", "s:turn:2", "s:turn:3"]);
  expect(model.requests.map(userTexts)).toEqual([["one"], ["one", "two"], ["one", "two", "three"]]);
});

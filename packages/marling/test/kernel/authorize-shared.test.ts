// What a session may do, changed while other runtimes have it: rule AZ1 of authorize.ts, and CL2 of claim-session.ts.

import type { Session } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { keeper, reach, records, WORLD } from "./authority-support.ts";
import { gate, gatedStep, gatedTool, live, mortal, quickTool } from "./durable-support.ts";
import { counted } from "./leases-support.ts";
import { asking, database, desk, parked } from "./parked-support.ts";
import { outputsOf, play, rejectionOf } from "./tools-support.ts";

const WHY = { reason: "as agreed" };

/** Whether something has happened by now, a while after it could have. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  const later = new Promise((resolve) => setTimeout(resolve, 400, "later"));
  return (await Promise.race([promise, later])) === "later";
}

const reasons = async (session: Session): Promise<readonly string[]> =>
  (await records(session)).map(({ reason }) => reason);

/** A turn that asks for the secret, waits for somebody, and asks for the secret again. */
const SECRET_ASK_SECRET = { go: [callTool("secret"), callTool("ask"), callTool("secret"), say("end")] };

test("[CL2] a runtime that has the session open is held to what another one changed", async () => {
  const path = database();
  const here = await live({ store: sqliteStore({ path }), ...WORLD });
  const there = await live({ store: sqliteStore({ path }), ...WORLD });
  expect(await reach(here.session, "secret")).toBe("told");
  await there.session.authorize({ hiddenTools: ["secret"], paths: ["docs"] }, { reason: "from there" });
  expect(await reach(here.session, "secret")).toBe("tool_unavailable");
  expect(await reach(here.session, "outside")).toBe("path_denied");
  expect(here.model.requests.at(-1)?.tools.map(({ name }) => name)).toEqual(["batch", "caller", "read"]);
  expect(here.session.authority).toEqual({ hiddenTools: ["secret"], paths: ["docs"] });
  await there.session.authorize({ hiddenTools: undefined }, { reason: "from there again" });
  expect(await reach(here.session, "secret")).toBe("told");
});

test("[AU7] runtimes that change it in turns, or at once, see what the others changed", async () => {
  const path = database();
  const here = await live({ store: sqliteStore({ path }), ...WORLD });
  const there = await live({ store: sqliteStore({ path }), ...WORLD });
  await there.session.authorize({ hiddenTools: ["secret"] }, { reason: "one" });
  await here.session.authorize({ paths: ["docs"] }, { reason: "two" });
  await Promise.all([
    there.session.authorize({ budget: { tokens: 100 } }, { reason: "three" }),
    here.session.authorize({ tools: ["read"] }, { reason: "four" }),
  ]);
  const again = await live({ store: sqliteStore({ path }), ...WORLD });
  const all = { hiddenTools: ["secret"], paths: ["docs"], budget: { tokens: 100 }, tools: ["read"] };
  expect(again.session.authority).toEqual(all);
  expect((await reasons(again.session)).toSorted()).toEqual(["four", "one", "three", "two"]);
  const [one, two, three, four] = await records(again.session);
  expect([two?.before, three?.before, four?.before]).toEqual([one?.after, two?.after, three?.after]);
  const { revision } = again.session.read();
  await here.session.authorize(all, { reason: "known there" });
  expect((await again.runtime.sessions.list()).items).toMatchObject([{ id: "s", revision }]);
});

test("[CL2] whether it changes anything is asked of what the others committed", async () => {
  const path = database();
  const claims = counted("claim");
  const here = await live({ store: sqliteStore({ path }), around: claims.around });
  const there = await live({ store: sqliteStore({ path }) });
  await there.session.authorize({ hiddenTools: ["secret"] }, { reason: "one" });
  await here.session.authorize({ hiddenTools: undefined }, { reason: "two" });
  expect(await reasons(here.session)).toEqual(["one", "two"]);
  await there.session.authorize({ hiddenTools: ["secret"] }, { reason: "three" });
  const before = claims.calls();
  await here.session.authorize({ hiddenTools: ["secret"] }, { reason: "known" });
  expect(claims.calls()).toBe(before);
  expect(await reasons(here.session)).toEqual(["one", "two", "three"]);
});

test("[AU7] a change that another runtime makes just before is not made again", async () => {
  const path = database();
  const there = await live({ store: sqliteStore({ path }) });
  let isFirst = true;
  const here = await live({
    store: sqliteStore({ path }),
    around: async (method, call) => {
      if (method === "claim" && isFirst) {
        isFirst = false;
        await there.session.authorize({ paths: [] }, { reason: "there" });
      }
      return call();
    },
  });
  await here.session.authorize({ paths: [] }, { reason: "here" });
  expect(isFirst).toBe(false);
  expect(here.session.authority).toEqual({ paths: [] });
  expect(await reasons(here.session)).toEqual(["there"]);
  expect(here.session.read().revision).toBe(2);
});

test("[AZ1] it waits for the turn that another runtime runs", async () => {
  const path = database();
  const at = gate();
  const script = [gatedStep(at, callTool("secret")), say("end")];
  const here = await live({ store: sqliteStore({ path }), plugins: [keeper], script });
  const there = await live({ store: sqliteStore({ path }), plugins: [keeper] });
  const turn = play(here.session.turn("go"));
  await at.begun;
  const changed = there.session.authorize({ hiddenTools: ["secret"] }, WHY);
  expect(await isPending(changed)).toBe(true);
  at.open();
  expect(outputsOf(await turn, "secret").map(({ outcome }) => outcome.kind)).toEqual(["success"]);
  await changed;
  expect(there.session.authority).toEqual({ hiddenTools: ["secret"] });
});

/** A tool that is secret beside one that waits for an answer, and a model that calls it, asks, and calls it again. */
function secretBesideAsking() {
  const { tool, keys } = asking();
  const ran: string[] = [];
  const tools = [tool, quickTool("secret", { ran, replay: "unsafe" }) as never];
  return { path: database(), keys, ran, options: { tools, answers: SECRET_ASK_SECRET } };
}

test("[AZ1] what a turn was refused before it slept is not done when it goes on, whoever widened it meanwhile", async () => {
  const { path, keys, ran, options } = secretBesideAsking();
  const there = await desk(path, options);
  await there.session.authorize({ hiddenTools: ["secret"] }, { reason: "not yet" });
  const here = await desk(path, options);
  const turn = here.session.turn("go");
  await parked(here.session);
  const changed = there.session.authorize({ hiddenTools: undefined }, { reason: "now" });
  expect(await isPending(changed)).toBe(true);
  await here.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  const { toolCalls } = await turn.result;
  expect(toolCalls.map(({ output }) => output.outcome.kind)).toEqual(["failure", "success", "failure"]);
  expect(ran).toEqual([]);
  await changed;
  expect([there.session.authority, await reasons(there.session)]).toEqual([{}, ["not yet", "now"]]);
});

test("[AZ1] what a turn did before it slept stays done when it goes on, in the runtime that narrowed it", async () => {
  const { path, keys, ran, options } = secretBesideAsking();
  const there = await desk(path, options);
  const here = await desk(path, options);
  const turn = here.session.turn("go");
  turn.result.catch(() => undefined); // It goes on elsewhere.
  await parked(here.session);
  const changed = there.session.authorize({ hiddenTools: ["secret"] }, WHY);
  expect(await isPending(changed)).toBe(true);
  await here.runtime.close();
  await there.runtime.resolve(keys[0] ?? "", { ok: "yes" });
  await changed;
  const [, , first, , , , second] = there.session.read().messages;
  expect([first?.parts, second?.parts].map((parts) => JSON.stringify(parts))).toEqual([
    expect.stringContaining("secret done"),
    expect.stringContaining("secret done"),
  ]);
  expect(ran).toEqual(["secret", "secret"]);
  expect(there.session.authority).toEqual({ hiddenTools: ["secret"] });
});

test("[AZ1] a turn that a crash cut ends first, wherever it is taken up", async () => {
  const path = database();
  const at = gate();
  const ran: string[] = [];
  const script = [callTool("secret"), callTool("slow"), callTool("secret"), say("end")];
  const secret = quickTool("secret", { ran, replay: "unsafe" });
  const there = await live({
    store: sqliteStore({ path }),
    tools: [secret, quickTool("slow")],
    script: script.slice(2),
  });
  const first = await mortal({
    store: sqliteStore({ path }),
    tools: [secret, gatedTool("slow", at)],
    script,
  });
  first.session.turn("go", { id: "t" });
  await at.begun;
  await first.die();
  await there.session.authorize({ hiddenTools: ["secret"] }, WHY);
  const kinds = (await there.session.history()).map(({ kind }) => kind);
  expect(kinds.at(-1)).toBe("authority_change");
  expect(there.session.read()).toMatchObject({ turnIndex: 1 });
  expect(ran).toEqual(["secret", "secret"]);
});

test("[AZ1] whoever waits for a turn that sleeps is told when the session is closed", async () => {
  const path = database();
  const { tool } = asking();
  const options = { tools: [tool], answers: { go: [callTool("ask"), say("end")] } };
  const there = await desk(path, options);
  const here = await desk(path, options);
  here.session.turn("go").result.catch(() => undefined);
  await parked(here.session);
  const changed = rejectionOf(there.session.authorize({ tools: [] }, WHY));
  expect(await isPending(changed)).toBe(true);
  await there.session.close();
  expect((await changed).code).toBe("session_closed");
  const again = await desk(path, options);
  expect([again.session.authority, await reasons(again.session)]).toEqual([{}, []]);
});

// A cancellation is a fact in the store: it holds in whichever process the turn runs, and after the end of that process.
// drive.ts, turn-control.ts and commit-turn.ts; ST32 on a file that several runtimes share.

import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, type ScriptFunction, say } from "marling/testing";
import { expect, test } from "vitest";
import type { SessionId, TurnId } from "../../src/model/ids.ts";
import {
  database,
  gate,
  gatedStep,
  gatedTool,
  live,
  mortal,
  movingTool,
  quickTool,
  unattended,
  unevenCalls,
  userTexts,
} from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";

const cancelled = (message: string) => ({ kind: "stopped", reason: "cancelled", code: "cancelled", message });

/** Says what the model is asked after a crash that nobody should ask it. */
const unasked: ScriptFunction = () => {
  throw new Error("expected no model call");
};

async function cancelInStore(path: string, turnId: string, reason: string): Promise<string> {
  const store = sqliteStore({ path });
  const status = await store.cancel({ sessionId: "s" as SessionId, turnId: turnId as TurnId, reason });
  await store.close();
  return status;
}

test("[ST32] another runtime cancels a turn that runs here", async () => {
  const path = database();
  const at = gate();
  const first = await live({
    store: sqliteStore({ path }),
    script: [callTool("wait"), say("next")],
    tools: [gatedTool("wait", at)],
  });
  const turn = first.session.turn("go");
  await at.begun;
  const second = await live({ store: sqliteStore({ path }), tools: [gatedTool("wait", at)] });
  expect(await second.session.cancel(turn.id, "from elsewhere")).toBe("requested");
  expect(await second.session.cancel(turn.id, "again")).toBe("already_requested");
  expect((await turn.result).outcome).toEqual(cancelled("from elsewhere"));
  expect(await second.session.cancel(turn.id)).toBe("completed");
  expect((await first.session.run("on")).text).toBe("next");
  expect(unevenCalls(first.session.read().messages)).toEqual([]);
});

test("[ST32] another runtime cancels a turn that is queued here", async () => {
  const path = database();
  const at = gate();
  const first = await live({
    store: sqliteStore({ path }),
    script: [gatedStep(at, say("one")), say("three")],
  });
  const running = first.session.turn("first");
  await at.begun;
  const queued = first.session.turn("second");
  await queued.accepted;
  const second = await live({ store: sqliteStore({ path }), script: unasked });
  expect(await second.session.cancel(queued.id, "not that one")).toBe("requested");
  at.open();
  expect((await running.result).text).toBe("one");
  expect((await queued.result).outcome).toEqual(cancelled("not that one"));
  expect((await first.session.run("third")).text).toBe("three");
  expect(first.model.requests.map(userTexts)).toEqual([["first"], ["first", "second", "third"]]);
});

test("[ST32] the request of another runtime and the commit exclude each other, and all agree on who was first", async () => {
  for (const when of ["before", "after"] as const) {
    const path = database();
    const at = gate();
    let commits = 0;
    const first = await live({
      store: sqliteStore({ path }),
      script: [say("the answer")],
      around: async (method, call) => {
        if (method !== "commit") return call();
        commits += 1; // The first commit opens the session.
        if (commits === 2 && when === "before") await at.pass();
        const answer = await call();
        if (commits === 2 && when === "after") await at.pass();
        return answer;
      },
    });
    const turn = first.session.turn("go", { key: "k" });
    await at.begun;
    const status = await cancelInStore(path, turn.id, "stop");
    expect(status).toBe(when === "before" ? "requested" : "completed");
    at.open();
    const report = await turn.result;
    expect(report.outcome).toEqual(
      when === "before" ? cancelled("stop") : { kind: "finished", by: "message", text: "the answer" },
    );
    const second = await live({ store: sqliteStore({ path }), script: unasked });
    expect(await second.session.turn("go", { key: "k" }).result).toEqual(report);
    expect(transcript(second.session)).toEqual(["user: go", "assistant: the answer"]);
  }
});

test("[ST32] a turn that dies after it was asked to end is recovered as cancelled, with what it came to", async () => {
  const path = database();
  const at = gate();
  const tools = (ran: string[]) => [quickTool("quick", { ran }), gatedTool("wait", at, { isDeaf: true })];
  const before = await mortal({
    store: sqliteStore({ path }),
    script: [
      callTool("quick"),
      callTools([
        ["quick", {}],
        ["wait", {}],
      ]),
    ],
    tools: tools([]),
    around: (method, call) => (method === "commit" && at.visits > 0 ? new Promise(() => {}) : call()),
  });
  const turn = before.session.turn("go", { key: "k" });
  let finished = 0;
  for await (const { kind } of turn) {
    if (kind === "tool_finished") finished += 1;
    if (finished === 2) break;
  }
  await at.begun;
  expect(await before.session.cancel(turn.id, "stop")).toBe("requested");
  await before.die();

  const ran: string[] = [];
  const { session, model } = await live({
    store: sqliteStore({ path }),
    script: [say("next")],
    tools: tools(ran),
  });
  const report = await session.turn("go", { key: "k" }).result;
  expect(report.outcome).toEqual(cancelled("stop"));
  expect(model.requests).toHaveLength(0);
  expect(ran).toEqual([]);
  expect(at.visits).toBe(1);
  expect(transcript(session)).toEqual([
    "user: go",
    "assistant: call quick",
    "tool: result quick done",
    "assistant: call quick call wait",
    expect.stringMatching(/^tool: result quick done result .*cancelled/),
  ]);
  expect(unevenCalls(session.read().messages)).toEqual([]);
  expect((await session.run("on")).text).toBe("next");
  expect(unevenCalls(model.requests[0]?.messages ?? [])).toEqual([]);
});

test("[ST32] a turn that is cancelled while nobody lives is recovered as cancelled, by itself", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({ store: sqliteStore({ path }), script: [gatedStep(at, say("never said"))] });
  const turn = before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();
  expect(await cancelInStore(path, turn.id, "too late anyway")).toBe("requested");

  const { runtime, model } = unattended({ store: sqliteStore({ path }), script: [say("next")] });
  expect(await runtime.recover()).toEqual({
    resumed: [{ sessionId: "s", turnId: turn.id }],
    resumedWork: [],
    skipped: [],
  });
  expect(model.requests).toHaveLength(0);
  const session = await runtime.session("s");
  expect((await session.turn("go", { key: "k" }).result).outcome).toEqual(cancelled("too late anyway"));
  expect(transcript(session)).toEqual(["user: go"]);
  expect((await session.run("on")).text).toBe("next");
});

test("[ST32] an aborted signal outlives its process: the recovered turn is cancelled", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("deaf")],
    tools: [gatedTool("deaf", at, { isDeaf: true })],
    around: (method, call) => (method === "commit" && at.visits > 0 ? new Promise(() => {}) : call()),
  });
  const controller = new AbortController();
  before.session.turn("go", { key: "k", signal: controller.signal });
  await at.begun;
  controller.abort(new Error("the user left"));
  const store = sqliteStore({ path });
  await expect
    .poll(async () => (await store.pending("s" as SessionId)).map(({ cancel }) => cancel))
    .toEqual([{ reason: "the user left" }]);
  await store.close();
  await before.die();

  const { session, model } = await live({
    store: sqliteStore({ path }),
    script: unasked,
    tools: [gatedTool("deaf", at)],
  });
  expect((await session.turn("go", { key: "k" }).result).outcome).toEqual(cancelled("the user left"));
  expect(model.requests).toHaveLength(0);
  expect(unevenCalls(session.read().messages)).toEqual([]);
});

test("[ST32] a turn that was queued and cancelled when its process died never begins", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({ store: sqliteStore({ path }), script: [gatedStep(at, say("never said"))] });
  before.session.turn("first", { key: "1" });
  await at.begun;
  const queued = before.session.turn("second", { key: "2" });
  await queued.accepted;
  await before.session.cancel(queued.id, "not that one");
  await before.die();

  const began: string[] = [];
  const watching = plugin("watching", {
    model: { request: ({ request }) => void began.push(userTexts(request).join(" ")) as undefined },
  });
  const { session } = await live({ store: sqliteStore({ path }), script: [say("one")], plugins: [watching] });
  expect((await session.turn("second", { key: "2" }).result).outcome).toEqual(cancelled("not that one"));
  expect(began).toEqual(["first"]);
  expect(transcript(session)).toEqual(["user: first", "assistant: one", "user: second"]);
});

test("[ST32] a request that comes after a switch of frames ends the turn in its second part, as cancelled", async () => {
  const path = database();
  const at = gate();
  const before = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("move"), gatedStep(at, say("never said"))],
    tools: [movingTool()],
  });
  const turn = before.session.turn("go", { key: "k" });
  await at.begun;
  await before.die();
  expect(await cancelInStore(path, turn.id, "stop")).toBe("requested");

  const { session } = await live({ store: sqliteStore({ path }), script: unasked, tools: [movingTool()] });
  expect((await session.turn("go", { key: "k" }).result).outcome).toEqual(cancelled("stop"));
  expect(transcript(session)).toEqual(["user: Go on there."]);
  expect(unevenCalls(session.read().messages)).toEqual([]);
});

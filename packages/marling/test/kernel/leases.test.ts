// Who may write to a session: session-lease.ts (LE), lease-keeper.ts, claim-session.ts (CL), E13 and E14.
// Every runtime here has a store of its own on one file.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { defineTool, MarlingError, type Turn } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { database, gate, gatedStep, gatedTool, quickTool, unattended } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";
import { AHEAD, counted, sharedFile } from "./leases-support.ts";
import { rejectionOf } from "./tools-support.ts";

/** How a turn ended for whoever awaits it here: never with a report. */
async function lostBy(turn: Turn): Promise<string> {
  const thrown = await rejectionOf(turn.result);
  return MarlingError.is(thrown) ? `${thrown.code} ${thrown.advice}` : String(thrown);
}

test("[LE1] a turn whose tool outlived its lease writes nothing more, and is finished once by who took it over", async () => {
  const open = sharedFile();
  const [slow, fast] = [gate(), gate()];
  fast.open();
  const first = await open({
    script: [callTool("work"), say("by the first")],
    tools: [gatedTool("work", slow)],
  });
  const turn = first.session.turn("go", { key: "k" });
  await slow.begun;
  const second = await open({
    clock: AHEAD,
    script: [say("by the second")],
    tools: [gatedTool("work", fast)],
  });
  await second.runtime.recover();
  slow.open();
  expect(await lostBy(turn)).toBe("lease_lost reload");
  expect(transcript(second.session)).toEqual([
    "user: go",
    "assistant: call work",
    "tool: result work done",
    "assistant: by the second",
  ]);
  expect(second.session.read()).toMatchObject({ revision: 2, turnIndex: 1 });
  expect((await first.session.turn("go", { key: "k" }).result).text).toBe("by the second");
});

/** Turns that stop at a gate, each just before another kind of write. */
const WRITES = {
  "the commit of a turn": ({ at }) => ({ script: [gatedStep(at, say("late"))], tools: [] }),
  "the outcome of a tool": ({ at }) => ({ script: [callTool("work")], tools: [gatedTool("work", at)] }),
  "the mark of an unsafe tool": ({ at }) => ({
    script: [gatedStep(at, callTool("work"))],
    tools: [quickTool("work", { replay: "unsafe" })],
  }),
  "a completion key": ({ at }) => ({
    script: [callTool("work")],
    tools: [
      defineTool({
        name: "work",
        description: "Takes a key late.",
        input: { type: "object" },
        replay: "safe",
        execute: async (_input, ctx) => {
          await at.pass();
          await ctx.completionKey();
          return ctx.pending();
        },
      }),
    ],
  }),
  "going to sleep": ({ at }) => ({
    script: [callTool("work")],
    tools: [
      defineTool({
        name: "work",
        description: "Takes a key in time.",
        input: { type: "object" },
        replay: "safe",
        execute: async (_input, ctx) => {
          await ctx.completionKey();
          await at.pass();
          return ctx.pending();
        },
      }),
    ],
  }),
} satisfies Readonly<Record<string, (where: { readonly at: ReturnType<typeof gate> }) => object>>;

test.each(Object.entries(WRITES))(
  "[E13] %s is refused to a runtime that lost its lease",
  async (_name, setUp) => {
    const open = sharedFile();
    const at = gate();
    const first = await open(setUp({ at }));
    const turn = first.session.turn("go");
    await at.begun;
    // Its tools and script are its own: it ends the turn by an answer, whatever the first one did.
    const second = await open({ clock: AHEAD, script: () => say("taken over"), tools: [quickTool("work")] });
    await second.runtime.recover();
    const before = await second.session.history();
    const { revision } = second.session.read();
    at.open();
    expect(await lostBy(turn)).toBe("lease_lost reload");
    const third = await open({ clock: AHEAD });
    expect(await third.session.history()).toEqual(before);
    expect(third.session.read().revision).toBe(revision);
    expect(await third.session.pending()).toEqual([]);
  },
);

test("[LE5] a lease that came back is another one: the turn that ran under the first is stopped, the next one runs", async () => {
  const open = sharedFile();
  const at = gate();
  const ran: string[] = [];
  const tools = [quickTool("work", { replay: "unsafe", ran })];
  const script = [gatedStep(at, callTool("work")), say("next")];
  const first = await open({ script, tools });
  const turn = first.session.turn("go");
  await at.begun;
  const second = await open({ clock: AHEAD, script: [callTool("work"), say("by the second")], tools });
  await second.runtime.recover();
  await second.runtime.close();
  const next = first.session.turn("and then");
  await next.accepted;
  at.open();
  expect(await lostBy(turn)).toBe("lease_lost reload");
  expect((await next.result).text).toBe("next");
  expect(ran).toEqual(["work"]);
  expect(transcript(first.session)).toEqual([
    "user: go",
    "assistant: call work",
    "tool: result work done",
    "assistant: by the second",
    "user: and then",
    "assistant: next",
  ]);
});

test("[LE1] a turn that lost its lease is stopped when a renewal finds out, and is not told as cancelled", async () => {
  const open = sharedFile();
  const at = gate();
  const reasons: unknown[] = [];
  const listen = defineTool({
    name: "listen",
    description: "Ends when it is told to.",
    input: { type: "object" },
    replay: "safe",
    execute: (_input, { signal }) =>
      new Promise<string>((resolve) => {
        signal.addEventListener("abort", () => {
          reasons.push(signal.reason);
          resolve("told to end");
        });
        void at.pass();
      }),
  });
  const first = await open({ leaseMs: 60, script: [callTool("listen"), say("late")], tools: [listen] });
  const turn = first.session.turn("go");
  const kinds: string[] = [];
  const watched = (async () => {
    for await (const event of turn) kinds.push(event.kind);
  })();
  await at.begun;
  const second = await open({ clock: AHEAD, script: [say("taken over")], tools: [quickTool("listen")] });
  await second.runtime.recover();
  expect(await lostBy(turn)).toBe("lease_lost reload");
  await watched.catch(() => undefined);
  expect(reasons).toMatchObject([{ code: "lease_lost" }]);
  expect(kinds).not.toContain("committed");
  expect(await first.session.cancel(turn.id)).toBe("completed");
  expect((await second.session.turn("go", { id: turn.id }).result).outcome).toMatchObject({
    kind: "finished",
    text: "taken over",
  });
});

test("[LE3] renewals keep the lease of a turn that runs longer than it", async () => {
  const open = sharedFile();
  const at = gate();
  const { around, calls } = counted("renew");
  const first = await open({
    leaseMs: 45,
    around,
    script: [callTool("work"), say("one")],
    tools: [gatedTool("work", at)],
  });
  const turn = first.session.turn("first");
  await at.begun;
  const second = await open({ leaseMs: 45, script: [say("two")], tools: [] });
  const next = second.session.turn("second");
  await next.accepted;
  await vi.waitUntil(() => calls() >= 9, { timeout: 20_000 });
  at.open();
  expect((await turn.result).text).toBe("one");
  expect((await next.result).text).toBe("two");
  expect(transcript(second.session)).toEqual([
    "user: first",
    "assistant: call work",
    "tool: result work done",
    "assistant: one",
    "user: second",
    "assistant: two",
  ]);
  expect(at.visits).toBe(1);
});

test("[LE3] a turn goes on when renewals failed for a while, past the end of the lease too", async () => {
  const open = sharedFile();
  const at = gate();
  let failures = 0;
  let renewals = 0;
  let isDown = true;
  const first = await open({
    leaseMs: 30,
    script: [callTool("work"), say("done")],
    tools: [gatedTool("work", at)],
    around: async (method, call) => {
      if (method !== "renew") return call();
      if (isDown) {
        failures += 1;
        throw new MarlingError("io_failed", "the store cannot be reached");
      }
      renewals += 1;
      return call();
    },
  });
  const turn = first.session.turn("go");
  await at.begun;
  await vi.waitUntil(() => failures >= 6, { timeout: 20_000 });
  isDown = false;
  at.open();
  expect((await turn.result).text).toBe("done");
  expect(renewals).toBeGreaterThan(0);
});

test("[E13] a turn does not begin an effect while its lease may be over and cannot be renewed", async () => {
  const open = sharedFile();
  const at = gate();
  let isDown = true;
  let failures = 0;
  const script = [callTool("work"), say("done")];
  const first = await open({
    leaseMs: 30,
    script: (request) => script[Math.min(1, request.messages.length - 1)] ?? say("done"),
    tools: [gatedTool("work", at)],
    around: async (method, call) => {
      if (method !== "renew" || !isDown) return call();
      failures += 1;
      throw new MarlingError("io_failed", "the store cannot be reached");
    },
  });
  const turn = first.session.turn("go", { key: "k" });
  await at.begun;
  await vi.waitUntil(() => failures >= 6, { timeout: 20_000 });
  at.open();
  expect(await rejectionOf(turn.result)).toMatchObject({ code: "io_failed", advice: "retry" });
  isDown = false;
  const again = await first.session.turn("go", { key: "k" }).result;
  expect(again).toMatchObject({ text: "done", turnId: turn.id });
  expect(at.visits).toBe(1);
});

test("[E14] the turn of a process that was killed is taken over at once, however long its lease is", async () => {
  const path = database();
  const file = fileURLToPath(new URL("leases-child.mjs", import.meta.url));
  const child = spawn(process.execPath, [file, path], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await ended;
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  expect(line.toString()).toBe("tool runs\n");
  const { runtime } = unattended({
    store: sqliteStore({ path }),
    leaseMs: 600_000,
    script: [say("after the kill")],
    tools: [quickTool("work", { replay: "unsafe" })],
  });
  // As long as it lives it is left alone.
  expect(await runtime.recover()).toEqual({ resumed: [], resumedWork: [], skipped: [] });
  child.kill("SIGKILL");
  await ended;
  const { resumed } = await runtime.recover();
  expect(resumed).toEqual([{ sessionId: "s", turnId: "s:turn:1" }]);
  const session = await runtime.session("s");
  expect(transcript(session)).toEqual([
    "user: go",
    "assistant: call work",
    "tool: result [tool failed]\nThe call of work was interrupted. It may have taken effect; check before calling it again.",
    "assistant: after the kill",
  ]);
}, 60_000);

test("[CL1] a turn waits for whoever has the lease, and closing the session ends the wait", async () => {
  const open = sharedFile();
  const at = gate();
  const script = [callTool("work"), say("one"), say("two")];
  const first = await open({ script, tools: [gatedTool("work", at)] });
  const turn = first.session.turn("first");
  await at.begun;
  const second = await open();
  const waiting = second.session.turn("second");
  await waiting.accepted;
  await second.session.close();
  expect(await rejectionOf(waiting.result)).toMatchObject({ code: "session_closed" });
  at.open();
  await turn.result;
  await first.runtime.recover();
  expect(await first.session.pending()).toEqual([]);
  expect(transcript(first.session).slice(-2)).toEqual(["user: second", "assistant: two"]);
});

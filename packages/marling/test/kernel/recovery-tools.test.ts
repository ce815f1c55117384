// Tools that come and go between a crash and the recovery: prepare-call.ts, rule PC7.

import { defineTool, toolFailure } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { database, gate, gatedTool, live, mortal, quickTool, type Tool } from "./durable-support.ts";
import { outcomeOf, resultsIn } from "./hooks-support.ts";

/** Fails once in a way that may be tried again. */
function shyTool(): Tool {
  return defineTool({
    name: "first",
    description: "Answers the second time.",
    input: { type: "object" },
    retry: { attempts: 2, delayMs: 0 },
    replay: "safe",
    execute: (_input, { attempt }) => {
      const failure = {
        code: "not_yet",
        message: "Not yet.",
        retry: { safe: true },
      } as const;
      return attempt === 1 ? toolFailure(failure) : "first done";
    },
  });
}

const strictTool = (name: string, ran: string[]): Tool =>
  defineTool({
    name,
    description: "Wants a number.",
    input: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
    replay: "safe",
    execute: () => {
      ran.push(name);
      return `${name} done`;
    },
  });

/** A turn that calls `first`, then waits in `second` until the process dies; and the turn as it is finished. */
async function finished(before: readonly Tool[], after: (ran: string[]) => readonly Tool[]) {
  const path = database();
  const at = gate();
  const first = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("first"), callTool("second")],
    tools: [...before, gatedTool("second", at)],
  });
  first.session.turn("go", { key: "k" });
  await at.begun;
  await first.die();
  const ran: string[] = [];
  const { session, model } = await live({
    store: sqliteStore({ path }),
    script: [say("done")],
    tools: [...after(ran), quickTool("second")],
  });
  const report = await session.turn("go", { key: "k" }).result;
  return { report, ran, shown: resultsIn(model.requests[0]).map(({ text }) => text) };
}

test("[PC7] a call that ran has run, though its tool is gone", async () => {
  const { report, shown } = await finished([quickTool("first")], () => []);
  expect(outcomeOf(report)).toEqual({ value: "first done" });
  expect(shown).toEqual(["first done", "second done"]);
});

test("[PC7] a call that was tried again, too: its last attempt counts", async () => {
  const { report } = await finished([shyTool()], () => []);
  expect(outcomeOf(report)).toEqual({ value: "first done" });
});

test("[PC7] a call that ran has run, though its tool wants other arguments now", async () => {
  const { report, ran } = await finished([quickTool("first")], (log) => [strictTool("first", log)]);
  expect([outcomeOf(report), ran]).toEqual([{ value: "first done" }, []]);
});

test("[PC7] a call that was refused stays refused, though there is a tool for it now", async () => {
  const { report, ran } = await finished([], (log) => [quickTool("first", { ran: log })]);
  expect([outcomeOf(report), ran]).toMatchObject([{ code: "tool_unavailable" }, []]);
});

test("[PC7] a call whose arguments were refused stays refused, though they would do now", async () => {
  const { report, ran } = await finished([strictTool("first", [])], (log) => [
    quickTool("first", { ran: log }),
  ]);
  expect([outcomeOf(report), ran]).toMatchObject([{ code: "invalid_tool_args" }, []]);
});

test("[PC7] a call that was cut may have taken effect, though its tool is gone", async () => {
  const path = database();
  const at = gate();
  const first = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("first")],
    tools: [gatedTool("first", at, { replay: "unsafe" })],
  });
  first.session.turn("go", { key: "k" });
  await at.begun;
  await first.die();
  const { session } = await live({
    store: sqliteStore({ path }),
    script: [say("done")],
    tools: [quickTool("another")],
  });
  const report = await session.turn("go", { key: "k" }).result;
  expect(outcomeOf(report)).toMatchObject({ code: "unknown_outcome" });
});

test("[PC7] what no run came to is decided by what is there now", async () => {
  const path = database();
  const at = gate();
  const first = await mortal({
    store: sqliteStore({ path }),
    script: [callTool("second"), callTool("first")],
    tools: [quickTool("first"), gatedTool("second", at)],
  });
  first.session.turn("go", { key: "k" });
  await at.begun;
  await first.die();
  const { session } = await live({
    store: sqliteStore({ path }),
    script: [callTool("first"), say("done")],
    tools: [quickTool("second")],
  });
  const report = await session.turn("go", { key: "k" }).result;
  expect([outcomeOf(report), outcomeOf(report, 1)]).toMatchObject([
    { value: "second done" },
    { code: "tool_unavailable" },
  ]);
});

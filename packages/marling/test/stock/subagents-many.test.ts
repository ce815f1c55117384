// Many children at once on one database.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { database, live, quickTool } from "../kernel/durable-support.ts";
import { answering, hostTool, ledger } from "../kernel/services-support.ts";

const CHILDREN = 200;

test("[CT3] 200 child sessions at once on SQLite finish, and what they used adds up exactly", async () => {
  const many = hostTool("many", async (host) => {
    const texts = await Promise.all(
      Array.from({ length: CHILDREN }, async (_none, index) => {
        const { sessionId } = await host.createSession({ usageSource: "crowd" });
        return (await host.startTurn(sessionId, `Task ${index}`, { key: `${index}` })).text;
      }),
    );
    return texts.length;
  });
  const { session, runtime } = await live({
    store: sqliteStore({ path: database() }),
    tools: [many, quickTool("quick")],
    script: (request) => {
      const answers = { Go: [callTool("many", {}, { usage: { input: 1 } })] };
      const text = request.messages[0]?.parts[0];
      if (text?.kind !== "text" || !text.text.startsWith("Task")) return answering(answers)(request);
      const number = Number(text.text.slice(5));
      const usage = { input: number, output: 1 };
      return request.messages.length === 1 ? callTool("quick", {}, { usage }) : say("Done.", { usage });
    },
  });
  const report = await session.turn("Go").result;
  expect(report.toolCalls[0]?.output.outcome).toEqual({ kind: "success", value: CHILDREN });
  // Twice the sum of 0..199, and one token out for each of 400 calls.
  expect(ledger(session)).toEqual(["crowd default 39800+400", "turn default 1+0"]);
  const ids = new Set<string>();
  for (let cursor: string | undefined, isMore = true; isMore; ) {
    const page = await runtime.sessions.list({ prefix: "s:", ...(cursor === undefined ? {} : { cursor }) });
    for (const { id, parentSessionId, turnIndex } of page.items) {
      expect([parentSessionId, turnIndex]).toEqual(["s", 1]);
      ids.add(id);
    }
    cursor = page.cursor;
    isMore = cursor !== undefined;
  }
  expect(ids.size).toBe(CHILDREN);
}, 60_000);

/** The heap after everything that can go has gone. */
function heapUsed(): number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  for (let round = 0; round < 5; round += 1) collect();
  return process.memoryUsage().heapUsed;
}

test("[OS3] 200 children that have ended take no memory: it is within a fifth of what it was before", async () => {
  const spread = hostTool("spread", async (host) => {
    await Promise.all(
      Array.from({ length: CHILDREN }, async () => {
        const { sessionId } = await host.createSession({});
        await host.startTurn(sessionId, "Task", { key: sessionId });
      }),
    );
    return "spread";
  });
  const { session, runtime } = await live({
    store: sqliteStore({ path: database() }),
    tools: [spread],
    script: ({ messages }) =>
      JSON.stringify(messages.at(-1)).includes("Go") ? callTool("spread") : say("x".repeat(10_000)),
  });
  await session.turn("warm up").result;
  const before = heapUsed();
  await session.turn("Go").result;
  const after = heapUsed();
  expect((await runtime.sessions.list({ prefix: "s:", limit: 1000 })).items).toHaveLength(CHILDREN);
  expect(after / before).toBeLessThan(1.2);
}, 60_000);

// A lease that is lost inside user code is a fault of the machinery (E9): the turn is left, and its tool has not failed.

import { defineTool } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { MarlingError } from "../../src/base/errors.ts";
import { database, live } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";
import { rejectionOf } from "./tools-support.ts";

/** How a tool lets the error out that the store gave it. */
const WAYS: readonly [string, (error: unknown) => unknown][] = [
  ["as it is", (error) => error],
  ["as the cause of its own", (error) => new Error("no key", { cause: error })],
  ["among others", (error) => new AggregateError([new Error("first"), error])],
];

test.each(WAYS)(
  "[QC4][E9] a lease that a tool finds lost, thrown %s, is no failure of the tool",
  async (_, wrap) => {
    const path = database();
    let isLost = true;
    let runs = 0;
    const work = defineTool({
      name: "work",
      description: "Takes a key.",
      input: { type: "object" },
      replay: "safe",
      execute: async (_args, ctx) => {
        runs += 1;
        try {
          await ctx.completionKey();
          return "worked";
        } catch (error) {
          throw wrap(error);
        }
      },
    });
    const script = [callTool("work", {}), say("Done.")];
    const first = await live({
      store: sqliteStore({ path }),
      script,
      tools: [work],
      around: (method, call) => {
        if (!isLost || method !== "waits.create") return call();
        throw new MarlingError("lease_lost", "session s: found the lease with another", {
          details: { sessionId: "s" },
        });
      },
    });
    expect(await rejectionOf(first.session.turn("go").result)).toMatchObject({ code: "lease_lost" });
    isLost = false;
    await first.runtime.close();
    const { runtime, session } = await live({
      store: sqliteStore({ path }),
      script: [say("Done.")],
      tools: [work],
    });
    await runtime.recover();
    expect(transcript(session).at(-1)).toBe("assistant: Done.");
    expect(transcript(session).join("\n")).not.toContain("lease");
    expect(runs).toBeGreaterThan(1);
  },
);

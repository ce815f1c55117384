// The journal behind a turn, where effects begin at once: effects/journal.ts, rule JE2, and what a user sees of it.

import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import type { EffectKind } from "../../src/effects/contract.ts";
import { journalEffects } from "../../src/effects/journal.ts";
import type { EffectKey, SessionId, TurnId } from "../../src/model/ids.ts";
import { database, gate, gatedTool, live, mortal, quickTool } from "./durable-support.ts";
import { until } from "./tools-support.ts";

const turn = { sessionId: "s" as SessionId, turnId: "t" as TurnId };
const request = (key: string, kind: EffectKind) => ({ ...turn, key: key as EffectKey, kind });

test("[JE2] effects that begin at once all wait until what was known is written", async () => {
  const at = gate();
  const journal = journalEffects({ append: () => at.pass(), read: async () => [] });
  await journal.run(request("0.model_call", "model_call"), async () => "said");
  const begun: string[] = [];
  const running = ["a", "b", "c"].map((name) =>
    journal.run(request(`0.tool.${name}.1`, "tool_attempt"), async () => {
      begun.push(name);
      return name;
    }),
  );
  await at.begun;
  await new Promise((resolve) => setImmediate(resolve));
  expect(begun).toEqual([]);
  at.open();
  expect(await Promise.all(running)).toEqual(["a", "b", "c"]);
  expect(begun.toSorted()).toEqual(["a", "b", "c"]);
});

test("[JE2] a write that fails fails every effect that waits for it", async () => {
  const at = gate();
  const append = async (): Promise<void> => {
    await at.pass();
    throw new Error("disk full");
  };
  const journal = journalEffects({ append, read: async () => [] });
  await journal.run(request("0.model_call", "model_call"), async () => "said");
  const running = ["a", "b"].map((name) =>
    journal.run(request(`0.tool.${name}.1`, "tool_attempt"), async () => name),
  );
  at.open();
  const settled = await Promise.allSettled(running);
  expect(settled.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
});

test("[E4] a model call whose tools run is never made again, whichever of them the process dies in", async () => {
  const path = database();
  const at = gate();
  const begun: string[] = [];
  const held = gate();
  const tools = [quickTool("a", { ran: begun }), quickTool("b", { ran: begun }), gatedTool("c", held)];
  const script = () =>
    callTools([
      ["a", {}],
      ["b", {}],
      ["c", {}],
    ]);
  let isHeld = false;
  const before = await mortal({
    store: sqliteStore({ path }),
    script,
    tools,
    around: async (method, call) => {
      if (method === "journal.append" && !isHeld) {
        isHeld = true;
        await at.pass();
      }
      return call();
    },
  });
  before.session.turn("go", { key: "k" });
  await at.begun;
  await new Promise((resolve) => setImmediate(resolve));
  expect([begun, held.visits]).toEqual([[], 0]);
  at.open();
  await held.begun;
  await until(() => begun.length === 2, "the other calls");
  await before.die();

  const { session, model } = await live({
    store: sqliteStore({ path }),
    script: [say("done"), callTool("never")],
    tools: ["a", "b", "c"].map((name) => quickTool(name)),
  });
  expect((await session.turn("go", { key: "k" }).result).text).toBe("done");
  expect(model.requests).toHaveLength(1);
});

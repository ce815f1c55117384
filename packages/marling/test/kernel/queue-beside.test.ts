// What comes beside a turn that runs: appends land at once and the turn is committed on top of them; everything else
// waits. E16.

import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { BACKINGS, database, gate, gatedStep, gatedTool, live, userTexts } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";

const note = (content: string) => [{ kind: "message", message: { role: "user", content } }] as const;

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[E16] what is appended during a turn stays, the turn does not see it, and the next one does", async () => {
    const at = gate();
    const { session, model } = await live({
      store: open()(),
      script: [callTool("wait"), say("one"), say("two")],
      tools: [gatedTool("wait", at)],
    });
    const turn = session.turn("go");
    await at.begun;
    expect((await session.appendNodes(note("beside"))).status).toBe("appended");
    expect(transcript(session)).toEqual(["user: beside"]);
    at.open();
    await turn.result;
    await session.run("next");
    expect(model.requests.map(userTexts)).toEqual([["go"], ["go"], ["beside", "go", "next"]]);
  });

  test("[E16] what is appended during a turn that is cancelled stays, too", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      script: [gatedStep(at, say("too late"))],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.appendNodes(note("beside"));
    await session.cancel(turn.id, "stop");
    expect((await turn.result).outcome).toMatchObject({ reason: "cancelled" });
    expect(transcript(session)).toEqual(["user: beside", "user: go"]);
    at.open();
  });

  test("[E16] a change of the configuration waits for the turn that runs, and those behind it have it", async () => {
    const at = gate();
    const { session, model } = await live({
      store: open()(),
      instructions: "old words",
      script: [callTool("wait"), say("one"), say("two")],
      tools: [gatedTool("wait", at)],
    });
    const turn = session.turn("go");
    await at.begun;
    const configured = session.configure({ instructions: "new words" });
    const next = session.turn("next");
    at.open();
    await Promise.all([turn.result, configured, next.result]);
    expect(model.requests.map(({ system }) => /old|new/.exec(system)?.[0])).toEqual(["old", "old", "new"]);
  });
});

test("[E16] what another runtime appends waits for the turn that runs here, and lands behind it", async () => {
  const path = database();
  const at = gate();
  const first = await live({
    store: sqliteStore({ path }),
    script: [callTool("wait"), say("one"), say("two")],
    tools: [gatedTool("wait", at)],
  });
  const turn = first.session.turn("go");
  await at.begun;
  const second = await live({ store: sqliteStore({ path }), tools: [gatedTool("wait", at)] });
  const appended = second.session.appendNodes(note("from elsewhere"));
  at.open();
  await turn.result;
  expect((await appended).status).toBe("appended");
  expect((await first.session.run("next")).text).toBe("two");
  expect(userTexts(first.model.requests[2])).toEqual(["go", "from elsewhere", "next"]);
});

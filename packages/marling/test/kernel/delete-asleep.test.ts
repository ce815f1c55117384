// Deleting a session in which a turn sleeps: the same on every store. queue-closing.ts (QC5).

import { approvals } from "marling/plugins";
import { callTool, callTools, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { gate, gatedTool } from "./durable-support.ts";
import { asking, DESKS, parked, rejectionOf, until } from "./parked-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };
const CLOSED = { name: "MarlingError", code: "session_closed" };

describe.each(DESKS)("on $name", ({ open }) => {
  test("[QC5] a session whose turn waits is deleted; its results reject, and its key is unknown", async () => {
    const { tool, keys } = asking();
    const { runtime, session } = await open({ tools: [tool], answers: ASK });
    const turn = session.turn("go");
    const refused = rejectionOf(turn.result);
    await parked(session);
    await runtime.sessions.delete("s");
    expect(await refused).toMatchObject(CLOSED);
    expect(await runtime.resolve(keys[0] ?? "", { ok: "yes" })).toBe("unknown");
    expect(await runtime.sessions.exists("s")).toBe(false);
    expect(await rejectionOf(runtime.session("s"))).toMatchObject({ code: "session_deleted" });
  });

  test("[QC5] so is one whose turn waits for an approval, of which nobody is asked any more", async () => {
    const { tool } = asking();
    const plugins = [approvals({ rules: { ask: "ask" } })];
    const { runtime, session } = await open({ tools: [tool], plugins, answers: ASK });
    const refused = rejectionOf(session.turn("go").result);
    await parked(session);
    await runtime.sessions.delete("s");
    expect(await refused).toMatchObject(CLOSED);
    expect(await runtime.approvals.list()).toEqual([]);
  });

  test("[QC5] what is queued behind the turn that waits does not begin", async () => {
    const { tool } = asking();
    const { runtime, session, model } = await open({ tools: [tool], answers: ASK });
    const refused = [session.turn("go"), session.turn("next")].map(({ result }) => rejectionOf(result));
    await parked(session);
    await runtime.sessions.delete("s");
    for (const one of refused) expect(await one).toMatchObject(CLOSED);
    expect(model.requests).toHaveLength(1);
  });

  test("[QC5] a turn that is at work goes on until it ends or sleeps", async () => {
    const at = gate();
    const { tool, keys } = asking();
    const both = callTools([
      ["ask", {}],
      ["work", {}],
    ]);
    const answers = { go: [both, say("Done.")] };
    const { runtime, session } = await open({ tools: [tool, gatedTool("work", at)], answers });
    const refused = rejectionOf(session.turn("go").result);
    await until(() => at.visits === 1 && keys.length === 1);
    let isDeleted = false;
    const deleted = runtime.sessions.delete("s").then(() => {
      isDeleted = true;
    });
    await until(async () => (await rejectionOf(session.turn("late").accepted)).code === "session_closed");
    expect(isDeleted).toBe(false);
    at.open();
    await deleted;
    expect(await refused).toMatchObject(CLOSED);
  });

  test("[QC5] a session that is closed while its turn waits can be deleted as well", async () => {
    const { tool } = asking();
    const { runtime, session } = await open({ tools: [tool], answers: ASK });
    const refused = rejectionOf(session.turn("go").result);
    await parked(session);
    const closed = session.close();
    await runtime.sessions.delete("s");
    await closed;
    expect(await refused).toMatchObject(CLOSED);
    expect(await runtime.sessions.exists("s")).toBe(false);
  });

  test("a session without turns that wait is deleted after what it accepted", async () => {
    const { runtime, session } = await open();
    const turns = ["one", "two"].map((text) => session.turn(text));
    await Promise.all(turns.map(({ accepted }) => accepted));
    await runtime.sessions.delete("s");
    expect((await Promise.all(turns.map(({ result }) => result))).map(({ text }) => text)).toEqual([
      "Answer to one.",
      "Answer to two.",
    ]);
  });
});

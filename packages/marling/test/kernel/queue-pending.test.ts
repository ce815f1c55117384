// The list of accepted inputs, their keys, and taking them back: pending-inputs.ts, admit.ts rule A2. What a user sees of
// ST3 and ST35.

import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { BACKINGS, database, gate, gatedStep, gatedTool, live, userTexts } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";

const conflict = { code: "idempotency_conflict" };
const withdrawn = {
  kind: "stopped",
  reason: "cancelled",
  code: "withdrawn",
  message: "the input was taken back before its turn began",
};

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[ST9] pending inputs are listed in order, with what becomes of them", async () => {
    const [first, second] = [gate(), gate()];
    const { session } = await live({
      store: open()(),
      script: [callTool("first"), callTool("second"), say("one"), say("two")],
      tools: [gatedTool("first", first), gatedTool("second", second)],
    });
    const turn = session.turn("go", { key: "k" });
    await first.begun;
    await session.enqueue("note");
    await session.enqueue("later", { deliver: "next_turn", key: "l" });
    const common = (number: number, text: string) => ({
      inputId: `s:input:${number}`,
      turnId: `s:turn:${number}`,
      input: { text },
    });
    const running = { ...common(1, "go"), key: "k", deliver: "next_turn", status: "running" };
    const later = { ...common(3, "later"), key: "l", deliver: "next_turn", status: "queued" };
    expect(await session.pending()).toEqual([
      running,
      { ...common(2, "note"), deliver: "active_turn", status: "queued" },
      later,
    ]);
    first.open();
    await second.begun;
    expect(await session.pending()).toEqual([
      running,
      { ...common(2, "note"), deliver: "active_turn", status: "joined" },
      later,
    ]);
    second.open();
    await turn.result;
    await session.turn("later", { key: "l" }).result;
    expect(await session.pending()).toEqual([]);
  });

  test("[A2] the same key and content is the same input: queued, joined and settled", async () => {
    const [first, second] = [gate(), gate()];
    const { session, model } = await live({
      store: open()(),
      script: [callTool("first"), callTool("second"), say("one")],
      tools: [gatedTool("first", first), gatedTool("second", second)],
    });
    const duplicate = { inputId: "s:input:2", status: "duplicate" };
    const turn = session.turn("go");
    await first.begun;
    await session.enqueue("note", { key: "k" });
    expect(await session.enqueue("note", { key: "k" })).toEqual(duplicate);
    await expect(session.enqueue("other", { key: "k" })).rejects.toMatchObject(conflict);
    first.open();
    await second.begun;
    expect(await session.enqueue("note", { key: "k" })).toEqual(duplicate);
    await expect(session.enqueue("other", { key: "k" })).rejects.toMatchObject(conflict);
    second.open();
    await turn.result;
    expect(await session.enqueue("note", { key: "k" })).toEqual(duplicate);
    await expect(session.enqueue("other", { key: "k" })).rejects.toMatchObject(conflict);
    expect(model.requests.map(userTexts)).toEqual([["go"], ["go", "note"], ["go", "note"]]);
    expect(session.read().turnIndex).toBe(1);
  });

  test("[ST35] what no turn has is taken back; everything else says what became of it", async () => {
    const [first, second] = [gate(), gate()];
    const { session, model } = await live({
      store: open()(),
      script: [say("zero"), callTool("first"), callTool("second"), say("one")],
      tools: [gatedTool("first", first), gatedTool("second", second)],
    });
    await session.run("before");
    const turn = session.turn("go");
    await first.begun;
    await session.enqueue("note");
    first.open();
    await second.begun;
    const queued = session.turn("queued");
    await queued.accepted;
    await session.enqueue("steering");
    const ids = ["s:input:1", "s:input:2", "s:input:3", "s:input:4", "s:input:5", "s:input:9"];
    expect(await session.cancelPending(ids)).toEqual([
      { inputId: "s:input:1", status: "already_completed" },
      { inputId: "s:input:2", status: "already_claimed" },
      { inputId: "s:input:3", status: "already_claimed" },
      { inputId: "s:input:4", status: "cancelled" },
      { inputId: "s:input:5", status: "cancelled" },
      { inputId: "s:input:9", status: "unknown" },
    ]);
    expect(await session.cancelPending(["s:input:4"])).toEqual([
      { inputId: "s:input:4", status: "already_cancelled" },
    ]);
    expect((await session.pending()).map(({ inputId }) => inputId)).toEqual(["s:input:2", "s:input:3"]);
    second.open();
    expect((await turn.result).text).toBe("one");
    const report = await queued.result;
    expect(report).toMatchObject({
      outcome: withdrawn,
      text: "",
      turnId: "s:turn:4",
      toolCalls: [],
      modelCalls: [],
    });
    expect(await session.cancelPending(["s:input:4", "s:input:2"])).toEqual([
      { inputId: "s:input:4", status: "already_cancelled" },
      { inputId: "s:input:2", status: "already_completed" },
    ]);
    expect(model.requests).toHaveLength(4);
    expect(userTexts(model.requests[3])).toEqual(["before", "go", "note"]);
    expect(transcript(session).filter((line) => line.startsWith("user"))).toEqual([
      "user: before",
      "user: go",
      "user: note",
    ]);
  });

  test("[A2] an input that was taken back keeps its key: asking again tells that it was", async () => {
    const at = gate();
    const { session } = await live({ store: open()(), script: [gatedStep(at, say("one"))] });
    const turn = session.turn("go");
    await at.begun;
    const { inputId } = await session.enqueue("later", { key: "k", deliver: "next_turn" });
    await session.cancelPending([inputId]);
    const again = session.turn("later", { key: "k" });
    expect(await again.accepted).toEqual({ inputId, status: "duplicate" });
    at.open();
    await turn.result;
    expect((await again.result).outcome).toEqual(withdrawn);
    await expect(session.enqueue("other", { key: "k" })).rejects.toMatchObject(conflict);
  });

  test("[ST35] whenever an input is taken back, either it is, or its turn has it: never both, never neither", async () => {
    const outcomes = new Set<string>();
    let at = gate();
    const { runtime, model } = await live({
      store: open()(),
      script: async ({ messages }) => {
        if (messages.length > 1) return say("two");
        await at.pass();
        return say("one");
      },
    });
    for (let ticks = 0; ticks < 60; ticks += 1) {
      at = gate();
      const session = await runtime.session(`s${ticks}`);
      const [first, second] = [session.turn("first"), session.turn("second")];
      const { inputId } = await second.accepted;
      await at.begun;
      const asked = model.requests.length;
      at.open();
      for (let tick = 0; tick < ticks; tick += 1) await Promise.resolve();
      const [outcome] = await session.cancelPending([inputId]);
      await first.result;
      const report = await second.result;
      const isBack = outcome?.status === "cancelled";
      outcomes.add(outcome?.status ?? "");
      expect(report.outcome.kind).toBe(isBack ? "stopped" : "finished");
      expect(model.requests).toHaveLength(isBack ? asked : asked + 1);
      expect(transcript(session).includes("user: second")).toBe(!isBack);
    }
    expect([...outcomes]).toContain("cancelled");
  });

  test("cancelPending of nothing is nothing", async () => {
    const { session } = await live({ store: open()() });
    expect(await session.cancelPending([])).toEqual([]);
  });
});

describe("several runtimes on one file", () => {
  test("[A2] after a restart the same key and content is the same input, other content a conflict", async () => {
    const path = database();
    const at = gate();
    const before = await live({
      store: sqliteStore({ path }),
      script: [gatedStep(at, say("one")), say("two")],
    });
    const turn = before.session.turn("go");
    await at.begun;
    await before.session.enqueue("note", { key: "k" });
    at.open();
    const report = await turn.result;
    await before.runtime.close();
    const { session, model } = await live({ store: sqliteStore({ path }) });
    expect(await session.enqueue("note", { key: "k" })).toEqual({
      inputId: "s:input:2",
      status: "duplicate",
    });
    expect(await session.turn("note", { key: "k" }).result).toEqual(report);
    await expect(session.enqueue("other", { key: "k" })).rejects.toMatchObject(conflict);
    expect(model.requests).toHaveLength(0);
  });

  test("[ST35] another runtime takes back an input that is queued in the first", async () => {
    const path = database();
    const at = gate();
    const first = await live({
      store: sqliteStore({ path }),
      script: [gatedStep(at, say("one")), say("three")],
    });
    const running = first.session.turn("first");
    await at.begun;
    const queued = first.session.turn("second");
    const { inputId } = await queued.accepted;
    const { inputId: runningId } = await running.accepted;
    const second = await live({ store: sqliteStore({ path }) });
    expect(await second.session.cancelPending([runningId, inputId])).toEqual([
      { inputId: runningId, status: "already_claimed" },
      { inputId, status: "cancelled" },
    ]);
    at.open();
    expect((await running.result).text).toBe("one");
    expect((await queued.result).outcome).toEqual(withdrawn);
    expect((await first.session.run("third")).text).toBe("three");
    expect(transcript(first.session)).toEqual([
      "user: first",
      "assistant: one",
      "user: third",
      "assistant: three",
    ]);
    expect(second.model.requests).toHaveLength(0);
  });

  test("[E12] an input that another runtime accepts joins the turn that runs here", async () => {
    const path = database();
    const at = gate();
    const first = await live({
      store: sqliteStore({ path }),
      script: [callTool("wait"), say("heard")],
      tools: [gatedTool("wait", at)],
    });
    const turn = first.session.turn("go");
    await at.begun;
    const second = await live({ store: sqliteStore({ path }) });
    await second.session.enqueue("from elsewhere", { key: "k" });
    at.open();
    const report = await turn.result;
    expect(report.text).toBe("heard");
    expect(userTexts(first.model.requests[1])).toEqual(["go", "from elsewhere"]);
    expect(await second.session.turn("from elsewhere", { key: "k" }).result).toEqual(report);
    expect(second.model.requests).toHaveLength(0);
  });
});

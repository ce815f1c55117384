// Inputs that join the turn that runs: checkpoint.ts, rules CP1 and CP2, and E12. What a user sees of ST33.

import { defineTool, finishTurn, type TurnEvent } from "marling";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import {
  BACKINGS,
  gate,
  gatedStep,
  gatedTool,
  live,
  movingTool,
  quickTool,
  userTexts,
} from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";
import { play } from "./tools-support.ts";

const accepted = (events: readonly TurnEvent[]) => events.filter(({ kind }) => kind === "input_accepted");

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[CP1] an input that comes during a tool call is in the next request, once, as a user message", async () => {
    const at = gate();
    const { session, model } = await live({
      store: open()(),
      script: [callTool("wait"), callTool("quick"), say("done")],
      tools: [gatedTool("wait", at), quickTool("quick")],
    });
    const turn = session.turn("go");
    await at.begun;
    const receipt = await session.enqueue("and this");
    expect(receipt).toEqual({ inputId: "s:input:2", status: "accepted" });
    at.open();
    const { report, events } = await play(turn);
    expect(report.outcome).toEqual({ kind: "finished", by: "message", text: "done" });
    expect(model.requests.map(userTexts)).toEqual([["go"], ["go", "and this"], ["go", "and this"]]);
    expect(accepted(events)).toEqual([
      { kind: "input_accepted", inputIds: ["s:input:2"], checkpoint: "after_work" },
    ]);
    expect(transcript(session)).toEqual([
      "user: go",
      "assistant: call wait",
      "tool: result wait done",
      "user: and this",
      "assistant: call quick",
      "tool: result quick done",
      "assistant: done",
    ]);
    expect(await session.pending()).toEqual([]);
  });

  test("[CP1] several inputs join in the order in which they came, each at the first checkpoint after it", async () => {
    const [first, second] = [gate(), gate()];
    const { session, model } = await live({
      store: open()(),
      script: [callTool("first"), callTool("second"), say("done")],
      tools: [gatedTool("first", first), gatedTool("second", second)],
    });
    const turn = session.turn("go");
    await first.begun;
    await session.enqueue("a");
    await session.enqueue("b");
    first.open();
    await second.begun;
    await session.enqueue("c");
    second.open();
    const { events } = await play(turn);
    expect(model.requests.map(userTexts)).toEqual([["go"], ["go", "a", "b"], ["go", "a", "b", "c"]]);
    expect(accepted(events)).toEqual([
      { kind: "input_accepted", inputIds: ["s:input:2", "s:input:3"], checkpoint: "after_work" },
      { kind: "input_accepted", inputIds: ["s:input:4"], checkpoint: "after_work" },
    ]);
  });

  test("[E12] an input that comes while the model answers makes another round before the turn ends", async () => {
    const at = gate();
    const { session, model } = await live({
      store: open()(),
      script: [gatedStep(at, say("first answer")), say("second answer")],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.enqueue("one more thing");
    at.open();
    const { report, events } = await play(turn);
    expect(report.text).toBe("second answer");
    expect(accepted(events)).toEqual([
      { kind: "input_accepted", inputIds: ["s:input:2"], checkpoint: "before_completion" },
    ]);
    expect(model.requests).toHaveLength(2);
    expect(transcript(session)).toEqual([
      "user: go",
      "assistant: first answer",
      "user: one more thing",
      "assistant: second answer",
    ]);
    expect(session.read().turnIndex).toBe(1);
  });

  test("[E12] a late input gets its round though the budget of model calls is used up", async () => {
    const at = gate();
    const { session, model } = await live({
      store: open()(),
      turnBudget: 1,
      script: [gatedStep(at, say("first answer")), say("second answer")],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.enqueue("one more thing");
    at.open();
    expect((await turn.result).text).toBe("second answer");
    expect(userTexts(model.requests[1])).toEqual(["go", "one more thing"]);
  });

  test("[TQ1] an input that comes while nothing runs is a turn", async () => {
    const { session, model } = await live({ store: open()(), script: [say("hello")] });
    expect(await session.enqueue("hi", { key: "k" })).toEqual({ inputId: "s:input:1", status: "accepted" });
    const report = await session.turn("hi", { key: "k" }).result;
    expect(report).toMatchObject({ turnId: "s:turn:1", text: "hello" });
    expect(model.requests).toHaveLength(1);
    expect(transcript(session)).toEqual(["user: hi", "assistant: hello"]);
  });

  test("[E12] an input that missed the last checkpoint is the next turn", async () => {
    const at = gate();
    let isHeld = true;
    const holding = plugin("holding", {
      turn: {
        after: async () => {
          if (isHeld) await at.pass();
          isHeld = false;
        },
      },
    });
    const { session, model } = await live({
      store: open()(),
      plugins: [holding],
      script: [say("one"), say("two")],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.enqueue("too late", { key: "k" });
    at.open();
    const first = await play(turn);
    expect(accepted(first.events)).toEqual([]);
    expect(first.report.text).toBe("one");
    const second = await session.turn("too late", { key: "k" }).result;
    expect(second).toMatchObject({ turnId: "s:turn:2", text: "two" });
    expect(model.requests.map(userTexts)).toEqual([["go"], ["go", "too late"]]);
    expect(transcript(session)).toEqual(["user: go", "assistant: one", "user: too late", "assistant: two"]);
  });

  test("[E12] a turn that a tool ends has no checkpoint for what came during the call: it is the next turn", async () => {
    const at = gate();
    const finish = defineTool({
      name: "finish",
      description: "Ends the turn.",
      input: { type: "object" },
      execute: async () => {
        await at.pass();
        return finishTurn("over");
      },
    });
    const { session } = await live({
      store: open()(),
      tools: [finish],
      script: [callTool("finish"), say("two")],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.enqueue("and this", { key: "k" });
    at.open();
    expect((await turn.result).outcome).toMatchObject({ kind: "finished", by: "tool" });
    expect(await session.turn("and this", { key: "k" }).result).toMatchObject({
      turnId: "s:turn:2",
      text: "two",
    });
  });

  test("[TQ1] an input for the next turn joins nothing", async () => {
    const at = gate();
    const { session, model } = await live({
      store: open()(),
      script: [callTool("wait"), say("one"), say("two")],
      tools: [gatedTool("wait", at)],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.enqueue("later", { key: "k", deliver: "next_turn" });
    at.open();
    expect((await turn.result).text).toBe("one");
    expect((await session.turn("later", { key: "k" }).result).text).toBe("two");
    expect(model.requests.map(userTexts)).toEqual([["go"], ["go"], ["go", "later"]]);
  });

  test("[CP1] an input that joined has the report of the turn that it joined", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      script: [callTool("wait"), say("both heard")],
      tools: [gatedTool("wait", at)],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.enqueue("note", { key: "k" });
    const joined = session.turn("note", { key: "k" });
    expect(await joined.accepted).toEqual({ inputId: "s:input:2", status: "duplicate" });
    at.open();
    const report = await turn.result;
    expect(report).toMatchObject({ turnId: "s:turn:1", text: "both heard" });
    expect(await joined.result).toEqual(report);
    expect(await session.turn("note", { key: "k" }).result).toEqual(report);
    expect(session.read().turnIndex).toBe(1);
  });

  test("[CP1] the turn that was joined switches frames: its last commit settles what joined before", async () => {
    const at = gate();
    const { session, model } = await live({
      store: open()(),
      script: [callTool("wait"), callTool("move"), say("moved")],
      tools: [gatedTool("wait", at), movingTool()],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.enqueue("note", { key: "k" });
    at.open();
    const report = await turn.result;
    expect(report).toMatchObject({ turnId: "s:turn:1", text: "moved" });
    expect(model.requests).toHaveLength(3);
    expect(await session.pending()).toEqual([]);
    expect(await session.turn("note", { key: "k" }).result).toEqual(report);
    const said = (await session.history()).flatMap((node) =>
      node.kind === "message" && node.message.role === "user"
        ? node.message.parts.flatMap((part) => (part.kind === "text" ? [part.text] : []))
        : [],
    );
    expect(said).toEqual(["go", "note", "Go on there."]);
  });

  test("[ST33] a turn that breaks after it was joined gives the input back, and it is the next turn", async () => {
    const at = gate();
    let ends = 0;
    const breaking = plugin("breaking", {
      turn: {
        after: () => {
          ends += 1;
          if (ends === 1) throw new Error("broken hook");
          return undefined;
        },
      },
    });
    const { session, model } = await live({
      store: open()(),
      plugins: [breaking],
      script: [callTool("wait"), say("unheard"), say("heard")],
      tools: [gatedTool("wait", at)],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.enqueue("note", { key: "k" });
    at.open();
    expect((await turn.result).outcome).toMatchObject({ kind: "stopped", reason: "runtime_error" });
    const report = await session.turn("note", { key: "k" }).result;
    expect(report).toMatchObject({ turnId: "s:turn:2", text: "heard" });
    expect(model.requests.map(userTexts)).toEqual([["go"], ["go", "note"], ["go", "note"]]);
    expect(transcript(session)).toEqual(["user: go", "user: note", "assistant: heard"]);
  });

  test("[ST33] a turn that breaks in its second part keeps what joined its first, and gives back what joined later", async () => {
    const [first, second] = [gate(), gate()];
    let ends = 0;
    const breaking = plugin("breaking", {
      turn: {
        after: () => {
          ends += 1;
          if (ends === 2) throw new Error("broken hook");
          return undefined;
        },
      },
    });
    const { session } = await live({
      store: open()(),
      plugins: [breaking],
      script: [callTool("first"), callTool("move"), callTool("second"), say("unheard"), say("heard")],
      tools: [gatedTool("first", first), gatedTool("second", second), movingTool()],
    });
    const turn = session.turn("go");
    await first.begun;
    await session.enqueue("early", { key: "early" });
    first.open();
    await second.begun;
    await session.enqueue("late", { key: "late" });
    second.open();
    const report = await turn.result;
    expect(report.outcome).toMatchObject({ kind: "stopped", reason: "runtime_error" });
    expect(await session.turn("early", { key: "early" }).result).toEqual(report);
    expect(await session.turn("late", { key: "late" }).result).toMatchObject({
      turnId: "s:turn:3",
      text: "heard",
    });
    expect(transcript(session)).toEqual(["user: Go on there.", "user: late", "assistant: heard"]);
  });

  test("[A1] the hooks before inputs see an input that is to join, and may change it", async () => {
    const at = gate();
    const seen: string[] = [];
    const shouting = plugin("shouting", {
      input: {
        before: ({ input }) => {
          seen.push(input.text ?? "");
          return { input: { text: `${input.text}!` } };
        },
      },
    });
    const { session, model } = await live({
      store: open()(),
      plugins: [shouting],
      script: [callTool("wait"), say("done")],
      tools: [gatedTool("wait", at)],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.enqueue("hey", { key: "k" });
    expect(await session.enqueue("hey", { key: "k" })).toEqual({ inputId: "s:input:2", status: "duplicate" });
    at.open();
    await turn.result;
    expect(seen).toEqual(["go", "hey"]);
    expect(userTexts(model.requests[1])).toEqual(["go!", "hey!"]);
  });

  test("[A1] an input that a hook rejects joins nothing and leaves nothing behind", async () => {
    const at = gate();
    const picky = plugin("picky", {
      input: {
        before: ({ input }) =>
          input.text === "bad" ? { reject: { code: "not_nice", message: "Be nice." } } : undefined,
      },
    });
    const { session, model } = await live({
      store: open()(),
      plugins: [picky],
      script: [callTool("wait"), say("done")],
      tools: [gatedTool("wait", at)],
    });
    const turn = session.turn("go");
    await at.begun;
    await expect(session.enqueue("bad")).rejects.toMatchObject({
      code: "input_rejected",
      details: { code: "not_nice", pluginId: "picky" },
    });
    expect((await session.pending()).map(({ inputId }) => inputId)).toEqual(["s:input:1"]);
    at.open();
    await turn.result;
    expect(userTexts(model.requests[1])).toEqual(["go"]);
  });

  test("enqueue refuses a delivery that it does not know, and input that is none", async () => {
    const { session } = await live({ store: open()() });
    await expect(session.enqueue("x", { deliver: "soon" as never })).rejects.toMatchObject({
      code: "invalid_options",
      details: { option: "deliver" },
    });
    await expect(session.enqueue({ txt: "x" } as never)).rejects.toMatchObject({ code: "invalid_input" });
    expect(await session.pending()).toEqual([]);
  });
});

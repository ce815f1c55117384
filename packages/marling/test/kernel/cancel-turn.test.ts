// Cancelling a turn, wherever it is on its way: turn-control.ts, commit-turn.ts and E7. What a user sees of ST32.

import { defineTool } from "marling";
import { callTool, callTools, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import type { CallStore } from "../../src/testing/faulty-store.ts";
import {
  BACKINGS,
  type Gate,
  gate,
  gatedStep,
  gatedTool,
  live,
  never,
  quickTool,
  unevenCalls,
  userTexts,
} from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";
import { play } from "./tools-support.ts";

const cancelled = (message: string) => ({ kind: "stopped", reason: "cancelled", code: "cancelled", message });

/** Stops the commit of the first turn before the store has it, or when it has it and has not said so. */
function holdingCommit(at: Gate, when: "before" | "after"): CallStore {
  let commits = 0;
  return async (method, call) => {
    if (method !== "commit") return call();
    commits += 1; // The first commit opens the session.
    if (commits === 2 && when === "before") await at.pass();
    const answer = await call();
    if (commits === 2 && when === "after") await at.pass();
    return answer;
  };
}

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[ST32] a turn that is cancelled before it begins asks no model; its input stays in the history", async () => {
    const at = gate();
    const { session, model } = await live({
      store: open()(),
      script: [gatedStep(at, say("one")), say("three")],
    });
    const first = session.turn("first");
    await at.begun;
    const second = session.turn("second");
    await second.accepted;
    expect(await session.cancel(second.id, "changed my mind")).toBe("requested");
    at.open();
    expect((await first.result).outcome).toEqual({ kind: "finished", by: "message", text: "one" });
    expect((await second.result).outcome).toEqual(cancelled("changed my mind"));
    expect((await session.run("third")).text).toBe("three");
    expect(model.requests.map(userTexts)).toEqual([["first"], ["first", "second", "third"]]);
    expect(transcript(session)).toEqual([
      "user: first",
      "assistant: one",
      "user: second",
      "user: third",
      "assistant: three",
    ]);
  });

  test("[ST32] a turn that is cancelled while the model answers is over, and the session is usable at once", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      script: [gatedStep(at, say("too late")), say("next")],
    });
    const turn = session.turn("go");
    await at.begun;
    expect(await session.cancel(turn.id)).toBe("requested");
    expect((await turn.result).outcome).toEqual(cancelled("cancelled by the host"));
    expect((await session.run("on")).text).toBe("next");
    at.open();
    expect(transcript(session)).toEqual(["user: go", "user: on", "assistant: next"]);
  });

  test("[ST32] a turn that is cancelled during tool calls keeps what they came to; each call has one result", async () => {
    const at = gate();
    const { session, model } = await live({
      store: open()(),
      script: [
        callTools([
          ["quick", {}],
          ["wait", {}],
        ]),
        say("next"),
      ],
      tools: [quickTool("quick"), gatedTool("wait", at)],
    });
    const turn = session.turn("go");
    const playing = play(turn);
    for await (const { kind } of turn) if (kind === "tool_finished") break;
    await at.begun;
    await session.cancel(turn.id, "stop");
    const { report, events } = await playing;
    expect(report.outcome).toEqual(cancelled("stop"));
    expect(report.toolCalls.map(({ name, output }) => [name, output.outcome.kind])).toEqual([
      ["quick", "success"],
      ["wait", "cancelled"],
    ]);
    expect(events.filter(({ kind }) => kind === "tool_finished")).toHaveLength(2);
    expect(unevenCalls(session.read().messages)).toEqual([]);
    expect((await session.run("on")).text).toBe("next");
    expect(unevenCalls(model.requests[1]?.messages ?? [])).toEqual([]);
  });

  test("[E7] a call that does not listen is answered for it, as one that may have taken effect", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      script: [callTool("deaf"), say("next")],
      tools: [gatedTool("deaf", at, { isDeaf: true })],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.cancel(turn.id, "stop");
    const report = await turn.result;
    expect(report.outcome).toEqual(cancelled("stop"));
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({
      kind: "cancelled",
      message: "The call was cancelled; it may have taken effect.",
    });
    expect((await session.run("on")).text).toBe("next");
    at.open();
    expect(unevenCalls(session.read().messages)).toEqual([]);
  });

  test.each(["before", "request", "call", "checkpoint", "after"] as const)(
    "[ST32] a turn that is cancelled in a hook, here %s, ends when the hook has",
    async (hook) => {
      const at = gate();
      const hold = async (): Promise<undefined> => {
        if (at.visits === 0) await at.pass();
      };
      const holding = plugin("holding", {
        turn: {
          ...(hook === "before" ? { before: hold } : {}),
          ...(hook === "checkpoint" ? { checkpoint: hold } : {}),
          ...(hook === "after" ? { after: hold } : {}),
        },
        model: hook === "request" ? { request: hold } : {},
        toolCalls: hook === "call" ? { before: hold } : {},
      });
      const { session, model } = await live({
        store: open()(),
        plugins: [holding],
        script: ({ messages }) => {
          if (messages.some(({ parts }) => parts.some((part) => "text" in part && part.text === "on")))
            return say("next");
          return messages.length === 1 ? callTool("quick") : say("one");
        },
        tools: [quickTool("quick")],
      });
      const turn = session.turn("go");
      await at.begun;
      const asked = model.requests.length;
      expect(await session.cancel(turn.id, "stop")).toBe("requested");
      at.open();
      expect((await turn.result).outcome).toEqual(cancelled("stop"));
      expect(model.requests).toHaveLength(asked);
      expect(unevenCalls(session.read().messages)).toEqual([]);
      expect((await session.run("on")).text).toBe("next");
    },
  );

  test("[ST32] inputs that joined a turn that is cancelled are in the transcript, and have its report", async () => {
    const [first, second] = [gate(), gate()];
    const { session } = await live({
      store: open()(),
      script: [callTool("first"), callTool("second")],
      tools: [gatedTool("first", first), gatedTool("second", second)],
    });
    const turn = session.turn("go");
    await first.begun;
    await session.enqueue("note", { key: "k" });
    first.open();
    await second.begun;
    await session.cancel(turn.id, "stop");
    const report = await turn.result;
    expect(report.outcome).toEqual(cancelled("stop"));
    expect(await session.turn("note", { key: "k" }).result).toEqual(report);
    expect(transcript(session)).toContain("user: note");
    expect(await session.pending()).toEqual([]);
  });

  test("[ST32] an input that waits to join a turn that is cancelled is the next turn", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      script: [callTool("wait"), say("heard")],
      tools: [gatedTool("wait", at)],
    });
    const turn = session.turn("go");
    await at.begun;
    await session.enqueue("note", { key: "k" });
    await session.cancel(turn.id, "stop");
    expect((await turn.result).outcome).toEqual(cancelled("stop"));
    expect(await session.turn("note", { key: "k" }).result).toMatchObject({
      turnId: "s:turn:2",
      text: "heard",
    });
  });

  test("[ST32] a cancel request that comes before the commit wins: the turn is cancelled, with its answer kept", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      around: holdingCommit(at, "before"),
      script: [say("the answer"), say("next")],
    });
    const turn = session.turn("go", { key: "k" });
    await at.begun;
    expect(await session.cancel(turn.id, "stop")).toBe("requested");
    at.open();
    const { report, events } = await play(turn);
    expect(report.outcome).toEqual(cancelled("stop"));
    expect(report.text).toBe("the answer");
    expect(events.filter(({ kind }) => kind === "committed")).toHaveLength(1);
    expect(await session.turn("go", { key: "k" }).result).toEqual(report);
    expect(await session.cancel(turn.id)).toBe("completed");
    expect((await session.run("on")).text).toBe("next");
    expect(transcript(session)).toEqual(["user: go", "assistant: the answer", "user: on", "assistant: next"]);
  });

  test("[ST32] a commit that comes before the cancel request wins: both sides say that the turn completed", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      around: holdingCommit(at, "after"),
      script: [say("the answer")],
    });
    const turn = session.turn("go", { key: "k" });
    await at.begun;
    expect(await session.cancel(turn.id, "stop")).toBe("completed");
    at.open();
    const report = await turn.result;
    expect(report.outcome).toEqual({ kind: "finished", by: "message", text: "the answer" });
    expect(await session.turn("go", { key: "k" }).result).toEqual(report);
  });

  test("[ST32] whenever a turn is cancelled, the answer to the request and the report agree", async () => {
    const statuses = new Set<string>();
    const { runtime } = await live({ store: open()(), script: () => say("one") });
    for (let ticks = 0; ticks < 60; ticks += 1) {
      const session = await runtime.session(`s${ticks}`);
      const turn = session.turn("go");
      await turn.accepted;
      for (let tick = 0; tick < ticks; tick += 1) await Promise.resolve();
      const status = await session.cancel(turn.id, "stop");
      statuses.add(status);
      const { outcome } = await turn.result;
      expect(outcome.kind).toBe(status === "requested" ? "stopped" : "finished");
    }
    expect([...statuses]).toContain("requested");
  });

  test("[ST32] the first reason stays; a turn that is over says so, and one that never was is unknown", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      script: [callTool("wait")],
      tools: [gatedTool("wait", at, { isDeaf: true })],
    });
    const turn = session.turn("go");
    await at.begun;
    expect(await session.cancel(turn.id, "first")).toBe("requested");
    expect(await session.cancel(turn.id, "second")).toBe("already_requested");
    expect((await turn.result).outcome).toEqual(cancelled("first"));
    expect(await session.cancel(turn.id)).toBe("completed");
    expect(await session.cancel("s:turn:9")).toBe("unknown");
    at.open();
  });

  test("[ST35] a turn that was taken back says that it is over when it is cancelled", async () => {
    const at = gate();
    const { session } = await live({ store: open()(), script: [gatedStep(at, say("one"))] });
    session.turn("first");
    await at.begun;
    const second = session.turn("second");
    const { inputId } = await second.accepted;
    await session.cancelPending([inputId]);
    expect(await session.cancel(second.id)).toBe("completed");
    at.open();
    expect((await second.result).outcome).toMatchObject({ reason: "cancelled", code: "withdrawn" });
  });

  test("aborting the signal of a turn cancels it, with the reason of the signal", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      script: [gatedStep(at, say("too late")), say("next")],
    });
    const controller = new AbortController();
    const turn = session.turn("go", { signal: controller.signal });
    await at.begun;
    controller.abort(new Error("the user left"));
    expect((await turn.result).outcome).toEqual(cancelled("the user left"));
    const aborted = session.turn("again", { signal: AbortSignal.abort("never mind") });
    expect((await aborted.result).outcome).toEqual(cancelled("never mind"));
    expect((await session.run("on")).text).toBe("next");
    at.open();
  });

  test("a signal that is aborted after its turn changes nothing", async () => {
    const { session } = await live({ store: open()(), script: [say("one"), say("two")] });
    const controller = new AbortController();
    const report = await session.turn("go", { key: "k", signal: controller.signal }).result;
    controller.abort();
    expect((await session.run("on")).text).toBe("two");
    expect(await session.turn("go", { key: "k" }).result).toEqual(report);
  });

  test("[ST32] a turn that is cancelled between two rounds keeps every round before it", async () => {
    const asked = deferred<void>();
    const stop = defineTool({
      name: "stop",
      description: "Cancels the turn that calls it.",
      input: { type: "object" },
      execute: async (_input, { turnId }) => {
        await session.cancel(turnId, "stop");
        asked.resolve();
        return "asked";
      },
    });
    const { session, model } = await live({
      store: open()(),
      script: [callTool("quick"), callTool("stop"), say("never said")],
      tools: [quickTool("quick"), stop],
    });
    const report = await session.turn("go").result;
    await asked.promise;
    expect(report.outcome).toEqual(cancelled("stop"));
    expect(model.requests).toHaveLength(2);
    expect(transcript(session)).toEqual([
      "user: go",
      "assistant: call quick",
      "tool: result quick done",
      "assistant: call stop",
      "tool: result asked",
    ]);
  });
});

test("[ST32] a model that never answers does not hold a cancelled turn", async () => {
  const [, sqlite] = BACKINGS;
  const begun = deferred<void>();
  const { session } = await live({
    store: (sqlite as (typeof BACKINGS)[number]).open()(),
    model: {
      id: "deaf",
      call: async (_request, { sink }) => {
        sink({ kind: "text_delta", text: "half an ans" });
        begun.resolve();
        return never();
      },
    },
  });
  const turn = session.turn("go");
  await begun.promise;
  await session.cancel(turn.id, "stop");
  expect(await turn.result).toMatchObject({ outcome: cancelled("stop"), text: "half an ans" });
  expect(transcript(session)).toEqual(["user: go", "assistant: half an ans"]);
});

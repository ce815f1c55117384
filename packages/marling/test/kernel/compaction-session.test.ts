// Compaction: a new frame that begins with what a compactor made of the old one.

import type { AppendNode, PluginParts } from "marling";
import { failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { LifecycleEvent } from "../../src/plugin/hook-context.ts";
import { open, plugin, watch } from "./model-support.ts";
import { type CustomTrace, customTraces } from "./trace-support.ts";

type Compactor = NonNullable<NonNullable<PluginParts["context"]>["compact"]>;
const compacting = (id: string, compact: Compactor) => plugin(id, { context: { compact } });

const seed = (content: string): AppendNode => ({ kind: "message", message: { role: "user", content } });

const summary = compacting("summary", {
  compact: ({ state, instructions }) => ({
    initialNodes: [seed(`${state.messageCount} messages before. ${instructions ?? ""}`.trim())],
  }),
});

describe("between turns", () => {
  test("[K24] the view shows the seed alone; the old nodes stay in the history, before it", async () => {
    const model = scriptedModel(() => say("ok"));
    const session = await open({ model, plugins: [summary] });
    await session.run("one");
    await session.run("two");
    const before = await session.history();
    expect(await session.compact("Keep names.")).toBe(true);
    const { messages, frames, currentFrameId } = session.read();
    expect(messages.map(({ role, parts }) => [role, parts])).toEqual([
      ["user", [{ kind: "text", text: "4 messages before. Keep names." }]],
    ]);
    const after = await session.history();
    expect(after.slice(0, before.length)).toEqual(before);
    expect(after.slice(before.length).map(({ kind }) => kind)).toEqual(["frame_open", "message"]);
    expect(frames.map(({ status, reason }) => [status, reason])).toEqual([
      ["superseded", "initial"],
      ["active", "compaction"],
    ]);
    expect(frames[1]).toMatchObject({ id: currentFrameId, previousFrameId: "s:frame:initial" });
  });

  test("[K24] the next turn is sent the seed and its own input; the new frame runs with what the old one had", async () => {
    const model = scriptedModel(() => say("ok"));
    const session = await open({ model, plugins: [summary] });
    await session.configure({ instructions: "Be brief.", maxTurns: 9 });
    await session.run("one");
    await session.compact();
    await session.run("three");
    expect(model.requests[1]?.messages.map(({ parts }) => parts[0])).toEqual([
      { kind: "text", text: "2 messages before." },
      { kind: "text", text: "three" },
    ]);
    const [old, current] = session.read().frames;
    expect(current?.assignment).toEqual(old?.assignment);
    expect(session.read().policy).toMatchObject({ instructions: "Be brief.", maxTurns: 9 });
  });

  test("[K24] it can be done again and again, and each frame links to the one before", async () => {
    const session = await open({ model: scriptedModel(() => say("ok")), plugins: [summary] });
    for (const round of [1, 2, 3]) {
      await session.run(`turn ${round}`);
      expect(await session.compact()).toBe(true);
    }
    const { frames } = session.read();
    expect(new Set(frames.map(({ id }) => id)).size).toBe(4);
    expect(frames.slice(1).map(({ previousFrameId }) => previousFrameId)).toEqual(
      frames.slice(0, -1).map(({ id }) => id),
    );
  });

  test("[K24] plugins are told of the frame, and the frame is what is committed", async () => {
    const told: LifecycleEvent[] = [];
    const listening = plugin("listening", { session: { onEvent: (event) => void told.push(event) } });
    const session = await open({ model: scriptedModel([]), plugins: [summary, listening] });
    told.length = 0;
    await session.compact();
    expect(told).toEqual([
      { kind: "frame_opened", sessionId: "s", frameId: session.read().currentFrameId, reason: "compaction" },
    ]);
  });

  test("[K24] seeds of every kind are taken, transient messages are not", async () => {
    const mixed = compacting("mixed", {
      compact: () => ({
        initialNodes: [
          { kind: "plugin", type: "digest", body: { of: 2 } },
          seed("kept"),
          { kind: "message", message: { role: "user", content: "not stored", transient: true } },
          { kind: "protocol_event", payload: "marked" },
        ],
      }),
    });
    const session = await open({ model: scriptedModel([]), plugins: [mixed] });
    await session.compact();
    const kinds = (await session.history()).map(({ kind }) => kind);
    expect(kinds).toEqual(["frame_open", "frame_open", "plugin", "message", "protocol_event"]);
  });

  test("[K22] the first compactor with nodes wins, highest priority first; none after it is asked", async () => {
    const asked: string[] = [];
    const answering = (id: string, priority: number, nodes: readonly AppendNode[] | undefined) =>
      compacting(id, {
        priority,
        compact: () => {
          asked.push(id);
          return nodes === undefined ? undefined : { initialNodes: nodes };
        },
      });
    const plugins = [
      answering("B", 1, [seed("B")]),
      answering("none", 9, undefined),
      answering("A", 2, [seed("A")]),
      answering("empty", 8, []),
    ];
    const session = await open({ model: scriptedModel([]), plugins });
    await session.compact();
    expect(asked).toEqual(["none", "empty", "A"]);
    expect(session.read().messages[0]?.parts).toEqual([{ kind: "text", text: "A" }]);
  });

  test("[K22] without an answer nothing changes and the caller is told so", async () => {
    const session = await open({
      model: scriptedModel(() => say("ok")),
      plugins: [
        compacting("none", { compact: () => undefined }),
        compacting("empty", { compact: () => ({ initialNodes: [] }) }),
      ],
    });
    await session.run("one");
    const before = { view: session.read(), history: await session.history() };
    expect(await session.compact()).toBe(false);
    expect({ view: session.read(), history: await session.history() }).toEqual(before);
    expect(await (await open({ model: scriptedModel([]) })).compact()).toBe(false);
  });

  test("[K23] a compactor that fails ends the search; plugins are told, nothing changes, and the error names it", async () => {
    const asked: string[] = [];
    const told: LifecycleEvent[] = [];
    const broken = compacting("broken", {
      priority: 2,
      compact: () => {
        throw new Error("no summary");
      },
    });
    const later = compacting("later", {
      compact: () => {
        asked.push("later");
        return { initialNodes: [seed("x")] };
      },
    });
    const listening = plugin("listening", { session: { onEvent: (event) => void told.push(event) } });
    const session = await open({ model: scriptedModel([]), plugins: [broken, later, listening] });
    told.length = 0;
    const { revision } = session.read();
    await expect(session.compact()).rejects.toMatchObject({
      code: "hook_failed",
      details: { pluginId: "broken", hook: "context.compact" },
    });
    expect(asked).toEqual([]);
    expect(told).toMatchObject([{ kind: "compaction_failed", code: "hook_failed" }]);
    expect(session.read()).toMatchObject({ revision, messages: [] });
  });

  test("[K24] what is appended while the compactors work is in the new frame, behind the seeds", async () => {
    const appending = compacting("appending", {
      compact: async ({ host, sessionId }) => {
        await host.appendSessionNodes(sessionId, { nodes: [seed("meanwhile")] });
        return { initialNodes: [seed("summary")] };
      },
    });
    const session = await open({ model: scriptedModel(() => say("ok")), plugins: [appending] });
    await session.run("one");
    await session.compact();
    const texts = session.read().messages.map(({ parts }) => parts[0]);
    expect(texts).toEqual([
      { kind: "text", text: "summary" },
      { kind: "text", text: "meanwhile" },
    ]);
  });

  test("a handler of the new frame that fails is traced, and the compaction stands", async () => {
    const traces: CustomTrace[] = [];
    const broken = plugin("broken", {
      session: {
        onEvent: ({ kind }) => {
          if (kind === "frame_opened") throw new Error("no");
        },
      },
    });
    const session = await open({
      model: scriptedModel([]),
      plugins: [summary, broken],
      trace: customTraces(traces),
    });
    expect(await session.compact()).toBe(true);
    expect(traces.map(({ name }) => name)).toEqual(["lifecycle_hook_failed"]);
  });
});

describe("inside a turn", () => {
  const retrying = plugin("retrying", {
    model: {
      error: ({ failure }) =>
        failure.kind === "context_overflow"
          ? { kind: "compact_and_retry", instructions: "Shorter." }
          : undefined,
    },
  });

  test("[K24] a call that overflowed is made again with the seeds and what the turn has added", async () => {
    const model = scriptedModel([
      say("first"),
      failWith({ kind: "context_overflow" }),
      say("second"),
      say("third"),
    ]);
    const session = await open({ model, plugins: [summary, retrying] });
    await session.run("one");
    const { report, events } = await watch(session.turn("two"));
    expect(report.text).toBe("second");
    expect(model.requests[2]?.messages.map(({ parts }) => parts[0])).toEqual([
      { kind: "text", text: "3 messages before. Shorter." },
      { kind: "text", text: "two" },
    ]);
    expect(events.map(({ kind }) => kind)).toContain("attempt_reset");
    const kinds = events.map(({ kind }) => kind);
    expect(kinds.slice(kinds.indexOf("frame_switched"))).toEqual(["frame_switched", "committed"]);
    expect(session.read().frames.map(({ reason }) => reason)).toEqual(["initial", "compaction"]);
    expect(session.read().messages.map(({ role }) => role)).toEqual(["user", "user", "assistant"]);
    await session.run("three");
    expect(model.requests[3]?.messages).toHaveLength(4);
  });

  test("a turn compacts once: a second overflow stands", async () => {
    const model = scriptedModel(() => failWith({ kind: "context_overflow" }));
    const session = await open({ model, plugins: [summary, retrying] });
    expect((await session.turn("Hi").result).outcome).toMatchObject({ code: "context_overflow" });
    expect(model.requests).toHaveLength(2);
  });

  test("without a compactor that answers, the overflow stands", async () => {
    const model = scriptedModel([failWith({ kind: "context_overflow" })]);
    const session = await open({ model, plugins: [retrying] });
    expect((await session.turn("Hi").result).outcome).toMatchObject({
      reason: "provider_error",
      code: "context_overflow",
    });
    expect(session.read().frames).toHaveLength(1);
  });
});

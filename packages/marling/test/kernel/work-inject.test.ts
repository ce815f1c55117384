// Messages that plugins and tools bring into a session: kernel.md 10.5, row 111.

import type { TurnEvent } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test, vi } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import type { HostServices } from "../../src/plugin/host-services.ts";
import { BACKINGS, database, gate, gatedTool, live, mortal, userTexts } from "./durable-support.ts";
import { plugin, transcript } from "./hooks-support.ts";
import { act, acting, answering, codeOf, hostTool } from "./services-support.ts";
import { play, rejectionOf, successOf } from "./tools-support.ts";

import { eventually } from "./work-support.ts";

vi.setConfig({ testTimeout: 30_000 });

const accepted = (events: readonly TurnEvent[]) => events.filter(({ kind }) => kind === "input_accepted");

const looks = (host: HostServices, id?: string): Promise<void> =>
  host.injectTurnInput("s", {
    ...(id === undefined ? {} : { id }),
    message: { role: "user", content: "look here" },
  });

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[K111] what is injected into the running turn is in its next request, announced, and no words of the user", async () => {
    const { session, model } = await live({
      store: open()(),
      script: [callTool("inject"), say("done")],
      tools: [
        hostTool("inject", async (host) => {
          await looks(host, "a");
          await looks(host, "a");
          return "injected";
        }),
      ],
    });
    const { report, events } = await play(session.turn("go"));
    expect(report.text).toBe("done");
    expect(accepted(events)).toEqual([
      { kind: "input_accepted", inputIds: ["s:input:2"], checkpoint: "after_work" },
    ]);
    expect(model.requests.map(userTexts)).toEqual([["go"], ["go"]]);
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({
      role: "system",
      parts: [{ kind: "text", text: "Runtime note: look here" }],
    });
    expect(transcript(session)).toEqual([
      "user: go",
      "assistant: call inject",
      "tool: result injected",
      "system: look here",
      "assistant: done",
    ]);
    expect(await session.pending()).toEqual([]);
  });

  test("[K111] what is injected into an idle session is a turn of its own, once per id", async () => {
    const { session, model } = await live({
      store: open()(),
      script: [say("seen"), say("again")],
      plugins: [acting({ look: (host, id) => looks(host, id as string) })],
    });
    await act(session, "look", "a");
    await eventually(() => transcript(session)).toEqual(["system: look here", "assistant: seen"]);
    await act(session, "look", "a");
    await act(session, "look", "b");
    await eventually(() => transcript(session).length).toBe(4);
    expect(model.requests).toHaveLength(2);
    expect(transcript(session).slice(2)).toEqual(["system: look here", "assistant: again"]);
  });

  test("[K111] whoever injects into a turn that runs does not wait for it, and pictures come along", async () => {
    const at = gate();
    const told = deferred<HostServices>();
    const { session, model } = await live({
      store: open()(),
      script: [callTool("wait"), say("done")],
      tools: [gatedTool("wait", at)],
      plugins: [plugin("p", { ready: ({ host }) => told.resolve(host) })],
    });
    const host = await told.promise;
    const turn = session.turn("go");
    await at.begun;
    const attachments = [{ kind: "inline", mediaType: "image/png", base64: "AAAA" }] as const;
    await host.injectTurnInput("s", { message: { role: "user", content: "see", attachments } });
    expect((await session.pending()).map(({ status }) => status)).toEqual(["running", "queued"]);
    at.open();
    expect((await turn.result).text).toBe("done");
    expect(model.requests).toHaveLength(2);
    expect(session.read().messages[3]).toMatchObject({
      role: "system",
      parts: [{ kind: "text", text: "see" }, { kind: "attachment" }],
    });
  });

  test("[TQ7] what a turn injects into its own session while that is let go still joins it", async () => {
    const at = gate();
    const { session, model } = await live({
      store: open()(),
      script: [callTool("inject"), say("done")],
      tools: [
        hostTool("inject", async (host) => {
          await at.pass();
          await looks(host);
          return "injected";
        }),
      ],
    });
    const turn = session.turn("go");
    await at.begun;
    const closed = session.close();
    const refused = await rejectionOf(session.enqueue("from outside"));
    at.open();
    await closed;
    expect(refused.code).toBe("session_closed");
    expect((await turn.result).text).toBe("done");
    expect(model.requests).toHaveLength(2);
    expect(model.requests[1]?.messages.at(-1)?.parts).toEqual([
      { kind: "text", text: "Runtime note: look here" },
    ]);
  });

  test("[TQ7] a session is let go only when what its last turn injected has had its turn, awaited or not", async () => {
    const at = gate();
    const told = deferred<HostServices>();
    const { session, model } = await live({
      store: open()(),
      script: [say("done"), say("seen")],
      plugins: [
        plugin("p", {
          ready: ({ host }) => told.resolve(host),
          turn: {
            after: async () => {
              if (at.visits > 0) return [];
              await at.pass();
              void looks(await told.promise, "late");
              return [];
            },
          },
        }),
      ],
    });
    const turn = session.turn("go");
    await at.begun;
    const closed = session.close();
    at.open();
    await closed;
    expect((await turn.result).text).toBe("done");
    expect(model.requests).toHaveLength(2);
    expect(transcript(session).at(-1)).toBe("assistant: seen");
  });

  test("[TQ7] a turn that asks for one more turn of its own session while that is let go is told that it is busy", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      script: [callTool("again"), say("done")],
      tools: [
        hostTool("again", async (host) => {
          await at.pass();
          return codeOf(host.startTurn("s", "more"));
        }),
      ],
    });
    const turn = session.turn("go");
    await at.begun;
    const closed = session.close();
    at.open();
    await closed;
    const { toolCalls } = await turn.result;
    expect(toolCalls.map(({ output }) => successOf(output))).toEqual(["session_busy"]);
  });

  test("[K111] a child gets what its parent injects; a session beside it is out of reach", async () => {
    const { runtime, session } = await live({
      store: open()(),
      script: () => say("seen"),
      plugins: [
        acting({
          create: (host) => host.createSession({ sessionId: "child" }),
          tell: (host, id) =>
            host.injectTurnInput(id as string, { id: "1", message: { role: "user", content: "hello" } }),
        }),
      ],
    });
    await act(session, "create");
    const child = await runtime.session("child");
    await runtime.session("other");
    await act(session, "tell", "child");
    await eventually(() => transcript(child)).toEqual(["system: hello", "assistant: seen"]);
    expect(await codeOf(act(session, "tell", "other"))).toContain("expected itself or a session below it");
    expect(await codeOf(act(session, "tell", "nobody"))).toContain("expected itself or a session below it");
  });
});

test("[K111] an effect that runs again after a crash injects once, also without an id", async () => {
  const path = database();
  let runs = 0;
  const at = gate();
  const options = {
    script: answering({ go: [callTool("inject"), say("done")] }),
    tools: [
      hostTool("inject", async (host) => {
        await looks(host);
        runs += 1;
        if (runs === 1) await at.pass();
        return "injected";
      }),
    ],
  };
  const first = await mortal({ ...options, store: sqliteStore({ path }) });
  first.session.turn("go");
  await at.begun;
  await first.die();
  const { session, runtime } = await live({ ...options, store: sqliteStore({ path }) });
  await runtime.recover();
  expect(runs).toBe(2);
  expect(transcript(session).filter((line) => line === "system: look here")).toHaveLength(1);
  expect(await session.pending()).toEqual([]);
});

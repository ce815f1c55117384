// Turns of sessions below, as tools, hooks and actions start them.

import type { TurnEvent, TurnReport } from "marling";
import { callTool, callTools, failWith, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { HostServices } from "../../src/plugin/host-services.ts";
import { BACKINGS, gate, gatedStep, live, quickTool } from "./durable-support.ts";
import { act, acting, answering, codeOf, hostTool, ledger, lines } from "./services-support.ts";
import { play, plugin } from "./tools-support.ts";

const USED = { usage: { input: 10, output: 1 } };

describe.each(BACKINGS)("on $name", ({ open }) => {
  test("[K109] a turn is started, watched and awaited once", async () => {
    const seen: TurnEvent["kind"][] = [];
    const delegate = hostTool("delegate", async (host) => {
      const { sessionId } = await host.createSession({ sessionId: "c", usageSource: "helper" });
      const started = await host.startTurnStream(sessionId, "Task");
      for await (const { kind } of started.events) seen.push(kind);
      const report = await host.awaitTurn(started.turnId);
      return {
        at: [started.sessionId, started.policy.model],
        text: report.text,
        again: await codeOf(host.awaitTurn(started.turnId)),
        cancelled: await codeOf(host.cancelTurn(started.turnId)),
        unknown: await codeOf(host.awaitTurn("nothing")),
      } as never;
    });
    const { session } = await live({
      store: open()(),
      tools: [delegate],
      script: answering({
        Go: [callTool("delegate", {}, { usage: { input: 3 } }), say("Done.", { usage: { input: 4 } })],
        Task: [say("Report.", USED)],
      }),
    });
    const { report } = await play(session.turn("Go"));
    expect(report.toolCalls.map(({ output }) => output.outcome)).toEqual([
      {
        kind: "success",
        value: {
          at: ["c", "default"],
          text: "Report.",
          again: "unknown_turn",
          cancelled: "unknown_turn",
          unknown: "unknown_turn",
        },
      },
    ]);
    expect(seen[0]).toBe("turn_started");
    expect(seen).toContain("text_delta");
    expect(seen).toContain("committed");
    expect(lines(report.childUsage)).toEqual(["helper default 10+1"]);
    expect(report.usage).toMatchObject({ input: 7, output: 0 });
    expect(ledger(session)).toEqual(["helper default 10+1", "turn default 7+0"]);
  });

  test("[K110] starting a turn and waiting for it is one call, and a stopped turn is a report like any other", async () => {
    const reports: TurnReport[] = [];
    const delegate = hostTool("delegate", async (host) => {
      await host.createSession({ sessionId: "c" });
      reports.push(await host.startTurn("c", "Task"));
      reports.push(await host.startTurn("c", { text: "More" }));
      return "done";
    });
    const { session } = await live({
      store: open()(),
      tools: [delegate],
      script: answering({
        Go: [callTool("delegate")],
        Task: [say("First.")],
        More: [failWith({ kind: "invalid_request", message: "no", retryable: false })],
      }),
    });
    await session.turn("Go").result;
    expect(reports.map(({ outcome }) => outcome)).toEqual([
      { kind: "finished", by: "message", text: "First." },
      expect.objectContaining({ kind: "stopped", reason: "provider_error" }),
    ]);
  });

  test("[K109] a session has one turn at a time, whoever started it, and may have another after it", async () => {
    const at = gate();
    const delegate = hostTool("delegate", async (host) => {
      await host.createSession({ sessionId: "c" });
      const [first, ...others] = await Promise.all([
        host.startTurnStream("c", "Slow"),
        codeOf(host.startTurnStream("c", "Task")),
        codeOf(host.startTurn("c", "Task", { key: "other" })),
        codeOf(host.startTurn("s", "Task")),
      ]);
      await at.begun;
      const later = await codeOf(host.startTurn("c", "Task"));
      at.open();
      await host.awaitTurn(first.turnId);
      const { text } = await host.startTurn("c", "Task");
      return [...others, later, text] as never;
    });
    const { session } = await live({
      store: open()(),
      tools: [delegate],
      script: answering({ Go: [callTool("delegate")], Slow: [gatedStep(at, say("Slow."))] }),
    });
    const { report } = await play(session.turn("Go"));
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({
      kind: "success",
      value: ["session_busy", "session_busy", "session_busy", "session_busy", "Answer to Task."],
    });
  });

  test("[K109] a session that works beside turns cannot wait for a turn of its own", async () => {
    const { session } = await live({
      store: open()(),
      plugins: [acting({ "do.self": (host) => codeOf(host.startTurn("s", "Task")) })],
      script: answering({}),
    });
    expect(await act(session, "do.self")).toBe("session_busy");
  });

  test("[K109] a turn that was started is cancelled by whoever started it", async () => {
    const at = gate();
    const delegate = hostTool("delegate", async (host) => {
      await host.createSession({ sessionId: "c" });
      const { turnId } = await host.startTurnStream("c", "Slow");
      await at.begun;
      await host.cancelTurn(turnId);
      at.open();
      return (await host.awaitTurn(turnId)).outcome as never;
    });
    const { session } = await live({
      store: open()(),
      tools: [delegate],
      script: answering({ Go: [callTool("delegate")], Slow: [gatedStep(at, say("Slow."))] }),
    });
    const { report } = await play(session.turn("Go"));
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({
      kind: "success",
      value: { kind: "stopped", reason: "cancelled", message: "cancelled by the session that started it" },
    });
    expect(report.outcome).toMatchObject({ kind: "finished" });
  });

  test.each([
    ["waits for", true],
    ["has only started", false],
  ])("[K109] a cancelled turn cancels the turn that it %s, and those below that one", async (_how, waits) => {
    const at = gate();
    const spawn =
      (child: string, task: string) =>
      async (host: HostServices): Promise<unknown> => {
        await host.createSession({ sessionId: child });
        const { turnId } = await host.startTurnStream(child, task);
        if (child === "c" && !waits) await at.begun;
        if (child === "cc" || waits) await host.awaitTurn(turnId);
        else await new Promise(() => undefined);
        return "done";
      };
    const { session, runtime } = await live({
      store: open()(),
      tools: [hostTool("child", spawn("c", "Middle")), hostTool("grandchild", spawn("cc", "Slow"))],
      script: answering({
        Go: [callTool("child")],
        Middle: [callTool("grandchild")],
        Slow: [gatedStep(at, say("Slow."))],
      }),
    });
    const turn = session.turn("Go");
    await at.begun;
    const [child, grandchild] = [await runtime.session("c"), await runtime.session("cc")];
    await session.cancel(turn.id, "enough");
    const { outcome } = await turn.result;
    expect(outcome).toMatchObject({ kind: "stopped", reason: "cancelled", message: "enough" });
    await expect
      .poll(() => [child.read().turnIndex, grandchild.read().turnIndex], { timeout: 10_000 })
      .toEqual([1, 1]);
    const again = await Promise.all([
      child.turn("Middle", { id: "c:turn:1" }).result.catch((thrown: Error) => thrown),
      grandchild.turn("Slow", { id: "cc:turn:1" }).result.catch((thrown: Error) => thrown),
    ]);
    for (const report of again)
      expect(report).toMatchObject({ outcome: { kind: "stopped", reason: "cancelled" } });
  });

  test("[K123] what a child's turn used beside turns is in the ledger at once", async () => {
    const { session } = await live({
      store: open()(),
      plugins: [
        acting({
          "do.child": async (host) => {
            const { sessionId } = await host.createSession({ usageSource: "helper" });
            return (await host.startTurn(sessionId, "Task")).text;
          },
        }),
      ],
      script: answering({ Task: [say("Report.", USED)] }),
    });
    expect(await act(session, "do.child")).toBe("Report.");
    expect(ledger(session)).toEqual(["helper default 10+1"]);
  });

  test("[K110] hooks start turns too: around tool calls and while the context is prepared", async () => {
    const run = async (host: unknown, key: string): Promise<undefined> => {
      const { createSession, startTurn } = host as HostServices;
      const { sessionId } = await createSession({ sessionId: `${key}-child`, usageSource: key });
      await startTurn(sessionId, "Task");
      return undefined;
    };
    const busy = plugin("busy", {
      toolCalls: {
        before: ({ host }) => run(host, "before"),
        after: ({ host }) => run(host, "after"),
      },
      context: {
        prepareTurn: {
          transform: async ({ host, sessionId }, prepared) => {
            if (sessionId === "s") await run(host, "context");
            return prepared;
          },
        },
      },
    });
    const { session } = await live({
      store: open()(),
      tools: [quickTool("quick")],
      plugins: [busy],
      script: answering({ Go: [callTools([["quick", {}]])], Task: [say("Report.", USED)] }),
    });
    const { report } = await play(session.turn("Go"));
    expect(report.issues).toEqual([]);
    expect(lines(report.childUsage)).toEqual([
      "after default 10+1",
      "before default 10+1",
      "context default 10+1",
    ]);
    expect(ledger(session)).toEqual(["after default 10+1", "before default 10+1", "context default 10+1"]);
  });
});

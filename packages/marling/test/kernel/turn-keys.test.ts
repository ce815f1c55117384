// Keys by which inputs are recognised: checked on every way into a session.

import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { HostServices } from "../../src/plugin/host-services.ts";
import { BACKINGS, live } from "./durable-support.ts";
import { plugin } from "./hooks-support.ts";
import { answering, codeOf, hostTool } from "./services-support.ts";
import { play, rejectionOf } from "./tools-support.ts";

/** What JavaScript may give in the place of a key. */
const NO_KEYS: readonly unknown[] = ["", 0, 7, Number.NaN, null, true, [], {}];
const asKey = (value: unknown): string => value as string;

describe.each(BACKINGS)("over $name", ({ open }) => {
  test.each(NO_KEYS)(
    "[A2] %j is no key, neither of a turn nor of an input, and nothing is stored",
    async (raw) => {
      const store = open()();
      const { session } = await live({ store, script: () => say("Hi.") });
      const key = asKey(raw);
      const expected = { code: "invalid_options", advice: "fix", details: { option: "key" } };
      expect(await rejectionOf(session.turn("Go", { key }).result)).toMatchObject(expected);
      expect(await rejectionOf(session.enqueue("Go", { key }))).toMatchObject(expected);
      expect(await rejectionOf(session.enqueue("Go", { key, deliver: "next_turn" }))).toMatchObject(expected);
      expect([await session.pending(), session.read().turnIndex]).toEqual([[], 0]);
    },
  );

  test("[A2] the host of a tool takes no such keys either", async () => {
    const ask = async (host: HostServices): Promise<unknown> => {
      await host.createSession({ sessionId: "c" });
      const message = { role: "user", content: "look" } as const;
      const codes = await Promise.all(
        NO_KEYS.flatMap((key) => [
          codeOf(host.startTurn("c", "Task", { key: asKey(key) })),
          codeOf(host.startTurnStream("c", "Task", { key: asKey(key) })),
          codeOf(host.injectTurnInput("s", { id: asKey(key), message })),
        ]),
      );
      return [...new Set(codes)];
    };
    const { session, runtime } = await live({
      store: open()(),
      tools: [hostTool("ask", ask)],
      script: answering({ Go: [callTool("ask"), say("Done.")] }),
    });
    const { report } = await play(session.turn("Go"));
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({
      kind: "success",
      value: ["invalid_options"],
    });
    expect(await session.pending()).toEqual([]);
    expect((await runtime.session("c")).read().turnIndex).toBe(0);
  });

  test.each(NO_KEYS)("[K67] a command that queues a turn under %j fails, and queues nothing", async (raw) => {
    const directives = [{ kind: "queue_turn", input: "Go", key: asKey(raw) }] as const;
    const handler = () => ({ output: null, directives });
    const desk = plugin("desk", {
      operations: { commands: { "desk.do": { session: "required", handler } } },
    });
    const { session } = await live({ store: open()(), plugins: [desk], script: () => say("Hi.") });
    expect(await rejectionOf(session.command("desk.do"))).toMatchObject({ code: "operation_failed" });
    expect([await session.pending(), session.read().turnIndex]).toEqual([[], 0]);
  });
});

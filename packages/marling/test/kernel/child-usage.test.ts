// What is used below a turn, told as it is used (SP5), and sessions below that nobody needs any more (OS3).

import { defineTool, type Json, type Session, type TurnEvent } from "marling";
import { subagents } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import { BACKINGS, database, gate, gatedStep, live, mortal } from "./durable-support.ts";
import { plugin } from "./hooks-support.ts";
import { answering, hostTool, ledger } from "./services-support.ts";
import { play } from "./tools-support.ts";

const tokens = (input: number) => ({ usage: { input, output: 1 } });
const spawn = (task: string, used: number) => callTool("spawn", { task }, tokens(used));

/** The events about children, as `session source model input+output`. */
const told = (events: readonly TurnEvent[]): readonly string[] =>
  events.flatMap((event) =>
    event.kind === "child_usage"
      ? [`${event.sessionId} ${event.source} ${event.model} ${event.usage.input}+${event.usage.output}`]
      : [],
  );

describe.each(BACKINGS)("over $name", ({ open }) => {
  test("[SP5] who watches a turn is told what its children use while they are at work", async () => {
    const at = gate();
    const { session } = await live({
      store: open()(),
      plugins: [subagents()],
      tools: [defineTool({ name: "read", description: "Reads.", input: {}, execute: () => "read" })],
      script: answering({
        Go: [spawn("Work", 1), say("Done.", tokens(2))],
        Work: [callTool("read", {}, tokens(10)), gatedStep(at, say("Worked.", tokens(20)))],
      }),
    });
    const turn = session.turn("Go");
    const events: TurnEvent[] = [];
    const watched = (async () => {
      for await (const event of turn) events.push(event);
    })();
    await at.begun;
    await expect.poll(() => told(events)).toEqual([expect.stringContaining("subagent:worker default 10+1")]);
    at.open();
    const report = await turn.result;
    await watched;
    expect(told(events).map((line) => line.split(" ").slice(1).join(" "))).toEqual([
      "subagent:worker default 10+1",
      "subagent:worker default 20+1",
    ]);
    expect(report.childUsage).toMatchObject([{ source: "subagent:worker", usage: { input: 30, output: 2 } }]);
  });

  test("[SP5] what is used two levels below is told on both, under the session that is waited for", async () => {
    const { session } = await live({
      store: open()(),
      plugins: [subagents()],
      script: answering({
        Go: [callTool("spawn", { task: "Middle", name: "middle" }, tokens(1)), say("Done.", tokens(2))],
        Middle: [callTool("spawn", { task: "Bottom", name: "bottom" }, tokens(10)), say("Up.", tokens(20))],
        Bottom: [say("Bottom.", tokens(100))],
      }),
    });
    const { events, report } = await play(session.turn("Go"));
    expect(told(events)).toEqual([
      "s:agent:middle subagent:worker default 10+1",
      "s:agent:middle subagent:worker default 100+1",
      "s:agent:middle subagent:worker default 20+1",
    ]);
    expect(report.usage).toMatchObject({ input: 3, output: 2 });
    expect(ledger(session)).toEqual(["subagent:worker default 130+3", "turn default 3+2"]);
  });

  test("[OS3] a child that was let go can be read, and given more to do; the turn that read it lets it go again", async () => {
    const reading = hostTool("transcript", async (host) => {
      const { messages } = await host.snapshotSession("s:agent:ada");
      return messages.map(({ role }) => role) as Json;
    });
    const optional = plugin("optional", {});
    const { session, runtime } = await live({
      store: open()(),
      plugins: [subagents(), optional],
      tools: [reading],
      script: answering({
        Go: [callTool("spawn", { task: "Work", name: "ada" }), say("Done.")],
        Work: [say("Worked.")],
        Read: [callTool("transcript"), say("Read.")],
        More: [callTool("spawn", { task: "Work", name: "ada" }), say("Done.")],
      }),
    });
    const isOpen = async (): Promise<boolean> => {
      const reopened = await runtime
        .session("s:agent:ada", { plugins: { optional: {} } })
        .catch((thrown: { readonly code: string }) => thrown.code);
      if (typeof reopened === "string") return reopened === "session_busy";
      await (reopened as Session).close();
      return false;
    };
    await session.turn("Go").result;
    expect(await isOpen()).toBe(false);
    const { report } = await play(session.turn("Read"));
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({ value: ["user", "assistant"] });
    expect(await isOpen()).toBe(false);
    await session.turn("More").result;
    expect((await runtime.session("s:agent:ada")).read().messages).toHaveLength(4);
  });
});

test("[SP5] after a crash what a child has used is told again to new watchers, and is in the ledger once", async () => {
  const path = database();
  const at = gate();
  const answers = (last: ReturnType<typeof say>) => ({
    Go: [spawn("Work", 1), say("Done.", tokens(2))],
    Work: [callTool("read", {}, tokens(10)), gatedStep(at, last)],
  });
  const tools = [defineTool({ name: "read", description: "Reads.", input: {}, execute: () => "read" })];
  const plugins = [subagents()];
  const first = await mortal({
    store: sqliteStore({ path }),
    plugins,
    tools,
    script: answering(answers(say("Never."))),
  });
  first.session.turn("Go", { id: "t" });
  await at.begun;
  await first.die();
  at.open();
  const { session } = await live({
    store: sqliteStore({ path }),
    plugins,
    tools,
    script: answering(answers(say("Worked.", tokens(20)))),
  });
  const { events } = await play(session.turn("Go", { id: "t" }));
  expect(told(events).map((line) => line.split(" ").at(-1))).toContain("20+1");
  expect(ledger(session)).toEqual(["subagent:worker default 30+2", "turn default 3+2"]);
});

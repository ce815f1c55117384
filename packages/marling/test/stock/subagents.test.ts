// Subagents: what a child is given, what comes back, and what it cannot have.

import type { Plugin, Session, ToolCallRecord, TurnReport } from "marling";
import { approvals, type SubagentsOptions, subagents } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, failWith, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { question } from "../kernel/approvals-support.ts";
import { echo } from "../kernel/approvals-tools.ts";
import {
  BACKINGS,
  database,
  gate,
  gatedStep,
  type Life,
  live,
  mortal,
  quickTool,
  userTexts,
} from "../kernel/durable-support.ts";
import { type Answers, answering, ledger, lines } from "../kernel/services-support.ts";
import { failureOf } from "../kernel/tools-support.ts";

const tokens = (input: number) => ({ usage: { input, output: 1 } });
const spawn = (args: object, used = 0) => callTool("spawn", args, tokens(used));

interface Spawned {
  readonly sessionId: string;
  readonly text: string;
  readonly value?: unknown;
}

function spawned(record: ToolCallRecord | undefined): Spawned {
  const outcome = record?.output.outcome;
  expect(outcome).toMatchObject({ kind: "success" });
  return (outcome as unknown as { readonly value: Spawned }).value;
}

const failures = ({ toolCalls }: TurnReport): readonly string[] =>
  toolCalls.map(({ output }) => failureOf(output).code);

describe.each(BACKINGS)("on $name", ({ open }) => {
  const start = (
    answers: Answers,
    {
      options,
      tools = ["read", "write"],
      plugins = [],
    }: {
      readonly options?: SubagentsOptions;
      readonly tools?: readonly string[];
      readonly plugins?: readonly Plugin[];
    } = {},
  ): Promise<Life & { readonly ran: readonly string[] }> => {
    const ran: string[] = [];
    return live({
      store: open()(),
      plugins: [subagents(options), ...plugins],
      tools: tools.map((name) => quickTool(name, { ran })),
      models: { small: scriptedModel(() => say("Small.", tokens(1))) },
      script: answering(answers),
    }).then((life) => ({ ...life, ran }));
  };

  test("[SA1] a task goes to a session of its own, and what it reports comes back", async () => {
    const life = await start({
      Go: [spawn({ task: "Find it" }, 1), say("Done.", tokens(2))],
      "Find it": [callTool("read", {}, tokens(10)), say("Found.", tokens(20))],
    });
    const report = await life.session.turn("Go").result;
    const { sessionId, text } = spawned(report.toolCalls[0]);
    expect(text).toBe("Found.");
    expect(life.ran).toEqual(["read"]);
    const child = await life.runtime.session(sessionId);
    expect(child.read().messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
    expect(child.read().frames[0]?.assignment.authority.subagent).toEqual({
      parentSessionId: "s",
      capability: "worker",
      depth: 1,
      maxDepth: 3,
    });
    expect(
      (await life.runtime.sessions.list()).items.find(({ id }) => id === sessionId)?.parentSessionId,
    ).toBe("s");
    expect(lines(report.childUsage)).toEqual(["subagent:worker default 30+2"]);
    expect(ledger(life.session)).toEqual(["subagent:worker default 30+2", "turn default 3+2"]);
    expect(ledger(child)).toEqual(["subagent:worker default 30+2"]);
  });

  test("[SA1] a capability says what its children are told, on which model, and for how long", async () => {
    const life = await start(
      {
        Go: [spawn({ task: "Ask", capability: "quick" })],
        Loop: [spawn({ task: "Again", capability: "short" }), say("Done.")],
        Again: [callTool("read"), callTool("read"), say("Never.")],
      },
      {
        options: {
          capabilities: {
            quick: { description: "Fast.", model: "small", instructions: "Be quick." },
            short: { description: "Brief.", maxTurns: 1 },
          },
        },
      },
    );
    const answer = await life.session.turn("Go").result;
    expect(spawned(answer.toolCalls[0]).text).toBe("Small.");
    expect(lines(answer.childUsage)).toEqual(["subagent:quick small 1+1"]);
    const child = await life.runtime.session(spawned(answer.toolCalls[0]).sessionId);
    expect(child.read().policy).toMatchObject({ model: "small", instructions: "Be quick." });
    const cut = await life.session.turn("Loop").result;
    expect(failures(cut)).toEqual(["max_turns"]);
    expect(cut.outcome).toMatchObject({ kind: "finished", text: "Done." });
    const tool = life.model.requests[0]?.tools.find(({ name }) => name === "spawn");
    expect(tool?.description).toContain("- quick: Fast.\n- short: Brief.");
  });

  test("[SA1] a capability that does not exist is refused", async () => {
    const life = await start({ Go: [spawn({ task: "x", capability: "admin" })] });
    expect(failures(await life.session.turn("Go").result)).toEqual(["invalid_tool_args"]);
    expect((await life.runtime.sessions.list()).items).toHaveLength(1);
  });

  describe("tools that were denied", () => {
    const ways: Readonly<Record<string, ReturnType<typeof callTool>>> = {
      "by name": callTool("write"),
      "in a batch": callTool("batch", { calls: [{ tool: "write" }] }),
    };
    const capabilities = {
      reader: { description: "Reads.", tools: ["read", "spawn", "batch"] },
      thinker: { description: "Thinks.", tools: [] },
      careful: { description: "Does not write.", hiddenTools: ["write"] },
      writer: { description: "Writes.", tools: ["write", "batch", "spawn"] },
      anything: { description: "Has no limits." },
    };
    const who: Readonly<Record<string, readonly string[]>> = {
      "a child that has a list without it": ["reader"],
      "a child that has a list of none": ["thinker"],
      "a child that it is hidden from": ["careful"],
      "a grandchild that is given a list with it": ["reader", "writer"],
      "a grandchild that is given everything": ["careful", "anything"],
      "a grandchild that is given a list with it where it is hidden": ["careful", "writer"],
      "a great-grandchild": ["careful", "anything", "writer"],
    };
    const cells = Object.keys(who).flatMap((whose) => Object.keys(ways).map((way) => [whose, way] as const));

    test.each(cells)("[SA1] %s cannot call it %s", async (whose, way) => {
      const chain = who[whose] ?? [];
      const answers: Record<string, readonly ReturnType<typeof callTool>[]> = {
        Do: [ways[way] as ReturnType<typeof callTool>, say("Tried.")],
      };
      chain.forEach((capability, index) => {
        const task = index === chain.length - 1 ? "Do" : `Level ${index + 1}`;
        answers[index === 0 ? "Go" : `Level ${index}`] = [spawn({ task, capability }), say("Passed on.")];
      });
      const life = await start(answers, { options: { capabilities, maxDepth: 5 } });
      const report = await life.session.turn("Go").result;
      expect(spawned(report.toolCalls[0]).text).toBe(chain.length === 1 ? "Tried." : "Passed on.");
      expect((await life.runtime.sessions.list()).items).toHaveLength(chain.length + 1);
      expect(life.ran).toEqual([]);
    });

    test("[SA1] whoever was not denied it can", async () => {
      for (const way of Object.values(ways)) {
        const life = await start(
          { Go: [spawn({ task: "Do", capability: "anything" })], Do: [way] },
          { options: { capabilities } },
        );
        await life.session.turn("Go").result;
        expect(life.ran).toEqual(["write"]);
      }
    });
  });

  test.each([1, 2, 3])(
    "[SA1] with a depth of %i nobody below that has agents of its own",
    async (maxDepth) => {
      const life = await start({ Go: [spawn({ task: "Go" }), say("Back.")] }, { options: { maxDepth } });
      await life.session.turn("Go").result;
      const { items } = await life.runtime.sessions.list();
      expect(items).toHaveLength(maxDepth + 1);
      const sessions = await Promise.all(items.map(({ id }) => life.runtime.session(id)));
      const depths = sessions.map((session) => [
        session.read().frames[0]?.assignment.authority.subagent?.depth ?? 0,
        session.tools.list().some(({ name }) => name === "spawn"),
      ]);
      expect(depths.sort()).toEqual(
        Array.from({ length: maxDepth + 1 }, (_none, depth) => [depth, depth < maxDepth]),
      );
    },
  );

  test("[SA3] an agent with a name is given more tasks and knows what it did; others know nothing", async () => {
    const life = await start({
      Go: [
        spawn({ task: "First", name: "bob" }),
        spawn({ task: "Second", name: "bob" }),
        spawn({ task: "Third" }),
      ],
    });
    const report = await life.session.turn("Go").result;
    const [first, second, third] = report.toolCalls.map(spawned);
    expect(first?.sessionId).toBe("s:agent:bob");
    expect(second?.sessionId).toBe("s:agent:bob");
    expect(third?.sessionId).not.toBe("s:agent:bob");
    const asked = life.model.requests.filter((request) => userTexts(request).at(-1) !== "Go").map(userTexts);
    expect(asked).toEqual([["First"], ["First", "Second"], ["Third"]]);
    const later = await life.session.turn("Go").result;
    expect(spawned(later.toolCalls[0]).sessionId).toBe("s:agent:bob");
    expect((await life.runtime.session("s:agent:bob")).read().turnIndex).toBe(4);
  });

  test("[SA3] two tasks at once for one agent: one has to wait, and is told so", async () => {
    const life = await start({
      Go: [
        callTools([
          ["spawn", { task: "A", name: "bob" }],
          ["spawn", { task: "B", name: "bob" }],
        ]),
      ],
    });
    const { toolCalls } = await life.session.turn("Go").result;
    const outcomes = toolCalls.map(({ output }) => output.outcome);
    expect(outcomes.filter(({ kind }) => kind === "success")).toHaveLength(1);
    const failed = outcomes.find(({ kind }) => kind === "failure");
    expect(failed).toMatchObject({ message: expect.stringContaining("expected no turn on its way") });
  });

  test("[SA1] an agent knows the conversation when it was asked for", async () => {
    const life = await start({
      Hello: [say("Hi.")],
      Go: [spawn({ task: "With", seed: "history" }), spawn({ task: "Without", seed: "empty" })],
    });
    await life.session.turn("Hello").result;
    await life.session.turn("Go").result;
    const asked = life.model.requests
      .map(userTexts)
      .filter((texts) => ["With", "Without"].includes(texts.at(-1) ?? ""));
    expect(asked).toEqual([["Hello", "With"], ["Without"]]);
  });

  test("[SA1] an answer that must follow a schema comes back as a value", async () => {
    const outputSchema = { type: "object", required: ["n"], properties: { n: { type: "number" } } };
    const life = await start({
      Go: [spawn({ task: "Count", outputSchema })],
      Count: [say('{"n": 3}')],
    });
    const report = await life.session.turn("Go").result;
    expect(spawned(report.toolCalls[0]).value).toEqual({ n: 3 });
    const request = life.model.requests.find((each) => userTexts(each).at(-1) === "Count");
    expect(request?.outputSchema).toEqual(outputSchema);
  });

  test.each<[string, object, string]>([
    ["does not follow its schema", { type: "number" }, "invalid_output"],
    [
      "would be matched by an expression of the model",
      { type: "string", pattern: "^(a+)+$" },
      "invalid_tool_args",
    ],
    [
      "would have names that are matched by one",
      { type: "object", properties: { pattern: { patternProperties: {} } } },
      "invalid_tool_args",
    ],
  ])("[SA1] an answer that %s is a failed call", async (_how, outputSchema, code) => {
    const life = await start({ Go: [spawn({ task: "Count", outputSchema })], Count: [say("three")] });
    expect(failures(await life.session.turn("Go").result)).toEqual([code]);
  });

  test("[SA1] an agent that failed is a failed call, with what it said, and its parent goes on", async () => {
    const life = await start({
      Go: [spawn({ task: "Fail" }), say("Going on.")],
      Fail: [failWith({ kind: "invalid_request", message: "no such model", retryable: false })],
    });
    const report = await life.session.turn("Go").result;
    expect(report.toolCalls[0]?.output.outcome).toMatchObject({
      kind: "failure",
      class: "execution",
      message: expect.stringContaining("no such model"),
      raw: { sessionId: expect.any(String), text: "" },
    });
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Going on." });
  });

  test("[SA1] an agent that used its tokens is a failed call, and what it used is paid", async () => {
    const life = await start(
      {
        Go: [spawn({ task: "Work" }, 1), say("Going on.", tokens(2))],
        Work: [callTool("read", {}, tokens(49)), callTool("read", {}, tokens(49)), say("Never.")],
      },
      { options: { capabilities: { worker: { description: "Works.", tokens: 60 } } } },
    );
    const report = await life.session.turn("Go").result;
    expect(failures(report)).toEqual(["budget_exhausted"]);
    expect(report.outcome).toMatchObject({ kind: "finished", text: "Going on." });
    expect(ledger(life.session)).toEqual(["subagent:worker default 98+2", "turn default 3+2"]);
  });

  test("[SA1] four agents of one response work at once, and everything they used adds up, with what is below them", async () => {
    const at = gate();
    let waiting = 0;
    const meet = gatedStep(at, say("Met.", tokens(5)));
    const together = async (request: Parameters<typeof meet>[0]) => {
      waiting += 1;
      if (waiting === 4) at.open();
      return meet(request);
    };
    const life = await start({
      Go: [
        callTools(
          ["A", "B", "C", "D"].map((task) => ["spawn", { task }] as const),
          tokens(1),
        ),
        say("Done.", tokens(2)),
      ],
      A: [together],
      B: [together],
      C: [together],
      D: [together, say("Never.")],
      Deep: [spawn({ task: "Below" }, 10), say("Deep.", tokens(20))],
      Below: [say("Bottom.", tokens(100))],
      Down: [spawn({ task: "Deep" }, 1), say("Up.", tokens(2))],
    });
    const report = await life.session.turn("Go").result;
    expect(report.toolCalls.map((call) => spawned(call).text)).toEqual(["Met.", "Met.", "Met.", "Met."]);
    expect(new Set(report.toolCalls.map((call) => spawned(call).sessionId)).size).toBe(4);
    expect(lines(report.childUsage)).toEqual(["subagent:worker default 20+4"]);
    const deep = await life.session.turn("Down").result;
    expect(lines(deep.childUsage)).toEqual(["subagent:worker default 130+3"]);
    expect(ledger(life.session)).toEqual(["subagent:worker default 150+7", "turn default 6+4"]);
    const child: Session = await life.runtime.session(spawned(deep.toolCalls[0]).sessionId);
    expect(ledger(child)).toEqual(["subagent:worker default 130+3"]);
  });
});

describe("over restarts", () => {
  const answers: Answers = {
    Go: [spawn({ task: "Work" }, 1), say("Done.", tokens(2))],
    Work: [callTool("shell", { text: "ls" }, tokens(10)), say("Worked.", tokens(20))],
  };
  const rules = { spawn: "allow", shell: "ask" } as const;

  test("[SA2] a task goes on where a crash cut it", async () => {
    const path = database();
    const at = gate();
    const { tools, ran } = echo("shell");
    const work = [...(answers.Work ?? [])];
    work[1] = gatedStep(at, say("Never."));
    const first = await mortal({
      store: sqliteStore({ path }),
      plugins: [subagents()],
      tools: [...tools],
      script: answering({ ...answers, Work: work }),
    });
    first.session.turn("Go", { id: "t" });
    await at.begun;
    await first.die();
    const life = await live({
      store: sqliteStore({ path }),
      plugins: [subagents()],
      tools: [...tools],
      script: answering(answers),
    });
    const report = await life.session.turn("Go", { id: "t" }).result;
    expect(spawned(report.toolCalls[0]).text).toBe("Worked.");
    expect(ran).toEqual(["ls"]);
    expect((await life.runtime.sessions.list()).items).toHaveLength(2);
    expect(ledger(life.session)).toEqual(["subagent:worker default 30+2", "turn default 3+2"]);
  });

  test.each(["closed", "cut off"])(
    "[CT5] a child that waits for somebody outlives a process that was %s, and so does its parent",
    async (how) => {
      const path = database();
      const { tools, ran } = echo("shell");
      const options = {
        plugins: [subagents(), approvals({ rules })],
        tools: [...tools],
        script: answering(answers),
      };
      const first = await mortal({ store: sqliteStore({ path }), ...options });
      const left = first.session
        .turn("Go", { id: "t" })
        .result.catch((thrown: { readonly code: string }) => thrown.code);
      const asked = await question(first.runtime);
      const child = await first.runtime.session(asked.sessionId);
      await expect.poll(async () => (await child.pending())[0]?.status, { timeout: 10_000 }).toBe("parked");
      if (how === "closed") {
        await first.runtime.close();
        expect(await left).toBe("runtime_closed");
      } else await first.die();
      const life = await live({ store: sqliteStore({ path }), ...options });
      await life.runtime.approvals.decide(await question(life.runtime), { decision: "allow", actor: "ada" });
      const report = await life.session.turn("Go", { id: "t" }).result;
      expect(spawned(report.toolCalls[0])).toEqual({ sessionId: asked.sessionId, text: "Worked." });
      expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
      expect(ran).toEqual(["ls"]);
      expect(ledger(life.session)).toEqual(["subagent:worker default 30+2", "turn default 3+2"]);
    },
  );
});

// Questions to the person, answered while the runtime lives.

import type { Plugin, Runtime, ToolDefinition, TurnReport } from "marling";
import type { ScriptedModel } from "marling/testing";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { ask } from "../../../src/stock/tools/ask/ask.ts";
import {
  type AskedQuestion,
  type AskOptions,
  askTool,
  checkAnswer,
} from "../../../src/stock/tools/ask/ask-tool.ts";
import {
  failureOf,
  play,
  shownResults,
  stage,
  successOf,
  TestClock,
  until,
} from "../../kernel/tools-support.ts";

type Given = { readonly tools: readonly ToolDefinition[] } | { readonly plugins: readonly Plugin[] };

interface Turned {
  readonly report: TurnReport;
  readonly questions: readonly AskedQuestion[];
  readonly events: readonly string[];
  readonly model: ScriptedModel;
}

/** A turn that asks once, with what is done when the question comes. */
async function turned(
  args: object,
  {
    by = (options) => ({ plugins: [ask(options)] }),
    answer,
    ...options
  }: {
    readonly by?: (options: AskOptions) => Given;
    readonly answer: (runtime: Runtime, question: AskedQuestion) => unknown;
  } & Partial<AskOptions>,
): Promise<Turned> {
  const questions: AskedQuestion[] = [];
  const asking = { onQuestion: (question: AskedQuestion) => void questions.push(question), ...options };
  const { runtime, session, model } = await stage({
    ...by(asking),
    script: [callTool("ask", args), say("Done.")],
  });
  const played = play(session.turn("Go", { id: "t" }));
  await until(() => questions.length === 1, "the question");
  await answer(runtime, questions[0] as AskedQuestion);
  const { report, events } = await played;
  return { report, questions, model, events: events.map((event) => JSON.stringify(event)) };
}

const saying =
  (value: unknown) =>
  (runtime: Runtime, { key }: AskedQuestion) =>
    runtime.resolve(key, { ok: value });

test("[AS1] [AS2] the host is given the question and answers it, and the model reads the answer", async () => {
  const { report, questions, model } = await turned(
    { question: "Which colour?" },
    { answer: saying("Blue") },
  );
  expect(questions).toEqual([
    {
      sessionId: "s",
      turnId: "t",
      callId: "call_1",
      question: "Which colour?",
      other: false,
      key: expect.stringMatching(/^wait_[\w-]{22}$/),
    },
  ]);
  expect(successOf(report.toolCalls[0]?.output)).toBe("Blue");
  expect(shownResults(model)).toEqual(["Blue"]);
  expect(report.text).toBe("Done.");
});

test("[AS1] watchers see the question and that the call waits, and nobody but the host sees the key", async () => {
  const { events, questions, model, report } = await turned(
    { question: "Which?" },
    { answer: saying("Blue") },
  );
  expect(events).toContain('{"kind":"waiting","callId":"call_1","name":"ask"}');
  expect(events.some((event) => event.includes('"tool_started"') && event.includes("Which?"))).toBe(true);
  const told = [...events, JSON.stringify(model.requests), JSON.stringify(report)].join("\n");
  expect(told).not.toContain(questions[0]?.key);
});

test("[AS2] the first answer counts", async () => {
  const statuses: unknown[] = [];
  const { report } = await turned(
    { question: "Which?" },
    {
      answer: async (runtime, { key }) => {
        for (const value of ["Blue", "Red"]) statuses.push(await runtime.resolve(key, { ok: value }));
      },
    },
  );
  expect(statuses).toEqual(["resolved", "already_resolved"]);
  expect(successOf(report.toolCalls[0]?.output)).toBe("Blue");
});

test("[AS2] a host may say that there is no answer", async () => {
  const error = { code: "away", message: "Nobody is here." };
  const { report } = await turned(
    { question: "Which?" },
    { answer: (runtime, { key }) => runtime.resolve(key, { error }) },
  );
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject(error);
});

test.each([
  ["no text", 7],
  ["an empty text", ""],
  ["an object", { text: "Blue" }],
  ["a text that is too long", "x".repeat(11)],
])("[AS3] an answer that is %s fails the call", async (_what, value) => {
  const { report } = await turned({ question: "Which?" }, { answer: saying(value), maxAnswerChars: 10 });
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("invalid_tool_output");
  expect(report.outcome.kind).toBe("finished");
});

const CHOICES = { question: "Which?", choices: ["Blue", "Red"] };

test("[AS6] one of the choices is the answer", async () => {
  const { report, questions } = await turned(CHOICES, { answer: saying("Red") });
  expect(questions[0]?.choices).toEqual(["Blue", "Red"]);
  expect(successOf(report.toolCalls[0]?.output)).toBe("Red");
});

test("[AS6] with the plugin any other answer fails the call with what was expected", async () => {
  const { report } = await turned(CHOICES, { answer: saying("Green") });
  expect(failureOf(report.toolCalls[0]?.output)).toMatchObject({
    code: "invalid_answer",
    message: 'The answer was not one of those offered: expected one of "Blue", "Red", found "Green".',
  });
});

test("[AS6] other answers are fine when the question says so, and with the tool alone", async () => {
  const open = await turned({ ...CHOICES, other: true }, { answer: saying("Green") });
  expect(successOf(open.report.toolCalls[0]?.output)).toBe("Green");
  const alone = await turned(CHOICES, {
    answer: saying("Green"),
    by: (options) => ({ tools: [askTool(options)] }),
  });
  expect(successOf(alone.report.toolCalls[0]?.output)).toBe("Green");
});

test.each<[Parameters<typeof checkAnswer>[0], unknown, string | undefined]>([
  [{}, "x", undefined],
  [{ choices: [] }, "x", undefined],
  [{ choices: ["a"] }, "a", undefined],
  [{ choices: ["a"], other: true }, "b", undefined],
  [{ choices: ["a", "b"] }, "A", 'expected one of "a", "b", found "A"'],
  [{}, " ", "expected a text, found none"],
  [{}, 1, "expected a text, found none"],
])("[AS6] checkAnswer(%j, %j): %s", (question, answer, expected) => {
  expect(checkAnswer(question, answer)).toBe(expected);
});

test("[AS4] a question that nobody answers in time fails the call, and the turn goes on", async () => {
  const clock = new TestClock();
  const { session } = await stage({
    clock,
    tools: [askTool({ onQuestion: () => undefined, timeoutMs: 500 })],
    script: [callTool("ask", { question: "Which?" }), say("Done.")],
  });
  const turn = session.turn("Go");
  await until(() => clock.pending > 0, "the wait");
  clock.advance(500);
  const { toolCalls, text } = await turn.result;
  expect(failureOf(toolCalls[0]?.output)).toMatchObject({
    code: "tool_completion_timeout",
    class: "timeout",
  });
  expect(text).toBe("Done.");
});

test("[AS5] a question that cannot be delivered fails the call without saying where it went wrong", async () => {
  const { session } = await stage({
    plugins: [
      ask({
        onQuestion: async () => {
          throw new Error("connect to 10.0.0.1 with password hunter2");
        },
      }),
    ],
    script: [callTool("ask", { question: "Which?" }), say("Done.")],
  });
  const { toolCalls } = await session.turn("Go").result;
  expect(failureOf(toolCalls[0]?.output)).toMatchObject({
    code: "question_not_delivered",
    class: "unavailable",
    message:
      "The question could not be brought to the person. Go on without an answer, or say what is missing.",
  });
});

test("[AS2] a cancelled turn withdraws the question", async () => {
  const keys: string[] = [];
  const { session, runtime } = await stage({
    tools: [askTool({ onQuestion: ({ key }) => void keys.push(key) })],
    script: [callTool("ask", { question: "Which?" })],
  });
  const turn = session.turn("Go");
  await until(() => keys.length === 1);
  await session.cancel(turn.id);
  expect((await turn.result).outcome).toMatchObject({ kind: "stopped", reason: "cancelled" });
  expect(await runtime.resolve(keys[0] ?? "", { ok: "Blue" })).toBe("already_resolved");
});

test.each<[Partial<AskOptions>, string]>([
  [{}, "onQuestion"],
  [{ onQuestion: () => undefined, timeoutMs: 0 }, "timeoutMs"],
  [{ onQuestion: () => undefined, maxAnswerChars: 1.5 }, "maxAnswerChars"],
])("[AS1] options %j are refused by name", (options, option) => {
  for (const make of [askTool, ask])
    expect(() => make(options as AskOptions)).toThrow(
      expect.objectContaining({ code: "invalid_options", details: { option } }),
    );
});

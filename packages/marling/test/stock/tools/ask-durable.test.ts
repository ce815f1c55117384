// Questions that outlive the process that asked them.

import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { ask } from "../../../src/stock/tools/ask/ask.ts";
import type { AskedQuestion } from "../../../src/stock/tools/ask/ask-tool.ts";
import { mortal } from "../../kernel/durable-support.ts";
import {
  answering,
  type Desk,
  database,
  desk,
  parked,
  transcript,
  until,
  worker,
} from "../../kernel/parked-support.ts";
import { failureOf, successOf } from "../../kernel/tools-support.ts";

const ANSWERS = {
  Go: [callTool("ask", { question: "Which?", choices: ["Blue", "Red"] }), say("Done.")],
  Both: [
    callTools([
      ["ask", { question: "One?" }],
      ["ask", { question: "Two?" }],
    ]),
    say("Done."),
  ],
};

interface Asked extends Desk {
  readonly questions: AskedQuestion[];
}

async function asking(path: string, questions: AskedQuestion[] = []): Promise<Asked> {
  const plugins = [ask({ onQuestion: (question) => void questions.push(question) })];
  return { ...(await desk(path, { answers: ANSWERS, plugins })), questions };
}

test("[AS2] a question that was asked before the runtime closed is answered in a new one", async () => {
  const path = database();
  const first = await asking(path);
  first.session.turn("Go", { id: "t" });
  await parked(first.session);
  const [question] = first.questions;
  await first.runtime.close();

  const second = await asking(path);
  expect(await second.runtime.resolve(question?.key ?? "", { ok: "Red" })).toBe("resolved");
  const report = await second.session.turn("Go", { id: "t" }).result;
  expect(successOf(report.toolCalls[0]?.output)).toBe("Red");
  expect(report.text).toBe("Done.");
  expect(second.questions).toEqual([]);
  expect(await transcript(second.session)).toEqual([
    "user: Go",
    `assistant calls ask ${question?.callId}`,
    `tool ${question?.callId}: Red`,
    "assistant: Done.",
  ]);
});

test("[AS6] the choices are checked in the new one too", async () => {
  const path = database();
  const first = await asking(path);
  first.session.turn("Go", { id: "t" });
  await parked(first.session);
  await first.runtime.close();
  const second = await asking(path);
  await second.runtime.resolve(first.questions[0]?.key ?? "", { ok: "Green" });
  const { toolCalls } = await second.session.turn("Go", { id: "t" }).result;
  expect(failureOf(toolCalls[0]?.output).code).toBe("invalid_answer");
});

test("[AS2] an answer that comes while no runtime lives in this process is found by the one that goes on", async () => {
  const path = database();
  const first = await asking(path);
  first.session.turn("Go", { id: "t" });
  await parked(first.session);
  await first.runtime.close();
  const door = worker(path);
  expect(await door.runtime.resolve(first.questions[0]?.key ?? "", { ok: "Blue" })).toBe("resolved");
  await door.runtime.close();
  const third = await asking(path);
  const { toolCalls } = await third.session.turn("Go", { id: "t" }).result;
  expect(successOf(toolCalls[0]?.output)).toBe("Blue");
});

test("[AS2] two questions of one round are answered in any order", async () => {
  const path = database();
  const first = await asking(path);
  first.session.turn("Both", { id: "t" });
  await parked(first.session);
  await first.runtime.close();
  const second = await asking(path);
  const keyOf = (wanted: string): string =>
    first.questions.find(({ question }) => question === wanted)?.key ?? "";
  await second.runtime.resolve(keyOf("Two?"), { ok: "2" });
  await second.runtime.resolve(keyOf("One?"), { ok: "1" });
  const { toolCalls } = await second.session.turn("Both", { id: "t" }).result;
  expect(toolCalls.map(({ output }) => successOf(output))).toEqual(["1", "2"]);
});

test("[AS5] a question that a crash cut is delivered again, and either key answers it", async () => {
  const path = database();
  const cut: AskedQuestion[] = [];
  const stuck = [
    ask({
      onQuestion: (question) => {
        cut.push(question);
        return new Promise(() => undefined);
      },
    }),
  ];
  const first = await mortal({
    store: sqliteStore({ path }),
    plugins: stuck,
    script: answering(ANSWERS),
  });
  first.session.turn("Go", { id: "t" });
  await until(() => cut.length === 1);
  await first.die();

  const second = await asking(path);
  const turn = second.session.turn("Go", { id: "t" });
  await until(() => second.questions.length === 1);
  expect(second.questions[0]).toMatchObject({ callId: cut[0]?.callId, question: "Which?" });
  expect(second.questions[0]?.key).not.toBe(cut[0]?.key);
  expect(await second.runtime.resolve(cut[0]?.key ?? "", { ok: "Blue" })).toBe("resolved");
  expect(successOf((await turn.result).toolCalls[0]?.output)).toBe("Blue");
  expect(await second.runtime.resolve(second.questions[0]?.key ?? "", { ok: "Red" })).toBe(
    "already_resolved",
  );
});

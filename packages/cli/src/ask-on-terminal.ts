// What `marling run` asks in the middle of a turn, on the terminal.

import { createInterface } from "node:readline/promises";
import type { ApprovalQuestion } from "marling";
import type { AskedQuestion } from "marling/tools";
import type { Environment } from "./environment.ts";
import { plainText } from "./plain-text.ts";
import { argsLines } from "./tool-text.ts";

/** Whether a call may run. Anything but y or yes is a no. */
export async function askOnTerminal(
  environment: Environment,
  { toolName, args }: ApprovalQuestion,
): Promise<boolean> {
  const lines = argsLines(args).map((line) => `    ${line}\n`);
  environment.stderr.write(`? ${plainText(toolName)} asks for permission\n${lines.join("")}`);
  const answer = await readLine(environment, "  allow it? [y/N] ");
  return /^y(?:es)?$/i.test(answer);
}

/** The answer to what the model asks. */
export async function readAnswer(
  environment: Environment,
  { question, choices = [] }: AskedQuestion,
): Promise<string> {
  const lines = choices.map((choice, at) => `    ${at + 1}  ${plainText(choice)}\n`);
  environment.stderr.write(`? ${plainText(question)}\n${lines.join("")}`);
  return readLine(environment, "  your answer: ");
}

/** One line; nothing when the input has ended. */
async function readLine({ stdin, stderr }: Environment, prompt: string): Promise<string> {
  const reader = createInterface({ input: stdin });
  stderr.write(prompt);
  try {
    const { value } = await reader[Symbol.asyncIterator]().next();
    return typeof value === "string" ? value.trim() : "";
  } finally {
    reader.close();
  }
}

// A question to the person: the turn sleeps until somebody answers, whichever process they answer to.
//   AS1  the host is given the question with the key that answers it, before the turn sleeps; nobody else sees the key.
//   AS2  the answer comes through `runtime.resolve`, in this process or a later one, and is the result of the call.
//   AS3  an answer is a text within the limit; anything else fails the call.
//   AS4  a question that nobody answers in time is a failed call, and the turn goes on.
//   AS5  a question that cannot be delivered is a failed call. One that a crash cut is delivered again, with another key
//        for the same answer.

import {
  defineTool,
  type JsonObject,
  MarlingError,
  type ToolContext,
  type ToolDefinition,
  toolFailure,
} from "../../../index.ts";

/** A question as the host is given it. */
export interface AskedQuestion {
  readonly sessionId: string;
  readonly turnId: string;
  /** The same for a question that is delivered again. */
  readonly callId: string;
  readonly question: string;
  /** The answers to choose from; without any the answer is free. */
  readonly choices?: readonly string[];
  /** Whether another answer than the choices is fine. */
  readonly other: boolean;
  /** Answers the question, once: `runtime.resolve(key, { ok: answer })`. Keep it as a secret, where restarts find it. */
  readonly key: string;
}

export interface AskOptions {
  /** Takes a question to the person. The turn sleeps when this is done; what it throws fails the call. */
  readonly onQuestion: (question: AskedQuestion) => void | Promise<void>;
  /** How long the person has; without it, for ever. */
  readonly timeoutMs?: number;
  /** The longest answer, in characters. Default: 20 000. */
  readonly maxAnswerChars?: number;
}

interface AskInput {
  readonly question: string;
  readonly choices?: readonly string[];
  readonly other?: boolean;
}

export const ASK_TOOL = "ask";
const MOST_CHOICES = 20;
const LONGEST_QUESTION = 20_000;

/** The tool `ask`. Choices are for the host to check, with `checkAnswer`; the plugin `ask` checks them too. */
export function askTool(options: AskOptions): ToolDefinition {
  const { timeoutMs, maxAnswerChars = 20_000 } = options;
  refuseWrong(options);
  return defineTool({
    name: ASK_TOOL,
    description:
      "Asks the person a question and returns the answer. Use it when something is theirs to decide or only they know it; the work stops until they answer.",
    input: INPUT,
    output: { type: "string", minLength: 1, maxLength: maxAnswerChars },
    replay: "safe",
    execute: async (raw, ctx) => {
      const input = raw as unknown as AskInput; // checked by the schema
      const failure = await deliver(input, options, ctx);
      return failure ?? ctx.pending(timeoutMs === undefined ? {} : { deadlineMs: timeoutMs });
    },
  });
}

/** What is wrong with an answer, or nothing. For hosts, before they resolve: the first value that is given counts. */
export function checkAnswer(
  { choices, other = false }: Pick<AskInput, "choices" | "other">,
  answer: unknown,
): string | undefined {
  if (typeof answer !== "string" || answer.trim() === "") return "expected a text, found none";
  if (choices === undefined || choices.length === 0 || other || choices.includes(answer)) return undefined;
  return `expected one of ${choices.map((choice) => JSON.stringify(choice)).join(", ")}, found ${JSON.stringify(answer.slice(0, 200))}`;
}

async function deliver(
  { question, choices, other = false }: AskInput,
  { onQuestion }: AskOptions,
  ctx: ToolContext,
): Promise<ReturnType<typeof toolFailure> | undefined> {
  const { sessionId, turnId, callId } = ctx;
  const key = await ctx.completionKey();
  const offered = choices === undefined || choices.length === 0 ? {} : { choices };
  try {
    await onQuestion({ sessionId, turnId, callId, question, ...offered, other, key });
    return undefined;
  } catch {
    // What the host threw is for its own log: it may name places and people.
    return toolFailure({
      code: "question_not_delivered",
      class: "unavailable",
      message:
        "The question could not be brought to the person. Go on without an answer, or say what is missing.",
    });
  }
}

const INPUT: JsonObject = {
  type: "object",
  required: ["question"],
  additionalProperties: false,
  properties: {
    question: { type: "string", minLength: 1, maxLength: LONGEST_QUESTION, description: "The question." },
    choices: {
      type: "array",
      maxItems: MOST_CHOICES,
      uniqueItems: true,
      items: { type: "string", minLength: 1, maxLength: 500 },
      description: "The answers to choose from. Without any the person answers freely.",
    },
    other: {
      type: "boolean",
      description: "Whether another answer than the choices is fine. By default not.",
    },
  },
};

function refuseWrong({ onQuestion, timeoutMs, maxAnswerChars }: Partial<AskOptions> = {}): void {
  if (typeof onQuestion !== "function") throw refuse("onQuestion", "a function", typeof onQuestion);
  for (const [option, value] of Object.entries({ timeoutMs, maxAnswerChars }))
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 1))
      throw refuse(option, "a whole number from 1", value);
}

function refuse(option: string, expected: string, found: unknown): MarlingError {
  const message = `ask: option ${option}: expected ${expected}, found ${String(found)}`;
  return new MarlingError("invalid_options", message, { details: { option } });
}

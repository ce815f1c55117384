// What the demo agent says: a script that looks for a few words in what the user typed. It never pretends to be a model.
//   DS1  it sees only what a model would be sent, and always says the same to the same conversation.
//   DS2  what the user says while it works is taken up at the next step.

import type { ModelMessage } from "marling";

export type DemoStep =
  | { readonly kind: "say"; readonly text: string; readonly thought?: string }
  | {
      readonly kind: "call";
      readonly thought: string;
      readonly calls: readonly (readonly [name: string, args: Readonly<Record<string, unknown>>])[];
    };

interface Intent {
  readonly pattern: RegExp;
  step(found: RegExpExecArray, turn: CurrentTurn): DemoStep;
}

/** What was said and done since the last answer. */
interface CurrentTurn {
  readonly said: readonly string[];
  readonly results: readonly { readonly name: string; readonly text: string; readonly isError: boolean }[];
}

const HELP = [
  "I am a script, not a language model: I look for a few words in what you type. The tools, the store, the hooks and the streaming are real.",
  "",
  "Try one of these:",
  "  list files                what is in this folder",
  "  read package.json         the beginning of a file",
  "  count words in README.md  a tool counts them",
  "  calculate (17 + 4) * 2    a tool does the sum",
  "  remember that tea is green, then: what do you remember?",
  "  note buy tea              asks you before it writes",
  "  work slowly               to steer, queue behind or cancel",
  "  read .env                 a hook refuses this one",
  "",
  "For a real model set ANTHROPIC_API_KEY, OPENAI_API_KEY, GOOGLE_GENERATIVE_AI_API_KEY or OPENAI_BASE_URL.",
].join("\n");

const DEFAULT_STEPS = 4;
const MOST_STEPS = 20;

const INTENTS: readonly Intent[] = [
  {
    pattern: /\b(?:count|how many)\b.*?\bwords?\b(?:.*?\bin\b)?\s+["'`]?([\w./-]+\.\w+)/i,
    step: ([, path]) => call("count_words", { path }, `The words in ${path}: the tool can count them.`),
  },
  {
    pattern: /\b(?:calculate|compute|what is|what's)\s+([-+*/(). \d]*\d[-+*/(). \d]*)/i,
    step: ([, sum = ""]) =>
      call("calculate", { expression: sum.trim() }, "A sum: I had better not do it in my head."),
  },
  {
    pattern: /\bwhat\b.*\bremember\b|\brecall\b/i,
    step: () => call("recall", {}, "What I was told to remember is in the session."),
  },
  {
    pattern: /\bremember\b(?: that)?\s+(.+)/i,
    step: ([, fact = ""]) => call("remember", { fact: fact.trim() }, "Something to keep."),
  },
  {
    pattern: /\bnote\b:?\s+(.+)/i,
    step: ([, text = ""]) =>
      call("write_note", { text: text.trim() }, "This writes a file, so I have to ask."),
  },
  {
    pattern: /\b(?:slow(?:ly)?|long work|work)\b/i,
    step: (_found, turn) => slowStep(turn),
  },
  {
    pattern: /\b(?:list|show|what)\b.*\b(?:files?|folder|directory|here)\b|^ls\b/i,
    step: (found) => {
      const path = /\b(?:in|of)\s+["'`]?([\w./-]+)/i.exec(found.input)?.[1];
      const isHere = path === undefined || /^(?:this|the|here)$/i.test(path);
      return call("list_files", isHere ? {} : { path }, "The folder will tell.");
    },
  },
  {
    pattern: /\b(?:read|open|cat|show)\s+["'`]?([\w./-]+)/i,
    step: ([, path]) => call("read_file", { path }, `Let me look at ${path}.`),
  },
];

/** The next step of the script for a conversation. */
export function demoStep(messages: readonly ModelMessage[]): DemoStep {
  const turn = currentTurn(messages);
  const { said, results } = turn;
  const [first = ""] = said;
  const asked = withSigns(first);
  const isWork = results.length > 0 && results.every(({ name }) => name === "slow_work");
  if (isWork) return slowStep(turn);
  if (results.length > 0) return answer(turn);
  for (const { pattern, step } of INTENTS) {
    const found = pattern.exec(asked);
    if (found !== null) return step(found, turn);
  }
  return {
    kind: "say",
    text: /\b(?:help|hello|hi|hey)\b/i.test(asked) ? HELP : `I have no line for that.\n\n${HELP}`,
  };
}

const SIGNS: readonly (readonly [RegExp, string])[] = [
  [/(?<=\d\)*\s)(?:plus|and)(?=\s\(*\d)/gi, "+"],
  [/(?<=\d\)*\s)minus(?=\s\(*\d)/gi, "-"],
  [/(?<=\d\)*\s)(?:times|x)(?=\s\(*\d)/gi, "*"],
  [/(?<=\d\)*\s)(?:divided by|over)(?=\s\(*\d)/gi, "/"],
];

/** Sums that are written in words, with the signs that the tool reads. */
function withSigns(words: string): string {
  return SIGNS.reduce((text, [word, sign]) => text.replace(word, sign), words);
}

function call(name: string, args: Readonly<Record<string, unknown>>, thought: string): DemoStep {
  return { kind: "call", calls: [[name, args]], thought };
}

/** One step of slow work after another, as many as were asked for last; `stop` ends it. */
function slowStep({ said, results }: CurrentTurn): DemoStep {
  const steering = said.slice(1);
  const wanted = said.map(stepsIn).findLast((steps) => steps !== undefined) ?? DEFAULT_STEPS;
  const isStopped = steering.some((words) => /\b(?:stop|enough|finish)\b/i.test(words));
  const done = results.length;
  if (done < wanted && !isStopped)
    return call(
      "slow_work",
      { step: done + 1, of: wanted },
      done === 0 ? "One step at a time." : "The next step.",
    );
  const heard =
    steering.length === 0 ? "" : ` You said meanwhile: ${steering.map((words) => `"${words}"`).join(", ")}.`;
  return { kind: "say", text: `Done: ${done} ${done === 1 ? "step" : "steps"} of slow work.${heard}` };
}

function stepsIn(words: string): number | undefined {
  const found = /\b(\d{1,2})\b/.exec(words)?.[1];
  return found === undefined ? undefined : Math.min(MOST_STEPS, Math.max(1, Number(found)));
}

const INTROS: Readonly<Record<string, string>> = {
  list_files: "Here is what I found:",
  read_file: "It begins like this:",
  recall: "This is what I was told:",
};

function answer({ said, results }: CurrentTurn): DemoStep {
  const told = results.map(({ name, text, isError }) => {
    if (isError) return `That did not work: ${text.replace(/^\[tool failed\]\s*/, "")}`;
    const intro = INTROS[name];
    return intro === undefined ? text : `${intro}\n\n${indent(text)}`;
  });
  const heard = said.slice(1).map((words) => `You also said: "${words}".`);
  return { kind: "say", text: [...told, ...heard].join("\n\n") };
}

function indent(text: string): string {
  return text
    .split("\n")
    .map((line) => `  ${line}`)
    .join("\n");
}

function currentTurn(messages: readonly ModelMessage[]): CurrentTurn {
  const since = messages.slice(messages.findLastIndex(isEnd) + 1);
  const first = since.findIndex(({ role }) => role === "assistant");
  const before = since.slice(0, first === -1 ? since.length : first).filter(({ role }) => role === "user");
  const behind = since.slice(first === -1 ? since.length : first).filter(({ role }) => role === "user");
  return {
    // What was said before that and never answered belongs to a turn that was cancelled.
    said: [...before.slice(-1), ...behind].map(wordsOf),
    results: since
      .flatMap(({ parts }) => parts)
      .flatMap((part) =>
        part.kind === "tool_result"
          ? [{ name: part.name, text: part.text, isError: part.isError === true }]
          : [],
      ),
  };
}

/** A turn ends with an answer, or with a call that was cancelled. */
function isEnd({ role, parts }: ModelMessage): boolean {
  if (role === "assistant") return !parts.some(({ kind }) => kind === "tool_call");
  return parts.some((part) => part.kind === "tool_result" && /\bcancelled\b/.test(part.text));
}

function wordsOf({ parts }: ModelMessage): string {
  return parts.map((part) => (part.kind === "text" || part.kind === "prose" ? part.text : "")).join(" ");
}

// `marling run`: one turn without a screen. Prose to stdout, activity to stderr, the outcome as exit code.
//   RU1  stdout has the words of the model and nothing else; into a pipe, only words that hold.
//   RU2  a call that asks is decided by --approve, by the terminal, or denied with a sentence that says so.
//   RU3  SIGINT and SIGTERM cancel the turn, durably; a second one ends the process.

import { fstatSync } from "node:fs";
import type { ApprovalQuestion, Session, Turn, TurnReport } from "marling";
import { type Agent, openAgent } from "../agent.ts";
import { askOnTerminal, readAnswer } from "../ask-on-terminal.ts";
import type { CommandLine } from "../command-line.ts";
import type { Environment } from "../environment.ts";
import { EXIT, exitCodeOf } from "../exit-code.ts";
import { AGENT_FLAGS } from "../flags.ts";
import { QuestionWatch } from "../question.ts";
import { jsonPrinter, type RunPrinter, textPrinter } from "../run-printer.ts";
import { newSessionName } from "../session-name.ts";
import { readSettings, type Settings } from "../settings.ts";
import { chooseStyle } from "../style.ts";
import { usageError } from "../usage-error.ts";
import type { Command } from "./command.ts";

export const runCommand: Command = {
  name: "run",
  summary: "one turn: prose to stdout, activity to stderr",
  args: '"what to do"',
  mostArgs: Number.POSITIVE_INFINITY,
  flags: ["session", "json", ...AGENT_FLAGS],
  notes: `What is piped in is added below the words, or is the whole input when there are none.
Without a terminal a tool that asks is denied, unless --yes or --approve says otherwise.

Exit codes: 0 finished, 1 stopped, 2 called wrongly, 3 failed, 130 cancelled.`,
  run,
};

const STDIN_NOTE_MS = 3_000;

async function run(environment: Environment, line: CommandLine): Promise<number> {
  const { env, cwd, stdout, stderr } = environment;
  const settings = readSettings(environment, line);
  const style = chooseStyle({ isTerminal: stderr.isTTY === true, env });
  const input = await readInput(environment, line);
  const printer = line.flags.json === true ? jsonPrinter(stdout) : textPrinter({ stdout, stderr, style });
  const agent = await openAgent({ settings, env, cwd, canAsk: isAttended(environment) });
  const name = line.flags.session ?? newSessionName("run");
  for (const note of settings.notes) stderr.write(`${style.dim(note)}\n`);
  stderr.write(`${style.dim(`model: ${agent.model}`)}\n${style.dim(`session: ${name}`)}\n`);
  try {
    const session = await agent.open(name);
    const turn = session.turn(input);
    await turn.accepted;
    const report = await drive({ environment, settings, agent, session, turn, printer });
    printer.end(report);
    return exitCodeOf(report);
  } finally {
    await agent.close();
  }
}

interface Driving {
  readonly environment: Environment;
  readonly settings: Settings;
  readonly agent: Agent;
  readonly session: Session;
  readonly turn: Turn;
  readonly printer: RunPrinter;
}

async function drive(driving: Driving): Promise<TurnReport> {
  const { environment, agent, session, turn, printer } = driving;
  let signals = 0;
  const off = environment.onSignal((signal) => {
    signals += 1;
    if (signals > 1) environment.exit(EXIT.cancelled);
    session.cancel(turn.id, `cancelled by ${signal}`).catch(() => environment.exit(EXIT.failed));
  });
  const fail = (thrown: unknown): void => void session.cancel(turn.id, String(thrown));
  const watch = watchQuestions(driving, fail);
  agent.asks.listen(() => void answerAsks(driving).catch(fail));
  watch.start();
  try {
    for await (const event of turn) {
      printer.event(event);
      if (event.kind === "waiting") watch.hurry();
    }
    return await turn.result;
  } finally {
    watch.stop();
    off();
  }
}

/** Decides about calls that ask, one after the other. */
function watchQuestions(driving: Driving, onFailure: (thrown: unknown) => void): QuestionWatch {
  const { agent, session } = driving;
  let last: Promise<void> = Promise.resolve();
  const watch = new QuestionWatch(agent.runtime, session.id, {
    asked: (question) => {
      last = last.then(() => decide(driving, question)).catch(onFailure);
    },
    gone: () => undefined,
    failed: onFailure,
  });
  return watch;
}

async function decide(driving: Driving, question: ApprovalQuestion): Promise<void> {
  const { decision, reason } = await verdict(driving, question);
  await driving.agent.runtime.approvals.decide(question, {
    decision,
    actor: "marling run",
    ...(reason === undefined ? {} : { reason }),
  });
}

const NOBODY =
  "Nobody can be asked: marling runs without a terminal. The user can allow it with --yes or --approve all.";

async function verdict(
  { environment, settings, printer }: Driving,
  question: ApprovalQuestion,
): Promise<{ readonly decision: "allow" | "deny"; readonly reason?: string }> {
  if (settings.approve === "all") return { decision: "allow" };
  if (settings.approve === "none" || !isAttended(environment)) {
    printer.note(`${question.toolName} was denied: ${NOBODY}`);
    return { decision: "deny", reason: NOBODY };
  }
  const isAllowed = await askOnTerminal(environment, question);
  return isAllowed ? { decision: "allow" } : { decision: "deny", reason: "The user denied the call." };
}

/** Whether somebody sits in front of it. */
function isAttended({ stdin, stderr }: Environment): boolean {
  return stdin.isTTY === true && stderr.isTTY === true;
}

/** Puts what the model asks to the person, until an answer fits. */
async function answerAsks({ environment, agent, session }: Driving): Promise<void> {
  for (const asked of agent.asks.of(session.id)) {
    let wrong: string | undefined = "";
    while (wrong !== undefined) {
      if (wrong !== "") environment.stderr.write(`${wrong}\n`);
      wrong = await agent.asks.answer(agent.runtime, asked, await readAnswer(environment, asked));
    }
  }
}

/** The words of the command line, with what is piped in below them. */
async function readInput({ stdin, stderr }: Environment, { args }: CommandLine): Promise<string> {
  const words = args.join(" ").trim();
  const piped = isPiped(stdin.isTTY === true) ? (await readAll(stdin, stderr)).trim() : "";
  const input = [words, piped].filter((part) => part !== "").join("\n\n");
  if (input === "")
    throw usageError("run", "expected something to do, as an argument or piped in, found nothing");
  return input;
}

/** Something was put in place of the terminal that can be read to its end: a pipe or a file. */
function isPiped(isTerminal: boolean): boolean {
  if (isTerminal) return false;
  try {
    const stat = fstatSync(0);
    return stat.isFIFO() || stat.isFile() || stat.isSocket();
  } catch {
    return false; // There is no stdin.
  }
}

async function readAll(stdin: Environment["stdin"], stderr: Environment["stderr"]): Promise<string> {
  const note = setTimeout(
    () => stderr.write("waiting for stdin to end; `< /dev/null` when there is nothing to pipe in\n"),
    STDIN_NOTE_MS,
  );
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of stdin) chunks.push(Buffer.from(chunk as Uint8Array));
  } finally {
    clearTimeout(note);
  }
  return Buffer.concat(chunks).toString("utf8");
}

// `marling chat`: opens the agent, the session and the terminal.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { MarlingError } from "marling";
import { type Agent, openAgent } from "../agent.ts";
import { Chat } from "../chat/chat.ts";
import type { CommandLine } from "../command-line.ts";
import type { Environment } from "../environment.ts";
import { EXIT } from "../exit-code.ts";
import { AGENT_FLAGS } from "../flags.ts";
import { newSessionName } from "../session-name.ts";
import { readSettings, type Settings } from "../settings.ts";
import { usageError } from "../usage-error.ts";
import type { Command } from "./command.ts";

export const chatCommand: Command = {
  name: "chat",
  summary: "talk to the agent in this terminal",
  args: "[name]",
  mostArgs: 1,
  flags: ["resume", "session", ...AGENT_FLAGS],
  notes: `--resume goes on with the session named after it, or with the latest; a turn that was interrupted is finished first.
Enter sends or steers the turn that runs, Tab queues for the next turn, Esc cancels, Ctrl-C twice quits. /help lists the rest.`,
  run: runChat,
};

async function runChat(environment: Environment, line: CommandLine): Promise<number> {
  const { stdin, stdout, env, cwd } = environment;
  if (stdin.isTTY !== true || stdout.isTTY !== true)
    throw usageError("chat", "expected a terminal, found none; `marling run` needs none");
  const settings = readSettings(environment, line);
  for (const note of settings.notes) stdout.write(`${note}\n`);
  const open = (model = settings.model): Promise<Agent> =>
    openAgent({ settings: { ...settings, model }, env, cwd, canAsk: true });
  const name = sessionName(settings, line);
  const agent = await open();
  if (line.flags.resume === true && !(await agent.runtime.sessions.exists(name))) {
    await agent.close();
    const message = `session ${name}: expected one that exists in ${settings.store}, found none`;
    throw new MarlingError("unknown_session", message, { details: { sessionId: name } });
  }
  const session = await agent.open(name);
  const onSession = (latest: string): void => remember(settings, latest);
  onSession(name);
  const chat = new Chat({ environment, agent, session, openAgent: open, onSession });
  const isIdle = await chat.run();
  const { id } = chat.session;
  stdout.write(
    `\n${isIdle ? "" : "The turn goes on when you resume. "}${env.MARLING_COMMAND ?? "marling"} chat --resume ${id}\n`,
  );
  if (!isIdle) return environment.exit(EXIT.finished);
  await chat.agent.close();
  return EXIT.finished;
}

function sessionName(settings: Settings, { flags, args }: CommandLine): string {
  const [named] = args;
  if (flags.resume !== true) {
    if (named !== undefined)
      throw usageError("chat", `expected --resume before ${named}, or --session ${named}`);
    return flags.session ?? newSessionName("chat");
  }
  const name = named ?? flags.session ?? latest(settings);
  if (name === undefined)
    throw usageError("chat", `--resume: expected a session in ${settings.store}, found none so far`);
  return name;
}

/** The latest session of a store is kept beside it. */
function latest({ store }: Settings): string | undefined {
  const name = existsSync(`${store}.latest`) ? readFileSync(`${store}.latest`, "utf8").trim() : "";
  return name === "" ? undefined : name;
}

function remember({ store }: Settings, name: string): void {
  mkdirSync(dirname(store), { recursive: true });
  writeFileSync(`${store}.latest`, `${name}\n`);
}

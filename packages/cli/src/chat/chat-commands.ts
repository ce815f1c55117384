// What can be typed after a slash.

import type { Message } from "marling";
import { counted, short } from "../usage-line.ts";
import type { Chat } from "./chat.ts";

export interface ChatCommand {
  readonly args?: string;
  readonly help: string;
  run(chat: Chat, argument: string): Promise<void> | void;
}

const SHOWN_MESSAGES = 20;

export const CHAT_COMMANDS: Readonly<Record<string, ChatCommand>> = {
  help: { help: "this list", run: (chat) => chat.table(helpRows()) },
  history: {
    args: "[n]",
    help: "what was said in this session",
    run: (chat, argument) => chat.showHistory(Number(argument) || SHOWN_MESSAGES),
  },
  usage: { help: "what this session has used, by model", run: showUsage },
  tools: { help: "the tools the model has", run: showTools },
  model: {
    args: "[provider/name]",
    help: "which model answers; with a name, another one from now on",
    run: (chat, argument) =>
      argument === "" ? chat.say(`The model is ${chat.agent.model}.`) : chat.changeModel(argument),
  },
  approve: {
    args: "[always]",
    help: "let the call run that asks",
    run: (chat, argument) => chat.decide("allow", argument === "always"),
  },
  deny: { help: "refuse the call that asks", run: (chat) => chat.decide("deny", false) },
  plan: {
    args: "[on|off]",
    help: "plan mode: look and think, change nothing",
    run: (chat, argument) => chat.plan(argument),
  },
  compact: {
    args: "[what to keep]",
    help: "make the beginning of the session shorter",
    run: compact,
  },
  fork: {
    args: "[name]",
    help: "go on in a copy; this session stays as it is",
    run: (chat, argument) => chat.fork(argument),
  },
  sessions: { help: "the sessions of this store", run: showSessions },
  resume: {
    args: "<name>",
    help: "go on with another session",
    run: (chat, argument) => chat.switchTo(argument),
  },
  clear: { help: "wipe the screen", run: (chat) => chat.clear() },
  quit: { help: "leave; a turn that runs goes on when you resume", run: (chat) => chat.quit() },
};

const KEYS: readonly (readonly [string, string])[] = [
  ["Enter", "send; while a turn runs: steer it"],
  ["Tab", "queue for the next turn"],
  ["Esc", "cancel the turn that runs"],
  ["Alt-Enter, Ctrl-J", "a new line"],
  ["Up, Down", "what you sent before; Up takes back what waits"],
  ["Ctrl-C twice", "quit; the first cancels"],
];

/** The words of a message. */
export function messageText({ parts }: Message): string {
  return parts
    .map((part) => (part.kind === "text" || part.kind === "prose" ? part.text : ""))
    .filter((text) => text !== "")
    .join("\n");
}

function helpRows(): readonly (readonly [string, string])[] {
  const commands = Object.entries(CHAT_COMMANDS).map(
    ([name, { args, help }]) => [`/${name}${args === undefined ? "" : ` ${args}`}`, help] as const,
  );
  return [...commands, ["", ""], ...KEYS];
}

function showUsage(chat: Chat): void {
  const { entries } = chat.session.usage();
  if (entries.length === 0) return void chat.say("Nothing was used so far.");
  const lines = entries.map(({ source, model, usage }) => {
    const sent = usage.input + usage.cacheRead + usage.cacheWrite;
    return `${source} · ${model}: ${short(sent)} in (${short(usage.cacheRead)} cached), ${short(usage.output)} out`;
  });
  chat.say(lines.join("\n"));
}

function showTools(chat: Chat): void {
  const tools = chat.session.tools.list();
  if (tools.length === 0) return void chat.say("The model has no tools.");
  chat.table(tools.map(({ name, description }) => [name, description.split("\n")[0] ?? ""]));
}

async function compact(chat: Chat, argument: string): Promise<void> {
  const isDone = await chat.session.compact(argument === "" ? undefined : argument);
  const { messages } = chat.session.read();
  chat.say(
    isDone
      ? `Compacted: the model now sees ${counted(messages.length, "message")}. The history is whole.`
      : "There was nothing to make shorter.",
  );
}

async function showSessions(chat: Chat): Promise<void> {
  const { items } = await chat.agent.runtime.sessions.list({});
  const lines = items.map(
    ({ id, turnIndex }) => `${id === chat.session.id ? "*" : " "} ${id}  ${counted(turnIndex, "turn")}`,
  );
  chat.say(lines.join("\n"));
}

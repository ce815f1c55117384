// `marling sessions`, `show`, `fork`, `delete` and `recover`: the store without a chat.

import type { Message } from "marling";
import { openAgent } from "../agent.ts";
import type { CommandLine } from "../command-line.ts";
import type { Environment, OutputStream } from "../environment.ts";
import { EXIT } from "../exit-code.ts";
import { adoptOlder } from "../own-sessions.ts";
import { readSettings, type Settings } from "../settings.ts";
import { listSessions, readTranscript, withStore } from "../stored-sessions.ts";
import { chooseStyle } from "../style.ts";
import { Transcript } from "../transcript.ts";
import { usageError } from "../usage-error.ts";
import { counted } from "../usage-line.ts";
import type { Command } from "./command.ts";

export const sessionsCommand: Command = {
  name: "sessions",
  summary: "list the sessions of the store",
  args: "",
  mostArgs: 0,
  flags: ["json", "store", "config"],
  run: async (environment, line) => {
    const { stdout } = environment;
    const sessions = await withStore(readSettings(environment, line), listSessions);
    if (line.flags.json === true) {
      for (const session of sessions) stdout.write(`${JSON.stringify(session)}\n`);
      return EXIT.finished;
    }
    const width = Math.max(7, ...sessions.map(({ id }) => id.length));
    if (sessions.length === 0) stdout.write("no sessions\n");
    for (const { id, turnIndex, unfinished, parentSessionId } of sessions) {
      const work = unfinished === 0 ? "" : `  ${counted(unfinished, "input")} unfinished`;
      const parent = parentSessionId === undefined ? "" : `  below ${parentSessionId}`;
      stdout.write(`${id.padEnd(width)}  ${counted(turnIndex, "turn").padStart(9)}${work}${parent}\n`);
    }
    return EXIT.finished;
  },
};

export const showCommand: Command = {
  name: "show",
  summary: "print what was said in a session",
  args: "<session>",
  mostArgs: 1,
  flags: ["json", "store", "config"],
  run: async (environment, line) => {
    const id = needName("show", line);
    const shown = await withStore(readSettings(environment, line), (store) => readTranscript(store, id));
    if (line.flags.json === true) {
      for (const message of shown.messages) environment.stdout.write(`${JSON.stringify(message)}\n`);
      return EXIT.finished;
    }
    printMessages(environment, shown.messages);
    const { stdout } = environment;
    const work = shown.unfinished === 0 ? "" : `, ${counted(shown.unfinished, "input")} unfinished`;
    stdout.write(`\n${id}: ${counted(shown.turns, "turn")}, revision ${shown.revision}${work}\n`);
    return EXIT.finished;
  },
};

export const forkCommand: Command = {
  name: "fork",
  summary: "make a session that goes on from where another is",
  args: "<session>",
  mostArgs: 1,
  flags: ["as", "at", "store", "config"],
  run: async (environment, line) => {
    const from = needName("fork", line);
    const { as, at } = line.flags;
    if (as === undefined) throw usageError("fork", "expected --as <name>, found none");
    const settings = readSettings(environment, line);
    await withStore(settings, async (store) => {
      type Fork = Parameters<typeof store.fork>[0];
      const point = at === undefined ? {} : { at: at as NonNullable<Fork["at"]> };
      // Names are the store's to check.
      await store.fork({ from: from as Fork["from"], as: as as Fork["as"], ...point });
    });
    environment.stdout.write(`${as}\n`);
    return EXIT.finished;
  },
};

export const deleteCommand: Command = {
  name: "delete",
  summary: "delete a session; its name is gone for ever",
  args: "<session>",
  mostArgs: 1,
  flags: ["store", "config"],
  run: async (environment, line) => {
    const id = needName("delete", line);
    await withStore(readSettings(environment, line), async (store) => {
      await readTranscript(store, id); // What is not there cannot be deleted, and its name stays free.
      await store.delete(id as Parameters<typeof store.delete>[0]);
    });
    environment.stdout.write(`deleted ${id}\n`);
    return EXIT.finished;
  },
};

export const recoverCommand: Command = {
  name: "recover",
  summary: "finish the turns that were interrupted",
  args: "",
  mostArgs: 0,
  flags: ["json", "model", "base-url", "approve", "yes", "store", "trace", "config"],
  run: recover,
};

async function recover(environment: Environment, line: CommandLine): Promise<number> {
  const { env, cwd, stdout } = environment;
  const settings: Settings = readSettings(environment, line);
  await withStore(settings, async () => undefined);
  const agent = await openAgent({ settings, env, cwd, canAsk: true });
  try {
    await adoptOlder(agent.runtime, settings);
    const { resumed, skipped } = await agent.runtime.recover();
    if (line.flags.json === true) {
      stdout.write(`${JSON.stringify({ resumed, skipped })}\n`);
      return skipped.length === 0 ? EXIT.finished : EXIT.stopped;
    }
    for (const { sessionId, turnId } of resumed) stdout.write(`finished ${turnId} of ${sessionId}\n`);
    for (const { sessionId, code, message } of skipped)
      stdout.write(`skipped ${sessionId}: ${message} [${code}]\n`);
    const waiting = await agent.runtime.approvals.list();
    for (const { sessionId, toolName } of waiting)
      stdout.write(
        `${sessionId} waits for permission to run ${toolName}: marling chat --resume ${sessionId}\n`,
      );
    if (resumed.length + skipped.length + waiting.length === 0) stdout.write("nothing to recover\n");
    return skipped.length === 0 ? EXIT.finished : EXIT.stopped;
  } finally {
    await agent.close();
  }
}

function needName(command: string, { args }: CommandLine): string {
  const [name] = args;
  if (name === undefined) throw usageError(command, "expected the name of a session, found none");
  return name;
}

function printMessages({ stdout, env }: Environment, messages: readonly Message[]): void {
  const style = chooseStyle({ isTerminal: stdout.isTTY === true, env });
  const transcript = new Transcript({
    style,
    width: () => widthOfOutput(stdout),
    print: (rows) => stdout.write(`${rows.join("\n")}\n`),
  });
  for (const message of messages) printMessage(transcript, message);
}

function widthOfOutput({ columns }: OutputStream): number {
  return columns === undefined ? 100 : Math.max(20, columns - 1);
}

function printMessage(transcript: Transcript, { role, parts }: Message): void {
  for (const part of parts) {
    if (part.kind === "text" || part.kind === "prose") {
      if (role === "assistant") transcript.text(part.text);
      else if (role === "user") transcript.user(part.text);
      else transcript.note(part.text);
    }
    if (part.kind === "tool_call") transcript.note(`→ ${part.name} ${JSON.stringify(part.args)}`);
    if (part.kind === "tool_result")
      transcript.note(`${part.isError === true ? "failed: " : ""}${part.text}`);
  }
}

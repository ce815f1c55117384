// From the words of a command line to an exit code.
//   CL2  help and version are answered before anything else is looked at.
//   CL3  every error is printed once, on stderr, as one sentence; nothing is ever a stack trace.

import { readFileSync } from "node:fs";
import { readCommandLine } from "./command-line.ts";
import type { Command } from "./commands/command.ts";
import { COMMANDS } from "./commands/index.ts";
import { describeError } from "./describe-error.ts";
import type { Environment } from "./environment.ts";
import { EXIT } from "./exit-code.ts";
import { commandHelp, overview } from "./help.ts";
import { chooseStyle } from "./style.ts";
import { usageError, usageOf } from "./usage-error.ts";

export async function runCli(words: readonly string[], environment: Environment): Promise<number> {
  const { stdout, stderr, env } = environment;
  try {
    const [first = "chat"] = words;
    if (first === "--help" || first === "-h" || first === "help") {
      stdout.write(helpFor(first === "help" ? words[1] : undefined));
      return EXIT.finished;
    }
    if (first === "--version" || first === "-v") {
      stdout.write(`${version()}\n`);
      return EXIT.finished;
    }
    const isNamed = !first.startsWith("-");
    const command = find(isNamed ? first : "chat");
    const line = readCommandLine(command, words.slice(isNamed ? 1 : 0));
    if (line.flags.help === true) {
      stdout.write(commandHelp(command));
      return EXIT.finished;
    }
    return await command.run(environment, line);
  } catch (thrown) {
    stderr.write(describeError(thrown, chooseStyle({ isTerminal: stderr.isTTY === true, env })));
    return usageOf(thrown) === undefined ? EXIT.failed : EXIT.usage;
  }
}

function helpFor(name: string | undefined): string {
  return name === undefined ? overview(COMMANDS) : commandHelp(find(name));
}

function find(name: string): Command {
  const command = COMMANDS.find((each) => each.name === name);
  if (command === undefined)
    throw usageError("", `unknown command ${name}; expected ${COMMANDS.map((each) => each.name).join(", ")}`);
  return command;
}

function version(): string {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    readonly version: string;
  };
  return manifest.version;
}

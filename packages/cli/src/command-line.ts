// The words after `marling`, read once and checked against the command they are for.
//   CL1  an option that a command does not take, a value that is missing and an argument too many are usage errors that
//        name what was found and what is taken.

import { parseArgs } from "node:util";
import { FLAGS, type Flag, type FlagName, type FlagValues } from "./flags.ts";
import { usageError } from "./usage-error.ts";

export interface CommandUsage {
  readonly name: string;
  readonly summary: string;
  /** The arguments as the help shows them, such as `<session>`. */
  readonly args: string;
  readonly mostArgs: number;
  readonly flags: readonly FlagName[];
  /** More of the help, below the options. */
  readonly notes?: string;
}

export interface CommandLine {
  readonly flags: FlagValues;
  readonly args: readonly string[];
}

/** Reads the words that belong to a command. */
export function readCommandLine(usage: CommandUsage, words: readonly string[]): CommandLine {
  const options: Record<string, { type: "string" | "boolean"; short?: string }> = {};
  for (const name of flagsOf(usage)) {
    const { type, short }: Flag = FLAGS[name];
    options[name] = { type, ...(short === undefined ? {} : { short }) };
  }
  const { values, positionals } = parse(usage, words, options);
  if (positionals.length > usage.mostArgs && values.help !== true)
    throw usageError(
      usage.name,
      `expected ${usage.mostArgs === 0 ? "no arguments" : `at most ${usage.args}`}, found ${positionals.join(" ")}`,
    );
  return { flags: values as FlagValues, args: positionals };
}

export function flagsOf({ flags }: CommandUsage): readonly FlagName[] {
  return [...flags, "help"];
}

function parse(
  usage: CommandUsage,
  words: readonly string[],
  options: Record<string, { type: "string" | "boolean"; short?: string }>,
): { readonly values: Readonly<Record<string, unknown>>; readonly positionals: readonly string[] } {
  try {
    return parseArgs({ args: words.flatMap(splitResume), options, allowPositionals: true, strict: true });
  } catch (thrown) {
    throw usageError(usage.name, describe(usage, thrown));
  }
}

/** `--resume=name` is `--resume name`. */
function splitResume(word: string): readonly string[] {
  return word.startsWith("--resume=") ? ["--resume", word.slice("--resume=".length)] : [word];
}

function describe(usage: CommandUsage, thrown: unknown): string {
  const { code, message } = thrown as { readonly code?: string; readonly message: string };
  const option = /--[\w-]+/.exec(message)?.[0] ?? /-\w/.exec(message)?.[0] ?? "an option";
  if (code === "ERR_PARSE_ARGS_UNKNOWN_OPTION") {
    const known = flagsOf(usage).map((name) => `--${name}`);
    return `unknown option ${option}; expected ${known.join(", ")}`;
  }
  if (message.includes("argument missing")) return `option ${option}: expected a value, found none`;
  if (message.includes("does not take an argument")) return `option ${option}: expected no value, found one`;
  return message;
}

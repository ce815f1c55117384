// The help of marling and of each command, made from the tables that commands and options are in.

import { type CommandUsage, flagsOf } from "./command-line.ts";
import { FLAGS, type Flag, type FlagName } from "./flags.ts";

export function overview(commands: readonly CommandUsage[]): string {
  return [
    "marling: agents whose turns survive.",
    "",
    "Usage: marling <command> [options]",
    "",
    ...columns(commands.map(({ name, args, summary }) => [`${name} ${args}`.trimEnd(), summary])),
    "",
    "Without a command: chat. `marling <command> --help` says more.",
    "",
    "The model comes from --model, MARLING_MODEL or a config file, or from ANTHROPIC_API_KEY, OPENAI_API_KEY,",
    "GOOGLE_GENERATIVE_AI_API_KEY or OPENAI_BASE_URL; with none of them it is a scripted demo agent.",
    "Options come before MARLING_* of the environment, that before marling.config.json, that before the user's config.",
    "",
  ].join("\n");
}

export function commandHelp(usage: CommandUsage): string {
  const { name, args, summary, notes } = usage;
  return [
    `marling ${name}: ${summary}`,
    "",
    `Usage: marling ${`${name} ${args}`.trimEnd()} [options]`,
    "",
    "Options:",
    ...columns(flagsOf(usage).map(describe)),
    ...(notes === undefined ? [] : ["", notes]),
    "",
  ].join("\n");
}

function describe(name: FlagName): readonly [string, string] {
  const { short, value, help }: Flag = FLAGS[name];
  const dash = short === undefined ? "    " : `-${short}, `;
  return [`${dash}--${name}${value === undefined ? "" : ` <${value}>`}`, help];
}

function columns(rows: readonly (readonly [string, string])[]): readonly string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`.trimEnd());
}

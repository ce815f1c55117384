// The options of the shell, checked where they are given.

import { isAbsolute, resolve } from "node:path";
import { MarlingError } from "../../../index.ts";
import type { ApprovalDecision, ApprovalHookContext } from "../../../plugin/index.ts";

/** How commands run. All of it has defaults. */
export interface ShellSettings {
  /** Where commands run that name no folder; by default that of this process. It confines nothing. */
  readonly cwd?: string;
  /** The program that reads the commands, called with `-c`. Default: `/bin/sh`. */
  readonly shell?: string;
  /** Added to the allow list, and stronger than it. Keys that are put here are read by every command. */
  readonly env?: Readonly<Record<string, string>>;
  /** Where the allow list takes its values from; by default the environment of this process. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** How long a command has that says nothing else. Default: 120 000. */
  readonly timeoutMs?: number;
  /** The longest that a command may ask for. Default: 600 000. */
  readonly maxTimeoutMs?: number;
  /** Between SIGTERM and SIGKILL. Default: 2 000. */
  readonly graceMs?: number;
  /** How much of an output a result holds, beginning and end. Default: 30 000. */
  readonly outputBytes?: number;
  /** Where longer outputs go whole; by default a folder of their own in the temporary folder. */
  readonly spillFolder?: string;
  /** The longest file there; what comes after is dropped, and the command goes on. Default: 64 MiB. */
  readonly spillBytes?: number;
  /** How many of these files are kept. Default: 20. */
  readonly spillFiles?: number;
  /** The shortest time between two messages about the progress of a command. Default: 500. */
  readonly progressMs?: number;
  /** How many commands of one session may run in the background. Default: 8. */
  readonly maxBackground?: number;
}

/** What is done with a call of `shell`; strings are short for decisions without a reason. */
export type ShellAnswer = ApprovalDecision | ApprovalDecision["decision"];

export interface ShellOptions extends ShellSettings {
  /**
   * Whether somebody is asked before a command runs: always, which is the default, never, or as the function says. Other
   * policies of the session are asked as well, and the strictest answer holds.
   */
  readonly ask?: "always" | "never" | ((call: ApprovalHookContext) => ShellAnswer | Promise<ShellAnswer>);
}

export interface ShellToolsOptions extends ShellSettings {
  /** Tools alone cannot ask anybody. Who uses them without the plugin says here that approvals are its own matter. */
  readonly approval: "host";
  /** Ends the commands in the background when it aborts. Without it there are none: nobody would end them. */
  readonly signal?: AbortSignal;
}

/** The settings with their defaults. */
export interface ShellLimits {
  readonly cwd: string;
  readonly shell: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly maxTimeoutMs: number;
  readonly graceMs: number;
  readonly outputBytes: number;
  readonly spillFolder: string | undefined;
  readonly spillBytes: number;
  readonly spillFiles: number;
  readonly progressMs: number;
  readonly maxBackground: number;
}

const DEFAULTS = {
  timeoutMs: 120_000,
  maxTimeoutMs: 600_000,
  graceMs: 2_000,
  outputBytes: 30_000,
  spillBytes: 64 * 1024 * 1024,
  spillFiles: 20,
  progressMs: 500,
  maxBackground: 8,
} as const;

/** Throws `invalid_options`, naming the option. */
export function shellLimits(settings: ShellSettings): ShellLimits {
  const { cwd = process.cwd(), shell = "/bin/sh", env = {}, environment = process.env } = settings;
  if (!isAbsolute(shell)) throw refuse("shell", "an absolute path", shell);
  const numbers = numbersOf(settings);
  const { timeoutMs, maxTimeoutMs } = numbers;
  if (settings.timeoutMs !== undefined && timeoutMs > maxTimeoutMs)
    throw refuse("timeoutMs", `at most maxTimeoutMs, ${maxTimeoutMs}`, timeoutMs);
  return {
    ...numbers,
    timeoutMs: Math.min(timeoutMs, maxTimeoutMs),
    cwd: resolve(cwd),
    shell,
    env: { ...allowed(environment), ...env },
    spillFolder: settings.spillFolder === undefined ? undefined : resolve(settings.spillFolder),
  };
}

export function refuse(option: string, expected: string, found: unknown): MarlingError {
  const message = `shell: option ${option}: expected ${expected}, found ${String(found)}`;
  return new MarlingError("invalid_options", message, { details: { option } });
}

type Numbers = { readonly [K in keyof typeof DEFAULTS]: number };

function numbersOf(settings: ShellSettings): Numbers {
  const given = Object.entries(DEFAULTS).map(([name, otherwise]) => {
    const value = settings[name as keyof Numbers] ?? otherwise;
    if (!Number.isSafeInteger(value) || value < 0) throw refuse(name, "a whole number", value);
    return [name, value] as const;
  });
  return Object.fromEntries(given) as Numbers; // The names are those of the defaults.
}

/** What a locale is made of, name by name: a host may keep a key under any other name that begins with `LC_`. */
const LOCALE = [
  "LC_ADDRESS",
  "LC_ALL",
  "LC_COLLATE",
  "LC_CTYPE",
  "LC_IDENTIFICATION",
  "LC_MEASUREMENT",
  "LC_MESSAGES",
  "LC_MONETARY",
  "LC_NAME",
  "LC_NUMERIC",
  "LC_PAPER",
  "LC_TELEPHONE",
  "LC_TIME",
];
const ALLOWED = new Set(["PATH", "HOME", "LANG", ...LOCALE, "TERM", "TZ", "TMPDIR", "USER", "SHELL"]);

/** The allow list: what programs need to run and to print, and nothing that could be a key. */
function allowed(environment: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const known = Object.entries(environment).flatMap(([name, value]) =>
    value !== undefined && ALLOWED.has(name) ? [[name, value] as const] : [],
  );
  return Object.fromEntries(known);
}

// What a command runs with: options of the command line, then MARLING_* of the environment, then the config file of the
// folder, then that of the user, then what is built in.
//   SE1  a key that nobody knows and a value of another kind are errors that name the file and the key.
//   SE2  a folder that was not trusted sets nothing that runs a command, moves a key elsewhere or answers for the user.
//   SE3  keys of providers come from the environment only; a file that has one is refused.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { CommandLine } from "./command-line.ts";
import type { Environment } from "./environment.ts";
import type { FlagName, FlagValues } from "./flags.ts";
import { isTrusted } from "./trust.ts";
import { usageError } from "./usage-error.ts";
import { userFolder } from "./user-folder.ts";

export type ApprovePolicy = "ask" | "all" | "none";

/** How an MCP server is reached: a command of its own, or an address. */
export type McpServer =
  | {
      readonly command: string;
      readonly args?: readonly string[];
      readonly env?: Readonly<Record<string, string>>;
    }
  | { readonly url: string };

export interface Settings {
  readonly model: string | undefined;
  readonly baseUrl: string | undefined;
  readonly store: string;
  readonly instructions: string | undefined;
  readonly approve: ApprovePolicy;
  readonly maxTurns: number | undefined;
  readonly trace: string | undefined;
  readonly mcpServers: Readonly<Record<string, McpServer>>;
  readonly isTrusted: boolean;
  /** What was left out and why, for whoever reads stderr. */
  readonly notes: readonly string[];
}

type Key = Exclude<keyof Settings, "isTrusted" | "notes">;

interface Setting {
  readonly flag?: FlagName;
  readonly env?: string;
  /** Only of a folder that is trusted. */
  readonly needsTrust?: boolean;
  /** What it has to be; throws nothing, says what was expected. */
  readonly expected: string;
  read(value: unknown): unknown;
}

const text = (value: unknown): unknown =>
  typeof value === "string" && value.trim() !== "" ? value : undefined;
const oneOf =
  (...choices: readonly string[]) =>
  (value: unknown): unknown =>
    typeof value === "string" && choices.includes(value) ? value : undefined;
const count = (value: unknown): unknown => {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isInteger(number) && number > 0 ? number : undefined;
};

/** What can be set, and by what; one row each. */
export const SETTINGS: { readonly [K in Key]: Setting } = {
  model: { flag: "model", env: "MARLING_MODEL", expected: "the name of a model", read: text },
  baseUrl: {
    flag: "base-url",
    env: "MARLING_BASE_URL",
    needsTrust: true,
    expected: "an http or https address",
    read: (value) => (typeof value === "string" && /^https?:\/\/\S+$/.test(value) ? value : undefined),
  },
  store: { flag: "store", env: "MARLING_STORE", expected: "the path of a file", read: text },
  instructions: {
    flag: "instructions",
    env: "MARLING_INSTRUCTIONS",
    needsTrust: true,
    expected: "some words",
    read: text,
  },
  approve: {
    flag: "approve",
    env: "MARLING_APPROVE",
    needsTrust: true,
    expected: "ask, all or none",
    read: oneOf("ask", "all", "none"),
  },
  maxTurns: {
    flag: "max-turns",
    env: "MARLING_MAX_TURNS",
    expected: "a whole number from 1",
    read: count,
  },
  trace: {
    flag: "trace",
    env: "MARLING_TRACE",
    needsTrust: true,
    expected: "the path of a file",
    read: text,
  },
  mcpServers: {
    needsTrust: true,
    expected: "an object of servers by name, each with `command`, `args` and `env`, or with `url`",
    read: (value) => (isServers(value) ? value : undefined),
  },
};

const CONFIG_NAME = "marling.config.json";

interface Source {
  readonly where: string;
  readonly values: Readonly<Record<string, unknown>>;
  readonly isTrusted: boolean;
}

/** Puts the settings of a command together. */
export function readSettings({ env, cwd }: Environment, { flags }: CommandLine): Settings {
  const isTrustedFolder = isTrusted(cwd, env);
  const notes: string[] = [];
  const sources = [
    fromFlags(flags),
    fromEnvironment(env),
    ...configFiles({ env, cwd, flags, isTrustedFolder }),
  ];
  const found: Record<string, unknown> = {};
  for (const source of sources) take(source, found, notes);
  return {
    model: undefined,
    baseUrl: undefined,
    instructions: undefined,
    approve: "ask",
    maxTurns: undefined,
    mcpServers: {},
    ...(found as Partial<Settings>),
    trace: found.trace === undefined ? undefined : resolve(cwd, String(found.trace)),
    store: resolve(cwd, String(found.store ?? join(".marling", "marling.db"))),
    isTrusted: isTrustedFolder,
    notes,
  };
}

/** Takes what a source says and no earlier one has said. */
function take(source: Source, found: Record<string, unknown>, notes: string[]): void {
  const refused: string[] = [];
  for (const [key, raw] of Object.entries(source.values)) {
    if (raw === undefined) continue;
    if (!Object.hasOwn(SETTINGS, key))
      throw usageError(
        "",
        `${source.where}: unknown key ${key}; expected ${Object.keys(SETTINGS).join(", ")}${keyAdvice(key)}`,
      );
    const setting = SETTINGS[key as Key];
    const value = setting.read(raw);
    if (value === undefined)
      throw usageError(
        "",
        `${source.where}: ${key}: expected ${setting.expected}, found ${JSON.stringify(raw)}`,
      );
    if (!source.isTrusted && setting.needsTrust === true) refused.push(key);
    else if (!Object.hasOwn(found, key)) found[key] = value;
  }
  if (refused.length > 0)
    notes.push(
      `${source.where}: ${refused.join(", ")} not used, because this folder is not trusted; \`marling trust\` trusts it`,
    );
}

function keyAdvice(key: string): string {
  return /key|token|secret/i.test(key)
    ? ". Keys of providers are read from the environment, such as ANTHROPIC_API_KEY"
    : "";
}

function fromFlags(flags: FlagValues): Source {
  const values: Record<string, unknown> = {};
  for (const [key, { flag }] of Object.entries(SETTINGS))
    if (flag !== undefined && flags[flag] !== undefined) values[key] = flags[flag];
  if (flags.yes === true) values.approve = "all";
  return { where: "option", values, isTrusted: true };
}

function fromEnvironment(env: Environment["env"]): Source {
  const values: Record<string, unknown> = {};
  for (const [key, setting] of Object.entries(SETTINGS)) {
    const value = setting.env === undefined ? undefined : env[setting.env];
    if (value !== undefined && value !== "") values[key] = value;
  }
  return { where: "environment", values, isTrusted: true };
}

interface ConfigPlaces {
  readonly env: Environment["env"];
  readonly cwd: string;
  readonly flags: FlagValues;
  readonly isTrustedFolder: boolean;
}

function configFiles({ env, cwd, flags, isTrustedFolder }: ConfigPlaces): readonly Source[] {
  const named = flags.config ?? env.MARLING_CONFIG;
  const user = join(userFolder(env), "config.json");
  const folder = join(cwd, CONFIG_NAME);
  if (named !== undefined && !existsSync(resolve(cwd, named)))
    throw usageError("", `config ${named}: expected a file, found none`);
  return [
    ...(named === undefined
      ? readConfig(folder, CONFIG_NAME, isTrustedFolder)
      : readConfig(resolve(cwd, named), named, true)),
    ...readConfig(user, user, true),
  ];
}

function readConfig(path: string, where: string, isTrustedFile: boolean): readonly Source[] {
  if (!existsSync(path)) return [];
  let values: unknown;
  try {
    values = JSON.parse(readFileSync(path, "utf8"));
  } catch (thrown) {
    throw usageError("", `${where}: expected JSON, found something else: ${String(thrown)}`);
  }
  if (!isRecord(values))
    throw usageError("", `${where}: expected an object, found ${JSON.stringify(values)}`);
  return [{ where, values, isTrusted: isTrustedFile }];
}

function isServers(value: unknown): boolean {
  return isRecord(value) && Object.values(value).every(isServer);
}

function isServer(value: unknown): boolean {
  if (!isRecord(value)) return false;
  const { command, args, env, url, ...rest } = value;
  if (Object.keys(rest).length > 0 || (command === undefined) === (url === undefined)) return false;
  return (
    (command === undefined || typeof command === "string") &&
    (url === undefined || typeof url === "string") &&
    (args === undefined || (Array.isArray(args) && args.every((arg) => typeof arg === "string"))) &&
    (env === undefined || (isRecord(env) && Object.values(env).every((each) => typeof each === "string")))
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

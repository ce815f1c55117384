// What the servers are given by the host. Every mistake is named where it is made.

import { type Clock, MarlingError } from "../../index.ts";

/** When somebody is asked about a call; see `approve` of a server. */
export type McpApproval = "ask" | "allow" | "always";

export interface McpServerOptions {
  /**
   * `ask`: the first call of every contract asks. `allow`: the contract that a session sees first may be called, a changed one
   * asks. `always`: nobody is asked here. Other policies of the runtime are asked as well, and the strictest answer holds.
   */
  readonly approve?: McpApproval;
  /** Contracts that were looked at before, by tool name: their digests as `status()` shows them. They need no question. */
  readonly approved?: Readonly<Record<string, string>>;
  /** Whether what a server says about its tools (read only, idempotent) decides what a crash may repeat. */
  readonly trustHints?: boolean;
  /** Whether the instructions of the server become part of the prompt. They are written by the server. */
  readonly instructions?: boolean;
  /** Whether the model gets tools to list and read the resources of the server. */
  readonly resources?: boolean;
  /** Whether turns and sessions go on without the server. */
  readonly required?: boolean;
  /** How long a call may take; 60 seconds by default. */
  readonly timeoutMs?: number;
  /** Whether progress of a call begins its time again, up to `maxTimeoutMs`. */
  readonly progressExtends?: boolean;
  /** How long a call may take whatever progress it makes; ten minutes by default. */
  readonly maxTimeoutMs?: number;
  /** How long connecting may take, and how long turns and calls wait for it; 10 seconds by default. */
  readonly connectTimeoutMs?: number;
  /** How much text of one result is kept; 256 KiB by default. */
  readonly maxOutputBytes?: number;
  /** How many bytes of images, audio and other files of one result are kept; 8 MiB by default. */
  readonly maxAttachmentBytes?: number;
  /** How large one message of the server may be; 32 MiB by default. A larger one ends the connection. */
  readonly maxMessageBytes?: number;
  /** `auto` asks the server for the newer protocol first; by default the one that all servers speak. */
  readonly protocol?: "legacy" | "auto";
}

/** A server that is a program of this machine. */
export interface McpStdioServer extends McpServerOptions {
  readonly command: string;
  readonly args?: readonly string[];
  /** Added to PATH, HOME, LANG, TZ and TMPDIR; nothing else of this process is passed on. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** A server behind an address. */
export interface McpHttpServer extends McpServerOptions {
  readonly url: string;
  /** Sent with every request and kept nowhere. */
  readonly headers?: Readonly<Record<string, string>>;
}

export type McpServerConfig = McpStdioServer | McpHttpServer;

export interface McpReconnect {
  /** 500 by default. */
  readonly minMs?: number;
  /** 30 000 by default. */
  readonly maxMs?: number;
  /** Attempts in a row that nobody asked for; 8 by default. A turn, a call or `reconnect` begins again. */
  readonly attempts?: number;
}

export interface McpOptions {
  readonly servers?: Readonly<Record<string, McpServerConfig>>;
  /** What holds for servers that say nothing else; `ask` by default. */
  readonly approve?: McpApproval;
  readonly reconnect?: McpReconnect;
  /** `sessions`: the connections end with the last session that uses them. `manual`: with `close()`. */
  readonly lifetime?: "sessions" | "manual";
  readonly clock?: Pick<Clock, "now" | "after">;
  /** Between 0 and 1, for the jitter of reconnecting. */
  readonly random?: () => number;
}

/** A server with everything that it left out. */
export interface McpSettings {
  readonly target: McpTarget;
  readonly approve: McpApproval;
  readonly approved: Readonly<Record<string, string>>;
  readonly trustHints: boolean;
  readonly instructions: boolean;
  readonly resources: boolean;
  readonly required: boolean;
  readonly timeoutMs: number;
  readonly progressExtends: boolean;
  readonly maxTimeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly maxOutputBytes: number;
  readonly maxAttachmentBytes: number;
  readonly maxMessageBytes: number;
  readonly protocol: "legacy" | "auto";
}

export type McpTarget =
  | {
      readonly kind: "stdio";
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
      readonly cwd: string | undefined;
    }
  | { readonly kind: "http"; readonly url: URL; readonly headers: Readonly<Record<string, string>> };

type Check = (value: unknown) => string | undefined;

const LIMITS = {
  timeoutMs: 60_000,
  maxTimeoutMs: 600_000,
  connectTimeoutMs: 10_000,
  maxOutputBytes: 256 * 1024,
  maxAttachmentBytes: 8 * 1024 * 1024,
  maxMessageBytes: 32 * 1024 * 1024,
} as const;
const FLAGS = ["trustHints", "instructions", "resources", "required", "progressExtends"] as const;
const SERVER_NAME = /^[a-zA-Z0-9-]+(?:_[a-zA-Z0-9-]+)*$/;
const LONGEST_SERVER_NAME = 32;

const count: Check = (value) =>
  typeof value === "number" && Number.isFinite(value) && value > 0 ? undefined : "a positive number";
const flag: Check = (value) => (typeof value === "boolean" ? undefined : "a boolean");
const text: Check = (value) => (typeof value === "string" && value !== "" ? undefined : "a non-empty string");
const texts: Check = (value) =>
  Array.isArray(value) && value.every((item) => typeof item === "string") ? undefined : "an array of strings";
const record: Check = (value) =>
  isRecord(value) && Object.values(value).every((item) => typeof item === "string")
    ? undefined
    : "an object of strings";
const oneOf =
  (...values: readonly string[]): Check =>
  (value) =>
    values.some((each) => each === value) ? undefined : `one of ${values.join(", ")}`;

const SHARED: Readonly<Record<string, Check>> = {
  approve: oneOf("ask", "allow", "always"),
  approved: record,
  protocol: oneOf("legacy", "auto"),
  ...Object.fromEntries(FLAGS.map((name) => [name, flag])),
  ...Object.fromEntries(Object.keys(LIMITS).map((name) => [name, count])),
};
const STDIO: Readonly<Record<string, Check>> = {
  ...SHARED,
  command: text,
  args: texts,
  env: record,
  cwd: text,
};
const HTTP: Readonly<Record<string, Check>> = { ...SHARED, url: httpUrl, headers: record };
const OPTIONS: Readonly<Record<string, Check>> = {
  servers: (value) => (isRecord(value) ? undefined : "an object of servers by name"),
  approve: oneOf("ask", "allow", "always"),
  reconnect: (value) =>
    isRecord(value) &&
    Object.entries(value).every(([name, ms]) => ["minMs", "maxMs", "attempts"].includes(name) && !count(ms))
      ? undefined
      : "{ minMs?, maxMs?, attempts? } with positive numbers",
  lifetime: oneOf("sessions", "manual"),
  clock: (value) =>
    isRecord(value) && typeof value.now === "function" && typeof value.after === "function"
      ? undefined
      : "a clock with now() and after()",
  random: (value) => (typeof value === "function" ? undefined : "a function"),
};

/** Throws `invalid_options`, naming the option. */
export function checkMcpOptions(options: unknown): asserts options is McpOptions {
  checkMembers(options, OPTIONS, "mcp");
}

/** Reads one server. Throws `invalid_options`, naming the server and the option. */
export function readServer(name: string, config: unknown, approve: McpApproval = "ask"): McpSettings {
  const where = `mcp server ${JSON.stringify(name)}`;
  if (!SERVER_NAME.test(name) || name.length > LONGEST_SERVER_NAME) {
    const expected = `letters, digits and -, with single _ between them, at most ${LONGEST_SERVER_NAME}`;
    throw refuse(`${where}: name`, expected, name);
  }
  const isStdio = isRecord(config) && Object.hasOwn(config, "command");
  if (!isStdio && !(isRecord(config) && Object.hasOwn(config, "url")))
    throw refuse(where, "{ command, ... } or { url, ... }", config);
  checkMembers(config, isStdio ? STDIO : HTTP, where);
  const given = config as unknown as McpServerConfig; // every member was checked above
  return Object.freeze({
    approve,
    approved: {},
    protocol: "legacy",
    trustHints: false,
    instructions: false,
    resources: false,
    required: false,
    progressExtends: false,
    ...LIMITS,
    ...withoutUndefined(given),
    target: targetOf(given),
  });
}

function targetOf(config: McpServerConfig): McpTarget {
  if ("url" in config) return { kind: "http", url: new URL(config.url), headers: { ...config.headers } };
  const { command, args = [], env = {}, cwd } = config;
  return { kind: "stdio", command, args: [...args], env: { ...env }, cwd };
}

function withoutUndefined(config: McpServerConfig): Partial<McpSettings> {
  const taken = Object.entries(config).filter(
    ([name, value]) => value !== undefined && Object.hasOwn(SHARED, name),
  );
  return Object.fromEntries(taken);
}

function checkMembers(value: unknown, checks: Readonly<Record<string, Check>>, where: string): void {
  if (!isRecord(value)) throw refuse(where, "an object", value);
  for (const [name, member] of Object.entries(value)) {
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined;
    if (check === undefined)
      throw refuse(`${where}: ${name}`, `one of ${Object.keys(checks).join(", ")}`, undefined);
    const expected = member === undefined ? undefined : check(member);
    if (expected !== undefined) throw refuse(`${where}: ${name}`, expected, member);
  }
}

function httpUrl(value: unknown): string | undefined {
  const isHttp = typeof value === "string" && /^https?:$/.test(protocolOf(value));
  return isHttp ? undefined : "an address that begins with http: or https:";
}

function protocolOf(value: string): string {
  try {
    return new URL(value).protocol;
  } catch {
    return "";
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Values are named by their kind only: an address, a header or a variable may be a secret. */
function refuse(where: string, expected: string, found: unknown): MarlingError {
  const shown = typeof found === "string" && where.endsWith(": name") ? JSON.stringify(found) : typeof found;
  return new MarlingError("invalid_options", `${where}: expected ${expected}, found ${shown}`, {
    details: { option: where },
  });
}

// The servers of a runtime, by name: which there are, who uses them, and how they are.
//   MC40  servers come and go while sessions run; sessions are told, and see it in the next round.
//   MC41  connections begin with the first session that uses them and, unless the host keeps them, end with the last one: when
//         the runtime has closed, no process of theirs is left.

import { MarlingError } from "../../index.ts";
import { backoffOf } from "./backoff.ts";
import { McpConnection } from "./connection.ts";
import { type McpOptions, type McpServerConfig, readServer } from "./options.ts";
import type { RefusedTool } from "./tool-contracts.ts";

export interface McpServerStatus {
  readonly transport: "stdio" | "http";
  /** `idle` until the first session needs it. */
  readonly state: "idle" | "connecting" | "ready" | "down";
  /** Why it is down. */
  readonly reason?: string;
  /** Wall time of the next attempt, when one is planned. */
  readonly nextAttemptAt?: number;
  /** Attempts that failed in a row. */
  readonly failures: number;
  /** What the server offered when it was last asked: the digest of each contract by tool. Missing when nothing is known. */
  readonly tools?: Readonly<Record<string, string>>;
  /** Of all contracts together. */
  readonly digest?: string;
  /** What it offers and nobody can call. */
  readonly refused: readonly RefusedTool[];
  readonly pid?: number;
  /** The end of what the process wrote to its standard error. */
  readonly stderr?: string;
}

const SYSTEM_CLOCK: NonNullable<McpOptions["clock"]> = {
  now: () => Date.now(),
  after: (ms, fn, { isBackground = false } = {}) => {
    const timer = setTimeout(fn, ms);
    if (isBackground) timer.unref();
    return () => clearTimeout(timer);
  },
};

export class McpPool {
  readonly #options: McpOptions;
  readonly #connections = new Map<string, McpConnection>();
  readonly #listeners = new Set<() => void>();
  readonly #ending = new Set<Promise<void>>();
  #users = 0;

  constructor(options: McpOptions) {
    this.#options = options;
    for (const [name, config] of Object.entries(options.servers ?? {})) this.#add(name, config);
  }

  get connections(): readonly McpConnection[] {
    return [...this.#connections.values()];
  }

  connection(name: string): McpConnection | undefined {
    return this.#connections.get(name);
  }

  attach(name: string, config: McpServerConfig): void {
    if (this.#connections.has(name)) {
      const message = `mcp server ${JSON.stringify(name)}: expected a name that is free, found one that is attached; detach it first`;
      throw new MarlingError("invalid_options", message, { details: { option: "servers", server: name } });
    }
    const connection = this.#add(name, config);
    this.#moved();
    if (this.#users > 0) void connection.connect();
  }

  async detach(name: string): Promise<void> {
    const connection = this.required(name);
    this.#connections.delete(name);
    this.#moved();
    await this.#end(connection, "it was detached");
  }

  /** Throws `invalid_options` for a name that no server has. */
  required(name: string): McpConnection {
    const connection = this.#connections.get(name);
    if (connection !== undefined) return connection;
    const known = [...this.#connections.keys()].join(", ") || "none";
    const message = `mcp server ${JSON.stringify(name)}: expected one of the attached servers (${known}), found another name`;
    throw new MarlingError("invalid_options", message, { details: { option: "servers", server: name } });
  }

  /** Somebody needs the servers from now on; the returned function says that it does not any more. */
  use(): () => Promise<void> {
    this.#users += 1;
    this.wake();
    let isUsed = true;
    return async () => {
      if (!isUsed) return;
      isUsed = false;
      this.#users -= 1;
      if (this.#users === 0 && this.#options.lifetime !== "manual") await this.close();
      else await Promise.all(this.#ending);
    };
  }

  /** Connects whatever nobody has tried to connect, or has given up. */
  wake(): void {
    for (const connection of this.#connections.values())
      if (connection.nextAttemptAt === undefined) void connection.connect();
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  status(): Readonly<Record<string, McpServerStatus>> {
    return Object.fromEntries(
      [...this.#connections].map(([name, connection]) => [name, statusOf(connection)]),
    );
  }

  async close(): Promise<void> {
    await Promise.all([...this.connections.map((one) => this.#end(one, "it was closed")), ...this.#ending]);
  }

  #add(name: string, config: McpServerConfig): McpConnection {
    const { clock = SYSTEM_CLOCK, random = Math.random, reconnect, approve } = this.#options;
    const settings = readServer(name, config, approve);
    const onMoved = (): void => this.#moved();
    const options = { settings, backoff: backoffOf(reconnect), clock, random, onMoved };
    const connection = new McpConnection(name, options);
    this.#connections.set(name, connection);
    return connection;
  }

  #end(connection: McpConnection, reason: string): Promise<void> {
    const ended = connection.close(reason).finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
    return ended;
  }

  #moved(): void {
    for (const listener of this.#listeners) listener();
  }
}

function statusOf(connection: McpConnection): McpServerStatus {
  const { settings, state, reason, nextAttemptAt, failures, list, pid, stderr } = connection;
  const isStdio = settings.target.kind === "stdio";
  return Object.freeze({
    transport: settings.target.kind,
    state,
    ...(reason === undefined ? {} : { reason }),
    ...(nextAttemptAt === undefined ? {} : { nextAttemptAt }),
    failures: state === "ready" ? 0 : failures,
    ...(list === undefined
      ? {}
      : {
          tools: Object.fromEntries(list.tools.map(({ tool, digest }) => [tool, digest])),
          digest: list.digest,
        }),
    refused: list?.refused ?? [],
    ...(pid === undefined ? {} : { pid }),
    ...(isStdio ? { stderr } : {}),
  });
}

// MCP servers as tools: what a host holds in its hands.

import type { Plugin } from "../../index.ts";
import { checkMcpOptions, type McpOptions, type McpServerConfig } from "./options.ts";
import { mcpPlugin } from "./plugin.ts";
import { McpPool, type McpServerStatus } from "./pool.ts";
import { serverDown } from "./server-down.ts";

export interface McpServers extends AsyncDisposable {
  /** Goes into `plugins` of a runtime. */
  readonly plugin: Plugin;
  /**
   * Connects now, and resolves when every server has answered or failed. Throws `mcp_server_down` for a required one, and
   * `provider_unavailable` when the library is not installed.
   */
  ready(): Promise<void>;
  /** Adds a server; turns that run see its tools in their next round. Throws `invalid_options`. */
  attach(name: string, config: McpServerConfig): void;
  /** Takes a server away and ends its process; calls that are open fail. Throws `invalid_options`. */
  detach(name: string): Promise<void>;
  /** Connects a server again, whether it is connected or not. Resolves when that has come to something. */
  reconnect(name: string): Promise<void>;
  status(): Readonly<Record<string, McpServerStatus>>;
  /** Ends every connection and every process. A session that is used after that begins them again. */
  close(): Promise<void>;
}

/** Makes the tools of MCP servers available to the sessions of a runtime. Throws `invalid_options`. */
export function mcp(options: McpOptions = {}): McpServers {
  checkMcpOptions(options);
  const pool = new McpPool(options);
  return Object.freeze({
    plugin: mcpPlugin(pool),
    ready: () => ready(pool),
    attach: (name: string, config: McpServerConfig) => pool.attach(name, config),
    detach: async (name: string) => pool.detach(name),
    reconnect: async (name: string) => pool.required(name).reconnect(),
    status: () => pool.status(),
    close: () => pool.close(),
    [Symbol.asyncDispose]: () => pool.close(),
  });
}

async function ready(pool: McpPool): Promise<void> {
  await Promise.all(pool.connections.map((connection) => connection.connect()));
  const fault = pool.connections.find((connection) => connection.fault !== undefined)?.fault;
  if (fault !== undefined) throw fault;
  const missing = pool.connections.find(({ settings, state }) => settings.required && state !== "ready");
  if (missing !== undefined) throw serverDown(missing);
}

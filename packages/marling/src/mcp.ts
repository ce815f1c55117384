// marling/mcp: MCP servers as tools. Needs the package @modelcontextprotocol/client.

export type { McpServers } from "./stock/mcp/mcp.ts";
export { mcp } from "./stock/mcp/mcp.ts";
export type {
  McpApproval,
  McpHttpServer,
  McpOptions,
  McpReconnect,
  McpServerConfig,
  McpServerOptions,
  McpStdioServer,
} from "./stock/mcp/options.ts";
export type { McpServerStatus } from "./stock/mcp/pool.ts";
export type { RefusedTool } from "./stock/mcp/tool-contracts.ts";

import { MarlingError } from "../../index.ts";
import type { McpConnection } from "./connection.ts";

/** The error of whatever cannot begin without a server. */
export function serverDown({ name, state, reason }: McpConnection): MarlingError {
  const found = state === "down" ? `it is down: ${reason ?? "nobody knows why"}` : `it is ${state}`;
  const message = `mcp server ${name}: expected the required server to be ready, found that ${found}`;
  return new MarlingError("mcp_server_down", message, { details: { server: name } });
}

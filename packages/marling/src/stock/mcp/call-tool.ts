// One call of a tool of a server. Whatever happens, the model is told what it can do about it.
//   MC33  a call has a time limit, and progress may begin it again; what runs out of time is cancelled at the server.
//   MC34  a call whose turn is cancelled is cancelled at the server.
//   MC35  a call of a server that is down fails as `mcp_server_down` with the server and the reason. If it was on its way,
//         trying again is safe only where the tool's replay policy says so.
//   MC37  a call that a server refused because it has forgotten the session is sent again in a new one, once.
//   MC36  a contract that changed between the decision about a call and the call fails it as `mcp_contract_changed`.

import type { Client, Progress } from "@modelcontextprotocol/client";
import { type JsonObject, type ToolContext, type ToolOutput, toolFailure } from "../../index.ts";
import { boundedValue, valueOfResource, valueOfResult } from "./call-result.ts";
import { isAnswer, type McpConnection, messageOf } from "./connection.ts";
import type { KnownTool } from "./tool-contracts.ts";

export interface ServerCall {
  readonly tool: KnownTool;
  readonly args: JsonObject;
  /** The contract that was decided about. */
  readonly digest: string;
  /** Whether the tool may run twice. */
  readonly isRepeatable: boolean;
}

export async function callTool(
  connection: McpConnection,
  call: ServerCall,
  context: ToolContext,
): Promise<unknown> {
  for (let isFirst = true; ; isFirst = false) {
    const client = await clientFor(connection, context.signal);
    if (client === undefined) return downOutput(connection, true);
    const refused = refusalOf(connection, call);
    if (refused !== undefined) return refused;
    try {
      return await request(connection, client, { call, context });
    } catch (thrown) {
      if (context.signal.aborted) throw context.signal.reason;
      if (!isFirst || !isForgotten(thrown)) return failedOutput(connection, client, { call, thrown });
      connection.lost(client, "it has forgotten the session");
    }
  }
}

function refusalOf(connection: McpConnection, { tool, digest }: ServerCall): ToolOutput | undefined {
  const current = connection.list?.tools.find(({ name }) => name === tool.name);
  if (current === undefined) return goneOutput(connection, tool);
  return current.digest === digest ? undefined : changedOutput(connection, tool);
}

/** A server that does not know the session any more has not looked at the call: it is sent again, in a new session. */
function isForgotten(thrown: unknown): boolean {
  return (thrown as { readonly data?: { readonly status?: unknown } }).data?.status === 404;
}

/** The failure of calls that no server can answer any more. */
export function detachedOutput(server: string): ToolOutput {
  const message = `The MCP server ${server} was detached from this runtime, so its tools cannot be called. Go on without it.`;
  return toolFailure({ code: "mcp_server_down", class: "unavailable", message });
}

/** Waits for a connection that is being made, and makes one where there is none; one attempt per call. */
async function clientFor(connection: McpConnection, signal: AbortSignal): Promise<Client | undefined> {
  if (connection.client === undefined) {
    const cancelled = new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    await Promise.race([connection.connect(), cancelled]);
    signal.throwIfAborted();
  }
  return connection.client;
}

interface Request {
  readonly call: ServerCall;
  readonly context: ToolContext;
}

async function request(
  connection: McpConnection,
  client: Client,
  { call, context }: Request,
): Promise<unknown> {
  const { settings } = connection;
  const { tool, args } = call;
  const options = {
    signal: context.signal,
    timeout: settings.timeoutMs,
    maxTotalTimeout: Math.max(settings.timeoutMs, settings.maxTimeoutMs),
    resetTimeoutOnProgress: settings.progressExtends,
    onprogress: (progress: Progress) => context.progress(progressText(progress)),
  };
  const result = { limits: settings, attachments: context.attachments };
  switch (tool.builtin) {
    case "list_resources": {
      const cursor = typeof args.cursor === "string" ? args.cursor : undefined;
      const { resources, nextCursor } = await client.listResources(
        cursor === undefined ? {} : { cursor },
        options,
      );
      return boundedValue({ resources, nextCursor }, result);
    }
    case "read_resource":
      return valueOfResource(
        await client.readResource({ uri: String(args.uri) }, { ...options, cacheMode: "bypass" }),
        result,
      );
    default:
      return valueOfResult(
        await client.callTool({ name: tool.tool, arguments: { ...args } }, options),
        result,
      );
  }
}

function progressText({ progress, total, message }: Progress): string {
  const share = total === undefined ? String(progress) : `${progress}/${total}`;
  return message === undefined ? share : `${share} ${message}`.slice(0, 500);
}

interface Failed {
  readonly call: ServerCall;
  readonly thrown: unknown;
}

function failedOutput(connection: McpConnection, client: Client, { call, thrown }: Failed): ToolOutput {
  const { name, redaction, settings } = connection;
  const { code } = thrown as { readonly code?: unknown };
  const said = redaction.clean(messageOf(thrown)).slice(0, 2_000);
  const retry = { safe: call.isRepeatable };
  if (code === "REQUEST_TIMEOUT") {
    const message = `The MCP server ${name} did not answer the call of ${call.tool.tool} within ${settings.timeoutMs} ms; the call was cancelled there. It may have taken effect.`;
    return toolFailure({ code: "mcp_timeout", class: "timeout", message, retry });
  }
  if (isAnswer(thrown)) {
    const message = `The MCP server ${name} refused the call of ${call.tool.tool}: ${said}`;
    return toolFailure({
      code: "mcp_call_refused",
      class: code === -32602 ? "invalid_request" : "external",
      message,
    });
  }
  if (typeof code === "string" && UNREADABLE.has(code)) {
    const message = `The MCP server ${name} answered the call of ${call.tool.tool} with something that is no result: ${said}`;
    return toolFailure({ code: "mcp_invalid_result", class: "external", message });
  }
  connection.lost(client, said);
  return downOutput(connection, call.isRepeatable);
}

const UNREADABLE = new Set(["INVALID_RESULT", "UNSUPPORTED_RESULT_TYPE", "CAPABILITY_NOT_SUPPORTED"]);

function downOutput({ name, reason = "it is not connected" }: McpConnection, isSafe: boolean): ToolOutput {
  const hint = isSafe ? "" : " The call may have taken effect; check before calling it again.";
  const message = `The MCP server ${name} is down: ${reason}.${hint} Its other tools cannot be called either until it is back.`;
  return toolFailure({ code: "mcp_server_down", class: "unavailable", message, retry: { safe: isSafe } });
}

function goneOutput({ name }: McpConnection, { tool }: KnownTool): ToolOutput {
  const message = `The MCP server ${name} does not offer the tool ${tool} any more. Use one of the tools that it has now.`;
  return toolFailure({ code: "mcp_tool_gone", class: "unavailable", message });
}

export function changedOutput({ name }: McpConnection, { tool }: KnownTool): ToolOutput {
  const message = `The MCP server ${name} changed what the tool ${tool} is after the call was decided about, so it did not run. Look at its description and call it again.`;
  return toolFailure({ code: "mcp_contract_changed", class: "unavailable", message });
}

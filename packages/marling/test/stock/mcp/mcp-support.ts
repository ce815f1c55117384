// Servers for the tests: the real ones and our own, and a runtime that has them.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  createRuntime,
  type Runtime,
  type RuntimeOptions,
  type Session,
  type ToolOutput,
  type Turn,
} from "marling";
import { type ScriptedModel, scriptedModel } from "marling/testing";
import { onTestFinished, vi } from "vitest";
import {
  type McpOptions,
  type McpServerOptions,
  type McpServers,
  type McpStdioServer,
  mcp,
} from "../../../src/mcp.ts";
import type { Script } from "../../kernel/durable-support.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const require = createRequire(import.meta.url);
const OWN = fileURLToPath(new URL("own-server.mjs", import.meta.url));

/** The program of a real server. */
export function realServer(name: string, ...args: readonly string[]): McpStdioServer {
  const root = dirname(require.resolve(`@modelcontextprotocol/${name}/package.json`));
  return { command: process.execPath, args: [join(root, "dist", "index.js"), ...args], approve: "always" };
}

/** Our own server, which anybody may call. */
export function ownServer(
  env: Readonly<Record<string, string>> = {},
  options: McpServerOptions = {},
): McpStdioServer {
  return { command: process.execPath, args: [OWN], env, approve: "always", ...options };
}

/** A folder that is gone after the test. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "marling-mcp-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export function linesOf(path: string): readonly string[] {
  return existsSync(path)
    ? readFileSync(path, "utf8")
        .split("\n")
        .filter((line) => line !== "")
    : [];
}

export interface HttpServer {
  readonly url: string;
  readonly port: number;
  kill(): Promise<void>;
}

/** Our own server behind an address of this machine. */
export async function httpServer(env: Readonly<Record<string, string>> = {}): Promise<HttpServer> {
  const child = spawn(process.execPath, [OWN, "http"], {
    env: { PATH: process.env.PATH ?? "", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<void>((resolve) => void child.once("close", () => resolve()));
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  onTestFinished(kill);
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  await until(() => text.includes("\n"), "the server to listen");
  const port = Number(text.trim().split(" ")[1]);
  return { url: `http://127.0.0.1:${port}/mcp`, port, kill };
}

export interface Stage {
  readonly servers: McpServers;
  readonly runtime: Runtime;
  readonly session: Session;
  readonly model: ScriptedModel;
}

export interface StageOptions extends McpOptions {
  readonly script?: Script;
  readonly runtime?: Omit<RuntimeOptions, "model" | "plugins">;
  readonly plugins?: NonNullable<RuntimeOptions["plugins"]>;
}

/** A runtime with servers; both are gone after the test. */
export async function stage({
  script = [],
  runtime: options,
  plugins = [],
  ...given
}: StageOptions): Promise<Stage> {
  const servers = mcp({ reconnect: { minMs: 20, maxMs: 200 }, ...given });
  const model = scriptedModel(script);
  const runtime = createRuntime({ ...options, model, plugins: [servers.plugin, ...plugins] });
  onTestFinished(async () => {
    await runtime.close();
    await servers.close();
  });
  return { servers, runtime, session: await runtime.session("s"), model };
}

/** The outputs of the calls of a turn, in order. */
export async function outputsOf(turn: Turn): Promise<readonly ToolOutput[]> {
  return (await turn.result).toolCalls.map(({ output }) => output);
}

export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  await vi.waitUntil(condition, { timeout: 30_000, interval: 10 }).catch(() => {
    throw new Error(`expected ${what}, found that it does not happen`);
  });
}

/** Whether a process is there. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** The names of the tools that a request to the model shows. */
export function toolNames(model: ScriptedModel, request: number): readonly string[] {
  return (model.requests[request]?.tools ?? []).map(({ name }) => name);
}

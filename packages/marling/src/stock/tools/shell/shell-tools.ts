// The tools of the shell: run a command, and watch or end one that runs in the background.

import { access, constants, stat } from "node:fs/promises";
import { resolve } from "node:path";
import {
  defineTool,
  type JsonObject,
  type ToolContext,
  type ToolDefinition,
  toolFailure,
} from "../../../index.ts";
import { messageOf } from "./message-of.ts";
import { refuse, type ShellToolsOptions, shellLimits } from "./shell-options.ts";
import type { ShellProcess } from "./shell-process.ts";
import { type BackgroundShell, ShellProcesses } from "./shell-processes.ts";
import { progressOf } from "./shell-progress.ts";

interface ShellInput {
  readonly command: string;
  readonly cwd?: string;
  readonly timeoutMs?: number;
  readonly background?: boolean;
}

interface HandleInput {
  readonly shellId: string;
  readonly waitMs?: number;
}

type Failure = ReturnType<typeof toolFailure>;

const LONGEST_COMMAND = 100_000;
const LONGEST_WAIT_MS = 60_000;

/**
 * The tools without their plugin: they ask nobody, which `approval: "host"` says, and commands run in the background
 * only when there is a `signal` that ends them. Throws `invalid_options`.
 */
export function shellTools(options: ShellToolsOptions): readonly ToolDefinition[] {
  if (options?.approval !== "host")
    throw refuse(
      "approval",
      '"host", since tools alone ask nobody; the plugin `shell` does',
      options?.approval,
    );
  const processes = new ShellProcesses(shellLimits(options));
  const { signal } = options;
  if (signal === undefined) return [shellTool(processes, { hasBackground: false })];
  const close = (): void => void processes.close();
  signal.addEventListener("abort", close, { once: true });
  if (signal.aborted) close();
  return toolsFor(processes);
}

/** All tools, for an owner who ends their commands. */
export function toolsFor(processes: ShellProcesses): readonly ToolDefinition[] {
  return [shellTool(processes, { hasBackground: true }), outputTool(processes), stopTool(processes)];
}

function shellTool(
  processes: ShellProcesses,
  { hasBackground }: { readonly hasBackground: boolean },
): ToolDefinition {
  return defineTool({
    name: "shell",
    description: [
      "Runs a shell command and returns its exit code and what it printed. It has no input and no terminal.",
      "Of a long output the beginning and the end are returned, and the name of a file with the whole of it.",
      ...(hasBackground
        ? [
            "With background: true it goes on running, and its handle is returned for shell_output and shell_stop.",
          ]
        : []),
    ].join(" "),
    input: shellInput(processes, hasBackground),
    replay: "unsafe",
    execute: async (raw, ctx) => {
      const input = raw as unknown as ShellInput; // checked by the schema
      const cwd = resolve(processes.limits.cwd, input.cwd ?? ".");
      const refused = await refusal(processes, { cwd });
      if (refused !== undefined) return refused;
      return input.background === true
        ? runBehind(processes, { input, cwd }, ctx)
        : run(processes, { input, cwd }, ctx);
    },
  });
}

interface Wanted {
  readonly input: ShellInput;
  readonly cwd: string;
}

async function run(processes: ShellProcesses, { input, cwd }: Wanted, ctx: ToolContext): Promise<unknown> {
  const { limits } = processes;
  const { timeoutMs = limits.timeoutMs } = input;
  ctx.signal.throwIfAborted();
  const process = await started(processes.start({ command: input.command, cwd }));
  if (!("pid" in process)) return process;
  const isLate = await endOf(process, { ctx, timeoutMs, progressMs: limits.progressMs });
  ctx.signal.throwIfAborted();
  if (!isLate && !processes.isClosed) return resultOf(process);
  const why = isLate ? `expected it to end within ${timeoutMs} ms` : "the session was closed";
  return toolFailure({
    code: isLate ? "shell_timeout" : "shell_closed",
    class: isLate ? "timeout" : "unavailable",
    message: `The command was stopped: ${why}. What it printed until then:\n${process.output.shown().output}`,
    raw: resultOf(process),
  });
}

/** Waits for the end of a command and brings it about when its time is over or its call is cancelled. */
async function endOf(
  process: ShellProcess,
  {
    ctx,
    timeoutMs,
    progressMs,
  }: { readonly ctx: ToolContext; readonly timeoutMs: number; readonly progressMs: number },
): Promise<boolean> {
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = !process.hasExited;
    void process.stop();
  }, timeoutMs);
  const cancel = (): void => void process.stop();
  ctx.signal.addEventListener("abort", cancel, { once: true });
  if (ctx.signal.aborted) cancel();
  const endProgress = progressOf(process, { everyMs: progressMs, tell: (text) => ctx.progress(text) });
  try {
    await process.ended;
    return isLate;
  } finally {
    clearTimeout(timer);
    endProgress();
    ctx.signal.removeEventListener("abort", cancel);
  }
}

async function runBehind(
  processes: ShellProcesses,
  { input, cwd }: Wanted,
  ctx: ToolContext,
): Promise<unknown> {
  const { maxBackground } = processes.limits;
  const running = processes.running(ctx.sessionId);
  if (running.length >= maxBackground) {
    return toolFailure({
      code: "too_many_shells",
      class: "resource_limit",
      message: `Expected fewer than ${maxBackground} commands in the background, found ${running.map(({ id }) => id).join(", ")}. End one with shell_stop first.`,
    });
  }
  const shell = await started(processes.startBackground(ctx.sessionId, { command: input.command, cwd }));
  if (!("process" in shell)) return shell;
  if (input.timeoutMs !== undefined) {
    const timer = setTimeout(() => void shell.process.stop(), input.timeoutMs);
    void shell.process.ended.then(() => clearTimeout(timer));
  }
  return { shellId: shell.id, pid: shell.process.pid, status: "running" };
}

function outputTool(processes: ShellProcesses): ToolDefinition {
  return defineTool({
    name: "shell_output",
    description:
      "Returns what a command in the background has printed since this was last asked, and whether it still runs.",
    input: handleInput({
      waitMs: {
        type: "integer",
        minimum: 0,
        maximum: LONGEST_WAIT_MS,
        description: "How long to wait for the command to end. By default not at all.",
      },
    }),
    replay: "safe",
    execute: async (raw, ctx) => {
      const { shellId, waitMs = 0 } = raw as unknown as HandleInput; // checked by the schema
      const shell = processes.find(ctx.sessionId, shellId);
      if (shell === undefined) return unknownShell(shellId);
      if (waitMs > 0) await settledWithin(shell.process, { ms: waitMs, signal: ctx.signal });
      return stateOf(shell);
    },
  });
}

function stopTool(processes: ShellProcesses): ToolDefinition {
  return defineTool({
    name: "shell_stop",
    description: "Ends a command in the background with everything it started, and returns its last output.",
    input: handleInput({}),
    replay: "idempotent",
    execute: async (raw, ctx) => {
      const { shellId } = raw as unknown as HandleInput; // checked by the schema
      const shell = processes.find(ctx.sessionId, shellId);
      if (shell === undefined) return unknownShell(shellId);
      await shell.process.stop();
      return stateOf(shell);
    },
  });
}

function resultOf(process: ShellProcess): object {
  return { ...process.exit, durationMs: process.durationMs, ...process.output.shown() };
}

function stateOf({ id, process }: BackgroundShell): object {
  const { exit, durationMs, output } = process;
  const isOver = exit !== undefined;
  const status = isOver ? "ended" : "running";
  return { shellId: id, status, ...exit, durationMs, ...output.takeUnread({ isOver }) };
}

async function settledWithin(
  process: ShellProcess,
  { ms, signal }: { readonly ms: number; readonly signal: AbortSignal },
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  let stop = (): void => undefined;
  const over = new Promise<void>((done) => {
    timer = setTimeout(done, ms);
    stop = done;
  });
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  await Promise.race([process.ended, over]);
  clearTimeout(timer);
  signal.removeEventListener("abort", stop);
}

/** What was started, or why it was not. */
async function started<T>(starting: Promise<T>): Promise<T | Failure> {
  try {
    return await starting;
  } catch (thrown) {
    return toolFailure({
      code: "shell_start_failed",
      class: "execution",
      message: `The command could not be started: ${messageOf(thrown)}`,
    });
  }
}

async function refusal(
  processes: ShellProcesses,
  { cwd }: { readonly cwd: string },
): Promise<Failure | undefined> {
  const { shell } = processes.limits;
  if (processes.isClosed)
    return toolFailure({
      code: "shell_closed",
      class: "unavailable",
      message: "The shell was closed with its session.",
    });
  if (process.platform === "win32")
    return toolFailure({
      code: "shell_unavailable",
      class: "unavailable",
      message: "Expected a system with process groups, found Windows, where there is no shell tool.",
    });
  const isShell = await access(shell, constants.X_OK).then(
    () => true,
    () => false,
  );
  if (!isShell)
    return toolFailure({
      code: "shell_unavailable",
      class: "unavailable",
      message: `Expected a program at ${shell}, the shell of this session, found none.`,
    });
  const isFolder = await stat(cwd).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (isFolder) return undefined;
  return toolFailure({
    code: "invalid_cwd",
    class: "invalid_request",
    message: `cwd: expected a folder, found none at ${cwd}. Leave it out for ${processes.limits.cwd}.`,
  });
}

function unknownShell(shellId: string): Failure {
  return toolFailure({
    code: "unknown_shell",
    class: "invalid_request",
    message: `shellId: expected the handle of a command that this session runs in the background, found ${shellId}. Commands end with the process that started them; start it again if it is needed.`,
  });
}

function shellInput({ limits }: ShellProcesses, hasBackground: boolean): JsonObject {
  const { timeoutMs, maxTimeoutMs, cwd } = limits;
  return {
    type: "object",
    required: ["command"],
    additionalProperties: false,
    properties: {
      command: { type: "string", minLength: 1, maxLength: LONGEST_COMMAND, description: "The command." },
      cwd: { type: "string", description: `The folder to run it in, by default ${cwd}.` },
      timeoutMs: {
        type: "integer",
        minimum: 1,
        maximum: maxTimeoutMs,
        description: `Milliseconds after which it is stopped, by default ${timeoutMs}${hasBackground ? "; without limit in the background" : ""}.`,
      },
      ...(hasBackground ? { background: { type: "boolean", description: "Whether to let it run on." } } : {}),
    },
  };
}

function handleInput(properties: JsonObject): JsonObject {
  return {
    type: "object",
    required: ["shellId"],
    additionalProperties: false,
    properties: {
      shellId: { type: "string", description: "The handle that shell returned." },
      ...properties,
    },
  };
}

// The shell as a plugin: it asks before it runs something, and ends what it started.
//   SH14  somebody is asked before a command runs, unless the options say otherwise.
//   SH15  commands in the background are tasks of their session: listed, and cancelled like any other.

import { definePlugin, type Json, type Plugin } from "../../../index.ts";
import type { ApprovalDecision, ApprovalHookContext, RuntimeSessionHost } from "../../../plugin/index.ts";
import { type ShellOptions, shellLimits } from "./shell-options.ts";
import { type BackgroundShell, ShellProcesses } from "./shell-processes.ts";
import { toolsFor } from "./shell-tools.ts";

const PLUGIN = "shell";
const LONGEST_LABEL = 200;
const REASON = "It runs a command on this machine.";

/**
 * Gives a session the tools `shell`, `shell_output` and `shell_stop`, and ends their commands when the session closes.
 * The commands reach whatever the account of this process reaches: folders of other tools do not confine them.
 */
export function shell(options: ShellOptions = {}): Plugin {
  const limits = shellLimits(options);
  return definePlugin({
    id: PLUGIN,
    build: ({ sessionId }) => {
      let host: RuntimeSessionHost | undefined;
      const processes = new ShellProcesses(limits, async (started) => {
        await host?.spawnManagedTask(sessionId, specOf(started), (task) => follow(started, task.signal));
      });
      return {
        tools: toolsFor(processes),
        approval: { request: (call: ApprovalHookContext) => decide(options, call) },
        ready: (ctx) => {
          host = ctx.host;
        },
        dispose: () => processes.close(),
      };
    },
  })();
}

async function decide(
  { ask = "always" }: ShellOptions,
  call: ApprovalHookContext,
): Promise<ApprovalDecision | undefined> {
  if (call.toolName !== "shell" || ask === "never") return undefined;
  const answer = ask === "always" ? "ask" : await ask(call);
  return typeof answer === "string" ? { decision: answer, reason: REASON } : answer;
}

function specOf({ id, command }: BackgroundShell): Parameters<RuntimeSessionHost["spawnManagedTask"]>[1] {
  return {
    id,
    kind: "other",
    producer: PLUGIN,
    label: command.slice(0, LONGEST_LABEL),
    cancelPolicy: "cooperative",
    closePolicy: "cancel",
  };
}

/** The task of a command: it ends with it, and ends it. */
async function follow({ process }: BackgroundShell, signal: AbortSignal): Promise<Json> {
  const stop = (): void => void process.stop();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  return { ...(await process.ended), durationMs: process.durationMs };
}

// The ways in which a start of a monitor ends, as its status and its last event tell them.

import { unreachable } from "../base/unreachable.ts";
import type { MonitorState } from "./monitor.ts";
import type { MonitorExit } from "./monitor-process.ts";

export interface MonitorEnding {
  readonly state: MonitorState;
  /** The event. */
  readonly message: string;
  readonly lastError?: string;
  readonly lastExitStatus?: number;
}

export const STOPPED: MonitorEnding = Object.freeze({ state: "stopped", message: "stopped" });

/** How a start ended: because of us, or by itself. */
export function endingOf(
  cause: "stopped" | "timed_out" | undefined,
  { exit, timeoutMs }: { readonly exit: MonitorExit; readonly timeoutMs: number },
): MonitorEnding {
  switch (cause) {
    case "stopped":
      return STOPPED;
    case "timed_out":
      return failed(`timed out after ${timeoutMs} ms`);
    case undefined:
      return exit.kind === "signal" ? failed(`ended by signal ${exit.signal}`) : exited(exit.status);
    default:
      return unreachable(cause);
  }
}

export function failed(message: string): MonitorEnding {
  return { state: "failed", message, lastError: message };
}

function exited(status: number): MonitorEnding {
  const message = `exited with status ${status}`;
  if (status === 0) return { state: "exited", message, lastExitStatus: status };
  return { ...failed(message), lastExitStatus: status };
}

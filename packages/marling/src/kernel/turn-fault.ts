// What ends a turn before its commit: an error in a hook, a transform, a contributor or a directive, or an abort at a
// checkpoint. The input and the outcome are committed, nothing else.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { TurnIssue, TurnOutcome } from "../model/turn.ts";

export class TurnFault extends Error {
  override readonly name: string = "TurnFault";
  readonly code: string;
  readonly pluginId: string | undefined;
  readonly hook: string | undefined;

  constructor(code: string, message: string, from: { readonly pluginId?: string | undefined; readonly hook?: string | undefined; readonly cause?: unknown } = {}) {
    super(message, { cause: from.cause });
    this.code = code;
    this.pluginId = from.pluginId;
    this.hook = from.hook;
  }
}

/** Codes that say the machinery failed, not the turn: they reject `result` and leave the input unsettled. */
const MACHINERY: ReadonlySet<string> = new Set(["revision_conflict", "session_deleted", "runtime_closed", "io_failed"]);

/** The fault that a thrown value stands for; machinery faults are passed on as they are. */
export function toFault(thrown: unknown): TurnFault {
  if (thrown instanceof TurnFault) return thrown;
  if (!MarlingError.is(thrown)) return new TurnFault("runtime_error", messageOf(thrown), { cause: thrown });
  if (MACHINERY.has(thrown.code)) throw thrown;
  const { pluginId, hook } = thrown.details;
  return new TurnFault(thrown.code, thrown.message, {
    pluginId: typeof pluginId === "string" ? pluginId : undefined,
    hook: typeof hook === "string" ? hook : undefined,
    cause: thrown,
  });
}

export function faultOutcome(fault: TurnFault): TurnOutcome {
  return { kind: "stopped", reason: "runtime_error", code: fault.code, message: fault.message };
}

export function faultIssue(fault: TurnFault): TurnIssue {
  const plugin = fault.pluginId === undefined ? {} : { pluginId: fault.pluginId };
  const hook = fault.hook === undefined ? {} : { hook: fault.hook };
  return { kind: fault.pluginId === undefined ? "runtime" : "plugin", code: fault.code, message: fault.message, ...plugin, ...hook };
}

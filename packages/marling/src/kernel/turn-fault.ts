// What ends a turn before its commit: an error in a hook, a transform, a contributor or a directive, or an abort at a
// checkpoint. The input and the outcome are committed, nothing else.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { TurnIssue, TurnOutcome } from "../model/turn.ts";
import { TurnParked } from "./turn-parked.ts";

export interface FaultSource {
  readonly pluginId?: string | undefined;
  readonly hook?: string | undefined;
  readonly cause?: unknown;
}

export class TurnFault extends Error {
  override readonly name: string = "TurnFault";
  readonly code: string;
  readonly pluginId: string | undefined;
  readonly hook: string | undefined;

  constructor(code: string, message: string, { pluginId, hook, cause }: FaultSource = {}) {
    super(message, { cause });
    this.code = code;
    this.pluginId = pluginId;
    this.hook = hook;
  }
}

/** Codes that say the machinery failed, not the turn: they reject `result` and leave the input unsettled. */
const MACHINERY: ReadonlySet<string> = new Set([
  "revision_conflict",
  "session_deleted",
  "runtime_closed",
  "io_failed",
  "lease_held",
  "lease_lost",
  "needs_binding",
  "store_busy",
  "turn_cancelled",
  "unsupported_version",
]);

export function isMachineryFault(thrown: unknown): thrown is MarlingError {
  return MarlingError.is(thrown) && MACHINERY.has(thrown.code);
}

/** The fault that a thrown value stands for; machinery faults, and turns that go to sleep, are passed on as they are. */
export function toFault(thrown: unknown): TurnFault {
  if (isMachineryFault(thrown) || thrown instanceof TurnParked) throw thrown;
  return faultOf(thrown);
}

export function faultOutcome(fault: TurnFault): TurnOutcome {
  return { kind: "stopped", reason: "runtime_error", code: fault.code, message: fault.message };
}

export function faultIssue({ code, message, pluginId, hook }: TurnFault): TurnIssue {
  return {
    kind: pluginId === undefined ? "runtime" : "plugin",
    code,
    message,
    ...(pluginId === undefined ? {} : { pluginId }),
    ...(hook === undefined ? {} : { hook }),
  };
}

/** A thrown value as a report shows it, where it ends nothing. */
export function issueOfThrown(thrown: unknown): TurnIssue {
  return faultIssue(faultOf(thrown));
}

function faultOf(thrown: unknown): TurnFault {
  if (thrown instanceof TurnFault) return thrown;
  if (!MarlingError.is(thrown)) return new TurnFault("runtime_error", messageOf(thrown), { cause: thrown });
  const { pluginId, hook } = thrown.details;
  return new TurnFault(thrown.code, thrown.message, {
    pluginId: typeof pluginId === "string" ? pluginId : undefined,
    hook: typeof hook === "string" ? hook : undefined,
    cause: thrown,
  });
}

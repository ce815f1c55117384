// A tool may wish something about the turn as a whole. The first successful call whose wish can be granted decides;
// the wishes of failed calls do not count.

import { unreachable } from "../base/unreachable.ts";
import type { Json } from "../model/json.ts";
import type { CompletedCall } from "../model/tool-call.ts";
import type { ToolControl } from "../model/tool-output.ts";
import type { MachineOutcome } from "./effect.ts";

/** The outcome that these calls, in their order, give the turn; `undefined` when it goes on. */
export function controlOutcome(calls: readonly CompletedCall[]): MachineOutcome | undefined {
  for (const { output } of calls) {
    if (output.outcome.kind !== "success" || output.control === undefined) continue;
    const outcome = grant(output.control);
    if (outcome !== undefined) return outcome;
  }
  return undefined;
}

function grant(control: ToolControl): MachineOutcome | undefined {
  switch (control.kind) {
    case "finish":
      return { kind: "finished", by: "tool", text: textOfValue(control.value), value: control.value };
    case "fail": {
      const { code, message } = control.failure;
      return { kind: "stopped", reason: "tool_error", code, message };
    }
    case "switch_frame": {
      const { key, task, nodes } = control;
      return isBlank(key) || isBlank(task) ? undefined : { kind: "switch_frame", key, task, nodes };
    }
    default:
      return unreachable(control);
  }
}

function textOfValue(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function isBlank(text: string): boolean {
  return text.trim() === "";
}

import { MarlingError } from "../base/errors.ts";
import { decodeJsonObject } from "../model/json.ts";
import {
  isPendingResult,
  isToolOutput,
  reviveToolOutput,
  type ToolOutput,
  toolFailure,
} from "../model/tool-output.ts";

/**
 * Reads an output that a plugin settles a call with: marked, or as plain data. A pending result has nothing to settle a
 * call with and becomes the failure `pending_tool_short_circuit`.
 */
export function reviveOutput(raw: unknown, where: string): ToolOutput {
  if (isPendingResult(raw)) {
    const message = "A plugin settled this call with a pending result, which has nothing to show.";
    return toolFailure({ code: "pending_tool_short_circuit", class: "internal", source: "runtime", message });
  }
  if (isToolOutput(raw)) return raw;
  const outcome = (raw as { readonly outcome?: { readonly kind?: unknown } | null } | null | undefined)
    ?.outcome;
  if (outcome?.kind !== "success" && outcome?.kind !== "failure" && outcome?.kind !== "cancelled") {
    const expected = "toolSuccess(...), toolFailure(...) or the same as plain data";
    throw new MarlingError("invalid_directive", `${where}: expected ${expected}, found ${describe(raw)}`, {
      details: { where },
    });
  }
  // The outcome has a known kind; its members were checked where the output was made.
  return reviveToolOutput(decodeJsonObject(raw, where) as unknown as ToolOutput);
}

function describe(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? typeof value;
  return Array.isArray(value)
    ? "an array"
    : `an object with ${Object.keys(value).join(", ") || "no members"}`;
}

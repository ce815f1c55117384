// One call against one provider: whatever the provider does, a result comes back.

import { decodeJson } from "../model/json.ts";
import { isToolOutput, type PendingResult, type ToolOutput, toolFailure } from "../model/tool-output.ts";
import type {
  ExecutableCall,
  PrepareContext,
  PrepareResult,
  ToolContext,
  ToolProvider,
  ValidatedCall,
} from "./contract.ts";
import { outputFromThrown, toToolResult } from "./output.ts";

/**
 * Prepares a call; without `prepare` it is prepared as it is. A changed id and a throw complete it as failed.
 * Arguments were checked and approved before, so they stay what they are: `prepare` speaks through the payload.
 */
export async function prepareWith(
  prepare: ToolProvider["prepare"],
  call: ValidatedCall,
  context: PrepareContext,
): Promise<PrepareResult> {
  const { input: _, ...plain } = call;
  if (prepare === undefined) return { kind: "prepared", call: plain };
  try {
    const result: unknown = (await prepare(call, context)) ?? { kind: "prepared", call: plain };
    return readPrepared(result, call);
  } catch (error) {
    return { kind: "completed", output: outputFromThrown(error, call.name, context) };
  }
}

/** Runs one attempt of a call. Never rejects. */
export async function executeWith(
  execute: ToolProvider["execute"],
  call: ExecutableCall,
  context: ToolContext,
): Promise<ToolOutput | PendingResult> {
  try {
    return toToolResult(await execute(call, context), call.name);
  } catch (error) {
    return outputFromThrown(error, call.name, context);
  }
}

function readPrepared(result: unknown, call: ValidatedCall): PrepareResult {
  if (!hasKind(result)) return nonsense(call, "neither a prepared nor a completed call");
  if (result.kind === "completed") {
    const output: unknown = result.output;
    return isToolOutput(output)
      ? { kind: "completed", output }
      : nonsense(call, "a completed call without an output");
  }
  const prepared: unknown = result.call;
  if (result.kind !== "prepared" || typeof prepared !== "object" || prepared === null) {
    return nonsense(call, "neither a prepared nor a completed call");
  }
  const { toolId, payload }: { toolId?: unknown; payload?: unknown } = prepared;
  if (toolId !== call.toolId) return mismatched(call, toolId);
  const { input: _, ...plain } = call;
  if (payload === undefined) return { kind: "prepared", call: plain };
  return {
    kind: "prepared",
    call: { ...plain, payload: decodeJson(payload, `tool ${call.name}: prepared payload`) },
  };
}

function hasKind(value: unknown): value is { readonly kind: unknown; readonly [member: string]: unknown } {
  return typeof value === "object" && value !== null && "kind" in value;
}

function mismatched({ toolId, name }: ValidatedCall, found: unknown): PrepareResult {
  const message = `The tool ${name} was prepared under another id: expected ${toolId}, found ${String(found)}.`;
  return refused("prepared_tool_id_mismatch", message);
}

function nonsense({ name }: ValidatedCall, found: string): PrepareResult {
  return refused(
    "invalid_prepared_call",
    `The tool ${name} could not be prepared: its provider returned ${found}.`,
  );
}

function refused(code: string, message: string): PrepareResult {
  const output = toolFailure({ class: "internal", code, message, source: "runtime" });
  return { kind: "completed", output };
}

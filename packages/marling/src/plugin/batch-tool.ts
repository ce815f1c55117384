// `batch`: several calls in one. It orchestrates: each call in it is a call of its own, with hooks, validation and events.
//   BT1  1 to 25 calls; a batch inside a batch, and a tool that is not there, fail for themselves.
//   BT2  results are in call order; the batch succeeds even if its calls fail.

import type { Json, JsonObject } from "../model/json.ts";
import type { ToolOutput } from "../model/tool-output.ts";
import { attachment, mapAttachments } from "../model/tool-value.ts";
import type { NestedReply, ToolContext } from "../tool/contract.ts";
import { defineTool, type ToolDefinition } from "../tool/define-tool.ts";

export const BATCH_TOOL = "batch";
const MOST_CALLS = 25;

interface BatchCall {
  readonly tool: string;
  readonly args?: JsonObject;
  /** Another word for `args` that models use. */
  readonly parameters?: JsonObject;
}

const INPUT: JsonObject = {
  type: "object",
  properties: {
    calls: {
      type: "array",
      minItems: 1,
      maxItems: MOST_CALLS,
      description: "The calls, in the order in which their results are wanted. They run at once.",
      items: {
        type: "object",
        properties: {
          tool: { type: "string", description: "The name of the tool." },
          args: { type: "object", description: "The arguments of the tool." },
          parameters: { type: "object", description: "The same as args." },
        },
        required: ["tool"],
        additionalProperties: false,
      },
    },
  },
  required: ["calls"],
  additionalProperties: false,
};

/** The `batch` tool of the standard protocol. */
export function batchTool(): ToolDefinition<unknown> {
  return defineTool({
    name: BATCH_TOOL,
    description: `Calls up to ${MOST_CALLS} tools at once and returns their results in order. Use it for calls that do not need each other's results.`,
    input: INPUT,
    isOrchestrating: true,
    // Its own work is to call others, and those have policies of their own.
    replay: "safe",
    execute: (input, context) =>
      runBatch((input as unknown as { readonly calls: readonly BatchCall[] }).calls, context),
  });
}

async function runBatch(calls: readonly BatchCall[], context: ToolContext): Promise<unknown> {
  const runnable = calls
    .map((call, index) => ({ call, index }))
    .filter(({ call }) => call.tool !== BATCH_TOOL);
  const replies = await context.callTools(
    runnable.map(({ call, index }) => ({
      name: call.tool,
      args: call.args ?? call.parameters ?? {},
      id: String(index).padStart(2, "0"),
    })),
  );
  const byIndex = new Map(runnable.map(({ index }, at) => [index, replies[at]]));
  return { results: calls.map((call, index) => resultOf(call, index, byIndex.get(index))) };
}

function resultOf({ tool }: BatchCall, index: number, reply: NestedReply | undefined): unknown {
  if (reply === undefined)
    return { index, tool, success: false, durationMs: 0, error: "A batch cannot be called inside a batch." };
  // The time a call took is recorded with it, so that every run of the turn says the same.
  return { index, tool, durationMs: reply.durationMs, ...shown(reply.output) };
}

function shown({ outcome }: ToolOutput): {
  readonly success: boolean;
  readonly result?: Json;
  readonly error?: string;
} {
  if (outcome.kind !== "success") return { success: false, error: outcome.message };
  // Attachments of a call stay attachments of the batch: back to what a tool writes, to be encoded once more.
  return {
    success: true,
    result: mapAttachments(outcome.value, (source) => attachment(source) as unknown as Json),
  };
}

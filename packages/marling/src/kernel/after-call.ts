import type { ToolOutput } from "../model/tool-output.ts";
import type { ToolManifest } from "../tool/contract.ts";
import { hasAttachments } from "../tool/output.ts";
import { keepAttachments } from "./attachments.ts";
import type { DispatchCall } from "./dispatch.ts";
import { failedHookOutput } from "./failed-hook-output.ts";
import { withHost } from "./services.ts";
import { afterToolCall } from "./tool-hooks.ts";
import type { TurnRun } from "./turn-run.ts";

export interface ToolResult {
  readonly call: DispatchCall;
  readonly manifest: ToolManifest;
  readonly output: ToolOutput;
  readonly durationMs: number;
}

/** Whether there is anything to do with a result before it counts. */
export function hasAfterCall({ session }: TurnRun, output: ToolOutput): boolean {
  return session.plugins.runner.has("tool_calls.after") || hasAttachments(output);
}

/** Stores what a tool's result carries and runs the hooks after the call on it. Never rejects. */
export async function afterCall(
  turn: TurnRun,
  { call, manifest, output, durationMs }: ToolResult,
): Promise<ToolOutput> {
  const { session } = turn;
  const { callId, name, args } = call;
  try {
    const result = await keepAttachments(session.parts, output, name);
    if (!session.plugins.runner.has("tool_calls.after")) return result;
    const context = {
      sessionId: session.id,
      toolName: manifest.name,
      callId,
      args,
      argumentProjection: manifest.argumentProjection,
      turnContext: turn.context,
      result,
      durationMs,
    };
    const final = await withHost(context, { scope: turn, name: "tool" }, (asked) =>
      afterToolCall(turn, asked),
    );
    return final === result ? result : await keepAttachments(session.parts, final, name);
  } catch (thrown) {
    return failedHookOutput("after_tool_call_failed", thrown);
  }
}

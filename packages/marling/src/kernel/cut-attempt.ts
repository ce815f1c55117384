// An attempt of a tool that a crash cut: its end is not known.

import { type ToolOutput, toolFailure } from "../model/tool-output.ts";
import type { RecoveryDecision } from "../plugin/hook-context.ts";
import type { ToolManifest } from "../tool/contract.ts";
import type { ReadyCall } from "./prepare-call.ts";
import { issueOfThrown } from "./turn-fault.ts";
import { hasBegun, type TurnRun } from "./turn-run.ts";

/** Whether an attempt that a crash cut may run again. */
export function isRepeatable({ replay = "unsafe" }: ToolManifest): boolean {
  return replay !== "unsafe";
}

/** An attempt without a record in a turn that is ending. A repeatable one leaves no mark: it may have begun. */
export async function endedAttempt(
  turn: TurnRun,
  { call, manifest }: ReadyCall,
  key: string,
): Promise<{ readonly output: ToolOutput; readonly durationMs: number } | undefined> {
  const mayHaveBegun = isRepeatable(manifest) || (await hasBegun(turn, key));
  return mayHaveBegun ? { output: unknownOutcome(call.name), durationMs: 0 } : undefined;
}

/** Asks plugins about a cut attempt; a plugin that fails decides nothing. */
export async function askAboutCut(
  scope: TurnRun,
  { call, manifest }: ReadyCall,
): Promise<RecoveryDecision | undefined> {
  const { plugins, id } = scope.session;
  if (!plugins.runner.has("recovery.decide")) return undefined;
  const { name: toolName, callId, args } = call;
  const { replay = "unsafe" } = manifest;
  try {
    const context = { sessionId: id, toolName, callId, args, replay };
    return await plugins.decideOnRecovery(context, { deltas: scope.deltas });
  } catch (thrown) {
    scope.log.issues.push(issueOfThrown(thrown));
    return undefined;
  }
}

/** The output of a call of which nobody knows whether it took effect. */
export function unknownOutcome(name: string): ToolOutput {
  const message = `The call of ${name} was interrupted. It may have taken effect; check before calling it again.`;
  return toolFailure({ code: "unknown_outcome", class: "internal", source: "runtime", message });
}

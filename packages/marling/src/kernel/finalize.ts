// Finalize: the hooks after the turn, before its commit.

import type { Message } from "../model/message.ts";
import { textOf } from "../model/message.ts";
import type { PluginEvent, TurnOutcome } from "../model/turn.ts";
import { NO_USAGE, addUsage } from "../model/usage.ts";
import type { TurnSummary } from "../plugin/hook-context.ts";
import type { PluginOwned } from "../plugin/hook-runner.ts";
import type { TurnRecord } from "../turn/effect.ts";
import type { DrivenTurn } from "./drive.ts";
import { applyDirectives } from "./directive.ts";
import { reportIssues } from "./lifecycle.ts";
import { type TurnRun, performEffect } from "./turn-run.ts";

export interface FinalizedTurn extends DrivenTurn {
  /** Told to watchers after the commit. */
  readonly events: readonly PluginOwned<PluginEvent>[];
}

export async function finalize(turn: TurnRun, driven: DrivenTurn): Promise<FinalizedTurn> {
  const leftover: readonly TurnRecord[] = turn.buffer.splice(0).map((message: Message) => ({ kind: "message", message }));
  const records = [...driven.records, ...leftover];
  const { plugins, id } = turn.session;
  if (!plugins.hasAfterTurnHooks) {
    await tellFinalized(turn, { ...driven, records });
    return { ...driven, records, events: [] };
  }
  const summary = summarize(turn, { ...driven, records });
  const owned = await performEffect(turn, { key: "finalize.hook.turn_after", kind: "hook_phase" }, async () =>
    plugins.afterTurn({ sessionId: id, turn: summary, host: turn.session.host("turnResult") }, turn.session.parts.probe),
  );
  const { messages, events } = await applyDirectives(turn, owned, { phase: "after_turn", prefix: "after_turn" });
  const final = { ...driven, records: [...records, ...messages.map((message): TurnRecord => ({ kind: "message", message }))] };
  await tellFinalized(turn, final);
  return { ...final, events };
}

async function tellFinalized(turn: TurnRun, driven: DrivenTurn): Promise<void> {
  const { plugins, id } = turn.session;
  if (!plugins.hasRuntimeEventHooks) return;
  const issues = await plugins.emitRuntimeEvent({ kind: "turn_finalized", sessionId: id, turn: summarize(turn, driven) }, turn.session.parts.probe);
  reportIssues(turn, issues);
}

export function summarize(turn: TurnRun, { outcome, records }: DrivenTurn): TurnSummary {
  const { toolCalls, modelCalls, issues } = turn.log;
  return Object.freeze({
    turnId: turn.turnId,
    outcome: visibleOutcome(outcome),
    assistantOutput: assistantText(records),
    usage: modelCalls.reduce((sum, call) => addUsage(sum, call.usage), NO_USAGE),
    toolCalls: Object.freeze([...toolCalls]),
    modelCalls: Object.freeze([...modelCalls]),
    issues: Object.freeze([...issues]),
  });
}

/** A switch of frames is not an end; until the turn has gone on, it has finished its part with no text. */
export function visibleOutcome(outcome: DrivenTurn["outcome"]): TurnOutcome {
  return outcome.kind === "switch_frame" ? { kind: "finished", by: "tool", text: "" } : outcome;
}

/** The words of the last assistant message that the turn added. */
export function assistantText(records: readonly TurnRecord[]): string {
  const last = records.findLast((record) => record.kind === "message" && record.message.role === "assistant");
  return last?.kind === "message" ? textOf(last.message) : "";
}

// Finalize: the hooks after the turn, before its commit.

import { textOf } from "../model/message.ts";
import type { PluginEvent, TurnOutcome } from "../model/turn.ts";
import { addUsage, NO_USAGE } from "../model/usage.ts";
import type { TurnSummary } from "../plugin/hook-context.ts";
import type { PluginOwned } from "../plugin/hook-runner.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { noHooks, runPhase } from "./directive.ts";
import type { DrivenTurn } from "./drive.ts";
import { recordsOf } from "./hook-messages.ts";
import { tellTurn } from "./lifecycle.ts";
import { withHost } from "./services.ts";
import type { TurnRun } from "./turn-run.ts";

export interface FinalizedTurn extends DrivenTurn {
  /** Told to watchers after the commit. */
  readonly events: readonly PluginOwned<PluginEvent>[];
  /** Something failed before the commit: of what the turn did, only its input and its outcome count. */
  readonly isFault?: true;
}

/** What hooks after tool calls left behind is kept, then the hooks after the turn add to it. */
export async function finalize(turn: TurnRun, driven: DrivenTurn): Promise<FinalizedTurn> {
  const leftover = recordsOf(turn.buffer.splice(0));
  const ended = leftover.length === 0 ? driven : { ...driven, records: [...driven.records, ...leftover] };
  const { plugins, id: sessionId } = turn.session;
  const { added, events } = plugins.hasAfterTurnHooks
    ? await askHooks(turn, ended)
    : { added: [], events: [] };
  const final = added.length === 0 ? ended : { ...ended, records: [...ended.records, ...added] };
  if (turn.control.ending === undefined)
    await tellTurn(turn, () => ({ kind: "turn_finalized", sessionId, turn: summarize(turn, final) }));
  return { ...final, events };
}

async function askHooks(
  turn: TurnRun,
  ended: DrivenTurn,
): Promise<{ readonly added: readonly TurnRecord[]; readonly events: FinalizedTurn["events"] }> {
  const { session } = turn;
  const { plugins, id } = session;
  const { messages, events } = await runPhase(turn, {
    phase: "after_turn",
    effect: { key: "finalize.hook.turn_after", kind: "hook_phase", ended: noHooks },
    ask: (scope) =>
      withHost({ sessionId: id, turn: summarize(turn, ended) }, { scope, name: "turnResult" }, (context) =>
        plugins.afterTurn(context, session.parts.probe),
      ),
  });
  return { added: recordsOf(messages), events };
}

function summarize(turn: TurnRun, { outcome, records }: DrivenTurn): TurnSummary {
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
function visibleOutcome(outcome: DrivenTurn["outcome"]): TurnOutcome {
  return outcome.kind === "switch_frame" ? { kind: "finished", by: "tool", text: "" } : outcome;
}

/** The words of the last assistant message that the turn added. */
export function assistantText(records: readonly TurnRecord[]): string {
  const last = records.findLast((record) => record.kind === "message" && record.message.role === "assistant");
  return last?.kind === "message" ? textOf(last.message) : "";
}

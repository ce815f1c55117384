// A checkpoint: what arrived meanwhile joins the turn, and plugins may add to it or end it.

import type { Delivery, TurnEffect, TurnRecord } from "../turn/effect.ts";
import { runPhase } from "./directive.ts";
import { recordsOf } from "./hook-messages.ts";
import { TurnFault } from "./turn-fault.ts";
import { emitPluginEvents, type TurnRun, viewOf } from "./turn-run.ts";

type CheckpointEffect = Extract<TurnEffect, { kind: "checkpoint" }>;

export async function performCheckpoint(
  turn: TurnRun,
  effect: CheckpointEffect,
  records: readonly TurnRecord[],
): Promise<Delivery> {
  const { session } = turn;
  const buffered = turn.buffer.splice(0);
  if (!session.plugins.hasCheckpointHooks) return { messages: buffered };
  const { messages, events, abort } = await runPhase(turn, {
    phase: "checkpoint",
    effect,
    ask: () =>
      session.plugins.atCheckpoint({
        sessionId: session.id,
        checkpoint: effect.checkpoint,
        state: viewOf(turn, [...records, ...recordsOf(buffered)]),
        host: session.host("checkpoint"),
      }),
  });
  for (const { pluginId, value } of events) emitPluginEvents(turn, pluginId, [value]);
  if (abort === undefined) return { messages: [...buffered, ...messages] };
  const { code, message } = abort.value;
  throw new TurnFault(code, message, { pluginId: abort.pluginId, hook: "turn.checkpoint" });
}

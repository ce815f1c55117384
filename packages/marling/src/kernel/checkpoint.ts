// A checkpoint: what arrived meanwhile joins the turn, and plugins may add to it or end it.

import type { Message } from "../model/message.ts";
import type { Delivery, TurnEffect, TurnRecord } from "../turn/effect.ts";
import { applyDirectives } from "./directive.ts";
import { TurnFault } from "./turn-fault.ts";
import { type TurnRun, emitPluginEvents, performEffect, viewOf } from "./turn-run.ts";

type CheckpointEffect = Extract<TurnEffect, { kind: "checkpoint" }>;

export async function performCheckpoint(turn: TurnRun, effect: CheckpointEffect, records: readonly TurnRecord[]): Promise<Delivery> {
  const { session } = turn;
  const buffered = turn.buffer.splice(0);
  const owned = await performEffect(turn, effect, async () =>
    session.plugins.atCheckpoint({
      sessionId: session.id,
      checkpoint: effect.checkpoint,
      state: viewOf(turn, [...records, ...buffered.map(asRecord)]),
      host: session.host("checkpoint"),
    }),
  );
  const { messages, events, abort } = await applyDirectives(turn, owned, { phase: "checkpoint", prefix: `${effect.key}` });
  for (const { pluginId, value } of events) emitPluginEvents(turn, pluginId, [value]);
  if (abort !== undefined) throw new TurnFault(abort.value.code, abort.value.message, { pluginId: abort.pluginId, hook: "turn.checkpoint" });
  return { messages: [...buffered, ...messages] };
}

function asRecord(message: Message): TurnRecord {
  return { kind: "message", message };
}

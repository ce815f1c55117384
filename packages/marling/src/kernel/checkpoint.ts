// A checkpoint: what arrived meanwhile joins the turn, and plugins may add to it or end it.
//   CP1  inputs that join are marked in the store with the turn and the checkpoint before anybody sees them; every run
//        of the turn gets the same ones at the same checkpoint, and its commit settles them.
//   CP2  a checkpoint that later effects were recorded behind takes nothing new.

import type { EffectKey } from "../model/ids.ts";
import type { Message } from "../model/message.ts";
import type { Delivery, TurnEffect, TurnRecord } from "../turn/effect.ts";
import { inputMessage } from "./admit.ts";
import { noHooks, runPhase } from "./directive.ts";
import { recordsOf } from "./hook-messages.ts";
import { withHost } from "./services.ts";
import { TurnFault } from "./turn-fault.ts";
import { emitPluginEvents, isReplaying, type TurnRun, viewOf } from "./turn-run.ts";

type CheckpointEffect = Extract<TurnEffect, { kind: "checkpoint" }>;

export async function performCheckpoint(
  turn: TurnRun,
  effect: CheckpointEffect,
  records: readonly TurnRecord[],
): Promise<Delivery> {
  const { session } = turn;
  const waiting = await session.parts.store.pending(session.id, "active_turn");
  const isAnyOther = waiting.some(({ turnId }) => turnId !== turn.acceptedId);
  const arrived = [...(isAnyOther ? await joiningInputs(turn, effect) : []), ...turn.buffer.splice(0)];
  if (!session.plugins.hasCheckpointHooks) return { messages: arrived };
  const { messages, events, abort } = await runPhase(turn, {
    phase: "checkpoint",
    effect: { key: effect.key, kind: effect.kind, ended: noHooks },
    ask: (scope) => {
      const state = viewOf(turn, [...records, ...recordsOf(arrived)]);
      const context = { sessionId: session.id, checkpoint: effect.checkpoint, state };
      return withHost(context, { scope, name: "checkpoint" }, (asked) => session.plugins.atCheckpoint(asked));
    },
  });
  for (const { pluginId, value } of events) emitPluginEvents(turn, pluginId, [value]);
  if (abort === undefined) return { messages: [...arrived, ...messages] };
  const { code, message } = abort.value;
  throw new TurnFault(code, message, { pluginId: abort.pluginId, hook: "turn.checkpoint" });
}

/** Takes the inputs that wait to join the turn. */
async function joiningInputs(turn: TurnRun, effect: CheckpointEffect): Promise<readonly Message[]> {
  const { id, parts } = turn.session;
  const rows = await parts.store.deliver({
    sessionId: id,
    generation: turn.lease,
    turnId: turn.acceptedId,
    key: `${turn.turnId}/${effect.key}` as EffectKey,
    isReplay: await isReplaying(turn),
  });
  if (rows.length === 0) return [];
  turn.joined.push(...rows.map(({ inputId }) => inputId));
  const inputIds = rows.map(({ inputId }) => inputId);
  turn.emit({ kind: "input_accepted", inputIds, checkpoint: effect.checkpoint });
  return rows.map(inputMessage);
}

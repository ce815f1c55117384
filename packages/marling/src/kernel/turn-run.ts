// What the phases of one turn share. Phases add to the log and to the buffer; they keep no references to each other.

import type { SharedList } from "../base/shared-list.ts";
import type { EffectKey, TurnId } from "../model/ids.ts";
import type { JsonObject } from "../model/json.ts";
import type { Message } from "../model/message.ts";
import type { ToolCallRecord } from "../model/tool-output.ts";
import type { ModelCallRecord, PluginEvent, TurnEvent, TurnIssue, TurnOutcome } from "../model/turn.ts";
import type { EffectKind } from "../effects/contract.ts";
import type { TurnContext } from "../plugin/hook-context.ts";
import type { NodeDraft } from "../session/node.ts";
import type { SessionReadView } from "../session/view.ts";
import type { TurnRecord } from "../turn/effect.ts";
import type { Environment } from "./environment.ts";
import type { ResidentSession } from "./resident-session.ts";
import type { TurnControl } from "./turn-control.ts";

/** What happened so far that ends up in the report. */
export interface TurnLog {
  readonly issues: TurnIssue[];
  readonly toolCalls: ToolCallRecord[];
  readonly modelCalls: ModelCallRecord[];
}

export interface TurnRun {
  readonly session: ResidentSession;
  readonly turnId: TurnId;
  readonly control: TurnControl;
  readonly context: TurnContext;
  readonly log: TurnLog;
  readonly extension: unknown;
  readonly outputSchema: JsonObject | undefined;
  readonly inputMessage: Message;
  /** The messages the model is shown before what the turn adds; a transform may have changed them. */
  shown: SharedList<Message>;
  /** How many of the turn's records are in `shown` already. */
  shownRecords: number;
  /** Seed nodes of a frame that the turn's records will open, when the context was compacted inside it. */
  compaction: readonly NodeDraft[] | undefined;
  /** Model calls of earlier parts of the turn, which are in the ledger already. */
  readonly committedCalls: number;
  /** Messages that hooks after tool calls left for the next checkpoint. */
  readonly buffer: Message[];
  /** The prompt and tools of the round, once prepared. */
  environment: Environment | undefined;
  /** An outcome that ends the turn at the next step, whatever the protocol would do. */
  forced: TurnOutcome | undefined;
  emit(event: TurnEvent): void;
}

/** The messages of a turn as the model sees them, what is in flight included. Costs what the turn added. */
export function messagesOf(turn: TurnRun, records: readonly TurnRecord[]): SharedList<Message> {
  const added: Message[] = [];
  for (const record of records.slice(turn.shownRecords)) if (record.kind === "message") added.push(record.message);
  return turn.shown.append(added);
}

/** The read view that hooks get: the session at the turn's base with the messages in flight. */
export function viewOf(turn: TurnRun, records: readonly TurnRecord[]): SessionReadView {
  return turn.session.readView(messagesOf(turn, records));
}

/** Runs one effect: its outcome is that of an earlier run if there was one, with the plugin state it left behind. */
export async function performEffect<T>(turn: TurnRun, effect: { readonly key: string; readonly kind: EffectKind }, perform: () => Promise<T>): Promise<T> {
  const { session, turnId } = turn;
  let hasRun = false;
  const request = { sessionId: session.id, turnId, key: effect.key as EffectKey, kind: effect.kind };
  const recorded = await session.parts.effects.run(request, async () => {
    hasRun = true;
    const value = await perform();
    return { value, deltas: session.plugins.takeDeltas() };
  });
  if (!hasRun) for (const delta of recorded.deltas) session.plugins.applyDelta(delta);
  return recorded.value;
}

export function emitPluginEvents(turn: TurnRun, pluginId: string, events: readonly PluginEvent[]): void {
  for (const event of events) turn.emit({ kind: "plugin_event", pluginId, event });
}

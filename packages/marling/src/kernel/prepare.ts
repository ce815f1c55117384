// Prepare: what the model will see, and what hooks make of it, before the first effect of the protocol.

import { SharedList } from "../base/shared-list.ts";
import type { Message } from "../model/message.ts";
import type { TurnOutcome } from "../model/turn.ts";
import { decodePreparedContext } from "../plugin/prepared-context.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { applyDirectives } from "./directive.ts";
import { modelOf } from "./model-binding.ts";
import type { ResidentSession } from "./resident-session.ts";
import { type TurnRun, emitPluginEvents, performEffect, viewOf } from "./turn-run.ts";

export interface PreparedTurn {
  /** What the turn adds before the protocol begins: the input, and what hooks enqueued. */
  readonly records: readonly TurnRecord[];
  /** Set when a plugin ended the turn before it began. */
  readonly outcome: TurnOutcome | undefined;
}

/** The messages the model is shown, after the context transforms. Without transforms nothing is copied. */
export async function transformContext(session: ResidentSession, input: Message): Promise<SharedList<Message>> {
  const base = session.state.graph.messages.append([input]);
  if (!session.plugins.hasContextTransforms) {
    session.setContextOverlay({ providers: [], prompts: [], includeBaseTools: true });
    return base;
  }
  const view = session.readView(base);
  const prepared = decodePreparedContext(
    await session.plugins.prepareTurnContext(
      {
        sessionId: session.id,
        state: view,
        promptUsage: session.state.lastPromptUsage,
        maxContextTokens: modelOf(session).contextWindow,
        host: session.host("history"),
      },
      { messages: view.messages, promptContributions: [], toolProviders: [], includeBaseTools: true },
    ),
  );
  const { toolProviders, promptContributions, includeBaseTools } = prepared;
  session.setContextOverlay({ providers: toolProviders, prompts: promptContributions, includeBaseTools });
  return prepared.messages === view.messages ? base : SharedList.of(prepared.messages);
}

/** Runs the hooks before the turn and applies what they want. */
export async function prepare(turn: TurnRun): Promise<PreparedTurn> {
  const input: TurnRecord = { kind: "message", message: turn.inputMessage };
  const { session } = turn;
  const owned = await performEffect(turn, { key: "0.hook.turn_before", kind: "hook_phase" }, async () =>
    session.plugins.beforeTurn({ sessionId: session.id, state: viewOf(turn, [input]), turnContext: turn.context, host: session.host("turn") }),
  );
  const { messages, events, abort } = await applyDirectives(turn, owned, { phase: "before_turn", prefix: "before_turn" });
  for (const { pluginId, value } of events) emitPluginEvents(turn, pluginId, [value]);
  const records = [input, ...messages.map((message): TurnRecord => ({ kind: "message", message }))];
  if (abort === undefined) return { records, outcome: undefined };
  const { code, message } = abort.value;
  const issue = { kind: "plugin", code, message, pluginId: abort.pluginId, hook: "turn.before" };
  turn.log.issues.push(issue);
  turn.emit({ kind: "error", issue });
  return { records, outcome: { kind: "stopped", reason: "plugin_abort", code, message } };
}

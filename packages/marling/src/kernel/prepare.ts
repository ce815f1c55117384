// Prepare: what the model will see, and what hooks make of it, before the first effect of the protocol.

import { SharedList } from "../base/shared-list.ts";
import type { Message } from "../model/message.ts";
import type { TurnOutcome } from "../model/turn.ts";
import type { PreparedContext } from "../plugin/hook-context.ts";
import { decodePreparedContext } from "../plugin/prepared-context.ts";
import type { TurnRecord } from "../turn/effect.ts";
import { noHooks, runPhase } from "./directive.ts";
import { recordsOf } from "./hook-messages.ts";
import { reportIssues } from "./lifecycle.ts";
import { modelOf } from "./model-binding.ts";
import { namedScope } from "./service-scope.ts";
import { withHost } from "./services.ts";
import { emitPluginEvents, type TurnRun, viewOf } from "./turn-run.ts";

/** The scope of services that context transforms ask for. */
export const CONTEXT_SCOPE = "0.context";

export interface PreparedTurn {
  /** What the turn adds before the protocol begins: the input, and what hooks enqueued. */
  readonly records: readonly TurnRecord[];
  /** Set when a plugin ended the turn before it began. */
  readonly outcome: TurnOutcome | undefined;
}

export interface TransformedContext {
  readonly shown: SharedList<Message>;
  /** Set when a transform wants the context compacted before the first round. */
  readonly compact?: PreparedContext["compact"];
}

/**
 * The messages the model is shown, after the context transforms. Without transforms nothing is copied. Transforms run
 * again in every run of the turn; what they started in an earlier one they get again.
 */
export async function transformContext(turn: TurnRun): Promise<TransformedContext> {
  const { session } = turn;
  const { graph } = session.state;
  turn.base = graph.leaf;
  const base = graph.messages.branch().append([turn.inputMessage]);
  if (!session.plugins.hasContextTransforms) {
    session.setContextOverlay({ providers: [], prompts: [], includeBaseTools: true });
    return { shown: base };
  }
  const view = session.readView(base);
  const context = {
    sessionId: session.id,
    state: view,
    promptUsage: session.state.lastPromptUsage,
    maxContextTokens: modelOf(session).contextWindow,
  };
  const prepared = decodePreparedContext(
    await withHost(context, { scope: namedScope(turn, CONTEXT_SCOPE), name: "history" }, (asked) =>
      session.plugins.prepareTurnContext(
        asked,
        { messages: view.messages, promptContributions: [], toolProviders: [], includeBaseTools: true },
        session.parts.probe,
      ),
    ),
  );
  const { toolProviders, promptContributions, includeBaseTools, compact } = prepared;
  session.setContextOverlay({ providers: toolProviders, prompts: promptContributions, includeBaseTools });
  const shown = prepared.messages === view.messages ? base : SharedList.of(prepared.messages);
  return compact === undefined ? { shown } : { shown, compact };
}

/** Runs the hooks before the turn and applies what they want. An abort ends the turn and keeps what was enqueued. */
export async function prepare(turn: TurnRun): Promise<PreparedTurn> {
  const { session } = turn;
  const input = recordsOf([turn.inputMessage]);
  if (!session.plugins.hasBeforeTurnHooks) return { records: input, outcome: undefined };
  const { messages, events, abort } = await runPhase(turn, {
    phase: "before_turn",
    effect: { key: "0.hook.turn_before", kind: "hook_phase", ended: noHooks },
    ask: (scope) => {
      const context = { sessionId: session.id, state: viewOf(turn, input), turnContext: turn.context };
      return withHost(context, { scope, name: "turn" }, (asked) =>
        session.plugins.beforeTurn(asked, session.parts.probe),
      );
    },
  });
  for (const { pluginId, value } of events) emitPluginEvents(turn, pluginId, [value]);
  const records = [...input, ...recordsOf(messages)];
  if (abort === undefined) return { records, outcome: undefined };
  const { code, message } = abort.value;
  reportIssues(turn, [{ kind: "plugin", code, message, pluginId: abort.pluginId, hook: "turn.before" }]);
  return { records, outcome: { kind: "stopped", reason: "plugin_abort", code, message } };
}

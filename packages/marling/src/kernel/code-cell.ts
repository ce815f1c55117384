// A cell of code that the protocol asks for, run by the session's executor.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { Json } from "../model/json.ts";
import type { CompletedCall } from "../model/tool-call.ts";
import type { CodeExecutionContext, ExecResponse } from "../plugin/protocol.ts";
import type { CodeResult, TurnEffect, TurnRecord } from "../turn/effect.ts";
import { dispatchCalls } from "./dispatch.ts";
import { nestedCalls } from "./nested-calls.ts";
import { type TurnRun, messagesOf } from "./turn-run.ts";

type CodeEffect = Extract<TurnEffect, { kind: "code_cell" }>;

export async function performCode(turn: TurnRun, effect: CodeEffect, records: readonly TurnRecord[]): Promise<CodeResult> {
  const { session } = turn;
  const { language, code } = effect;
  const calls: CompletedCall[] = [];
  const startedAt = session.parts.clock.monotonic();
  turn.emit({ kind: "code_started", language, code });
  const response = await run(turn, effect, codeExecutionContext(turn, { effect, records, calls }));
  const output = response.observations.join("\n");
  const error = response.error === undefined ? {} : { error: response.error };
  turn.emit({ kind: "code_finished", language, output, ...error, durationMs: Math.round(session.parts.clock.monotonic() - startedAt) });
  turn.log.toolCalls.push(...calls.map(({ callId, name, args, output: result, durationMs }) => ({ callId, name, args, output: result, durationMs })));
  return { output, ...error, calls, ...(response.terminalFinish === undefined ? {} : { finish: response.terminalFinish }) };
}

async function run(turn: TurnRun, { language, code }: CodeEffect, context: CodeExecutionContext): Promise<ExecResponse> {
  const { codeExecutor } = turn.session.plugins;
  if (codeExecutor === undefined) return { observations: [], error: unavailable(turn).message };
  try {
    return await codeExecutor.executeCode(context, { language, code, acceptFinish: true });
  } catch (thrown) {
    return { observations: [], error: messageOf(thrown) };
  }
}

/** What code may reach while it runs. Fails when the catalog cannot be resolved. */
export function codeExecutionContext(
  turn: TurnRun,
  cell: { readonly effect: CodeEffect; readonly records: readonly TurnRecord[]; readonly calls: CompletedCall[] },
): CodeExecutionContext {
  const { session } = turn;
  const { effect, records, calls } = cell;
  return Object.freeze({
    sessionId: session.id,
    frameId: session.frameId,
    toolCatalog: session.resolvedToolCatalog(),
    tools: session.sharedToolCatalog(),
    sessions: session.services,
    sessionLifecycle: session.services,
    sessionGraph: session.services,
    turnContext: turn.context,
    chronologicalProjection: chronological(turn, records),
    environment: { frameId: session.frameId, model: session.policy.model } as Json,
    protocolExtension: turn.extension,
    parentInvocation: undefined,
    triggers: session.plugins.triggers,
    signal: turn.control.signal,
    cancel: (reason: string) => void turn.control.cancel(reason),
    emit: turn.emit,
    callTools: async (wanted: Parameters<CodeExecutionContext["callTools"]>[0]) => {
      const list = nestedCalls(wanted, { parentCallId: effect.key, from: calls.length });
      const done = await dispatchCalls(turn, list, { path: "code", round: effect.round, parentCallId: effect.key });
      calls.push(...done);
      return done;
    },
    completedCalls: calls,
  });
}

/** Messages and protocol events in order, each message once. */
function chronological(turn: TurnRun, records: readonly TurnRecord[]): readonly Json[] {
  const shown: Json[] = [...messagesOf(turn, records)].map((message) => ({ kind: "message", message }) as unknown as Json);
  const events = records.filter((record) => record.kind === "protocol_event").map((record) => record as unknown as Json);
  return [...shown, ...events];
}

function unavailable(turn: TurnRun): MarlingError {
  return new MarlingError("code_execution_unavailable", `session ${turn.session.id}: expected a plugin with a code executor, found none`);
}

// A cell of code that the protocol asks for, run by the session's executor. A failed cell is an outcome: the protocol
// sees its error and decides.

import { MarlingError } from "../base/errors.ts";
import type { Json } from "../model/json.ts";
import type { CompletedCall } from "../model/tool-call.ts";
import type { CodeExecutionContext, ExecResponse } from "../plugin/protocol.ts";
import type { SessionGraph } from "../session/graph.ts";
import { runConcurrently } from "../tool/dispatch.ts";
import type { CodeResult, TurnEffect, TurnRecord } from "../turn/effect.ts";
import { dispatchCalls } from "./dispatch.ts";
import { reportIssues } from "./lifecycle.ts";
import { nestedCalls } from "./nested-calls.ts";
import { slotFailure } from "./slot-call.ts";
import { issueOfThrown } from "./turn-fault.ts";
import type { TurnRun } from "./turn-run.ts";

type CodeEffect = Extract<TurnEffect, { kind: "code_cell" }>;

export async function performCode(
  turn: TurnRun,
  effect: CodeEffect,
  records: readonly TurnRecord[],
): Promise<CodeResult> {
  const { clock } = turn.session.parts;
  const { language, code } = effect;
  const calls: CompletedCall[] = [];
  const context = codeExecutionContext(turn, { effect, records, calls });
  const startedAt = clock.monotonic();
  turn.emit({ kind: "code_started", language, code });
  const { observations, error, terminalFinish } = await run(turn, effect, context);
  const output = observations.join("\n");
  const failed = error === undefined ? {} : { error };
  turn.emit({
    kind: "code_finished",
    language,
    output,
    ...failed,
    durationMs: Math.round(clock.monotonic() - startedAt),
  });
  const finish = terminalFinish === undefined ? {} : { finish: terminalFinish };
  return { output, ...failed, calls: [...calls], ...finish };
}

/** Runs the cell. A cancelled one has the grace of a tool call to answer; then it is left to itself. */
async function run(turn: TurnRun, effect: CodeEffect, context: CodeExecutionContext): Promise<ExecResponse> {
  const { signal } = turn.control;
  const { clock } = turn.session.parts;
  const cancelled = (): ExecResponse => ({
    observations: [],
    error: "The turn was cancelled while the code ran.",
  });
  const cell = () => execute(turn, effect, context);
  const [response = cancelled()] = await runConcurrently([effect], cell, {
    cap: 1,
    signal,
    clock,
    cancelled,
  });
  return response;
}

async function execute(
  turn: TurnRun,
  { language, code }: CodeEffect,
  context: CodeExecutionContext,
): Promise<ExecResponse> {
  const { session } = turn;
  const { codeExecutor } = session.plugins;
  if (codeExecutor === undefined) return broken(turn, unavailable(turn));
  session.runningCells += 1;
  try {
    return await codeExecutor.executeCode(context, { language, code, acceptFinish: true });
  } catch (thrown) {
    const site = {
      slot: "execution.code_executor",
      callback: "executeCode",
      code: "code_runtime_stopped",
    } as const;
    return broken(turn, slotFailure(session, site, thrown));
  } finally {
    session.runningCells -= 1;
  }
}

/** Code that could not run is told to the protocol as the cell's error, and to the host as what it is. */
function broken(turn: TurnRun, error: MarlingError): ExecResponse {
  reportIssues(turn, [issueOfThrown(error)]);
  return { observations: [], error: error.message };
}

/** What code may reach while it runs. Fails when the catalog cannot be resolved. */
export function codeExecutionContext(
  turn: TurnRun,
  cell: {
    readonly effect: CodeEffect;
    readonly records: readonly TurnRecord[];
    readonly calls: CompletedCall[];
  },
): CodeExecutionContext {
  const { session } = turn;
  const { effect, records, calls } = cell;
  const parentCallId = `${turn.turnId}.${effect.key}`;
  const { graph } = session.state;
  let asked = 0;
  let projection: readonly Json[] | undefined;
  return Object.freeze({
    sessionId: session.id,
    frameId: session.frameId,
    toolCatalog: session.resolvedToolCatalog(),
    tools: session.sharedToolCatalog(),
    sessions: session.services,
    sessionLifecycle: session.services,
    sessionGraph: session.services,
    turnContext: turn.context,
    get chronologicalProjection(): readonly Json[] {
      projection ??= chronological(graph, records);
      return projection;
    },
    environment: { frameId: session.frameId, model: session.policy.model } as Json,
    protocolExtension: turn.extension,
    parentInvocation: undefined,
    triggers: session.plugins.triggers,
    signal: turn.control.signal,
    cancel: (reason: string) => void turn.control.cancel(reason),
    emit: turn.emit,
    message: (message: Parameters<CodeExecutionContext["message"]>[0]) => {
      if (message.kind !== "code") session.messageSender?.push(message);
    },
    callTools: async (wanted: Parameters<CodeExecutionContext["callTools"]>[0]) => {
      const list = nestedCalls(wanted, { parentCallId, from: asked });
      asked += list.length;
      const done = await dispatchCalls(turn, list, { path: "code", round: effect.round, parentCallId });
      calls.push(...done);
      return done;
    },
    completedCalls: calls,
  });
}

/** Messages and protocol events of the frame in order, then those in flight; each message once. */
function chronological(
  { path, currentFrameId }: SessionGraph,
  records: readonly TurnRecord[],
): readonly Json[] {
  let start = path.length;
  while (start > 0 && path.at(start - 1)?.frameId === currentFrameId) start -= 1;
  const seen = new Set<string>();
  const projected = [...path.tail(path.length - start), ...records].flatMap((item): readonly object[] => {
    if (item.kind === "protocol_event")
      return [{ kind: item.kind, pluginId: item.pluginId, payload: item.payload }];
    if (item.kind !== "message" || seen.has(item.message.id)) return [];
    seen.add(item.message.id);
    return [{ kind: item.kind, message: item.message }];
  });
  return Object.freeze(projected as unknown as readonly Json[]);
}

function unavailable({ session }: TurnRun): MarlingError {
  const message = `session ${session.id}: expected a plugin with a code executor, found none`;
  return new MarlingError("code_execution_unavailable", message, { details: { sessionId: session.id } });
}

// A cell of code that the protocol asks for, run by the session's executor. A failed cell is an outcome: the protocol
// sees its error and decides. A cell that an earlier run ran is shown again, with its calls.

import { MarlingError } from "../base/errors.ts";
import type { Json } from "../model/json.ts";
import type { CompletedCall } from "../model/tool-call.ts";
import { serviceView } from "../plugin/host-services.ts";
import type { CodeExecutionContext, ExecResponse } from "../plugin/protocol.ts";
import type { SessionGraph } from "../session/graph.ts";
import { runConcurrently } from "../tool/run-concurrently.ts";
import type { CodeResult, TurnEffect, TurnRecord } from "../turn/effect.ts";
import { dispatchCalls } from "./dispatch.ts";
import { reportIssues } from "./lifecycle.ts";
import { nestedCalls } from "./nested-calls.ts";
import { hostServices } from "./services.ts";
import { reach } from "./session-reach.ts";
import { slotFailure } from "./slot-call.ts";
import { issueOfThrown } from "./turn-fault.ts";
import { performEffect, type TurnRun } from "./turn-run.ts";
import { processServices } from "./work-host.ts";

type CodeEffect = Extract<TurnEffect, { kind: "code_cell" }>;

/** A cell as it is recorded. Plain JSON. */
interface RecordedCell {
  readonly result: CodeResult;
  readonly durationMs: number;
}

/** A cell without a record, in a turn that is ending. */
const CUT_CELL: RecordedCell = Object.freeze({
  result: { output: "", error: "The code was interrupted. It may have taken effect.", calls: [] },
  durationMs: 0,
});

export async function performCode(
  turn: TurnRun,
  effect: CodeEffect,
  records: readonly TurnRecord[],
): Promise<CodeResult> {
  const { key, kind } = effect;
  const replayed = (recorded: RecordedCell): void => showAgain(turn, effect, recorded);
  const ended = async (): Promise<RecordedCell> => {
    replayed(CUT_CELL);
    return CUT_CELL;
  };
  const { result } = await performEffect<RecordedCell>(turn, { key, kind, replayed, ended }, (scope) =>
    runCell(scope, effect, records),
  );
  return result;
}

async function runCell(
  turn: TurnRun,
  effect: CodeEffect,
  records: readonly TurnRecord[],
): Promise<RecordedCell> {
  const { clock } = turn.session.parts;
  const { language, code } = effect;
  const calls: CompletedCall[] = [];
  const context = codeExecutionContext(turn, { effect, records, calls });
  const startedAt = clock.monotonic();
  turn.emit({ kind: "code_started", language, code });
  const { observations, error, terminalFinish } = await run(turn, effect, context);
  const output = observations.join("\n");
  const durationMs = Math.round(clock.monotonic() - startedAt);
  const failed = error === undefined ? {} : { error };
  turn.emit({ kind: "code_finished", language, output, ...failed, durationMs });
  const finish = terminalFinish === undefined ? {} : { finish: terminalFinish };
  return { result: { output, ...failed, calls: [...calls], ...finish }, durationMs };
}

function showAgain(turn: TurnRun, effect: CodeEffect, { result, durationMs }: RecordedCell): void {
  const { language, code } = effect;
  const { output, error, calls } = result;
  const parentCallId = cellCallId(turn, effect);
  turn.emit({ kind: "code_started", language, code });
  for (const { modelReturn: _shown, ...record } of calls) {
    const { callId, name, args } = record;
    turn.emit({ kind: "tool_started", callId, name, args, parentCallId });
    turn.emit({ kind: "tool_finished", record, parentCallId });
  }
  const failed = error === undefined ? {} : { error };
  turn.emit({ kind: "code_finished", language, output, ...failed, durationMs });
}

/** What the calls of a cell have as their parent. */
function cellCallId({ turnId }: TurnRun, { key }: CodeEffect): string {
  return `${turnId}.${key}`;
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
  const parentCallId = cellCallId(turn, effect);
  const { graph } = session.state;
  const services = hostServices(session, turn);
  let asked = 0;
  let projection: readonly Json[] | undefined;
  return Object.freeze({
    sessionId: session.id,
    frameId: session.frameId,
    toolCatalog: session.resolvedToolCatalog(),
    tools: session.sharedToolCatalog(),
    sessions: serviceView(services, "state"),
    sessionLifecycle: serviceView(services, "lifecycle"),
    sessionGraph: serviceView(services, "graph"),
    turnContext: turn.context,
    get chronologicalProjection(): readonly Json[] {
      projection ??= chronological(graph, records);
      return projection;
    },
    ...aboutCell(turn, parentCallId),
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
      const options = { path: "code", round: effect.round, parentCallId, canPark: false } as const;
      const done = await dispatchCalls(turn, list, options);
      calls.push(...done);
      return done;
    },
    completedCalls: calls,
  });
}

/** What the cell is part of. */
function aboutCell(
  turn: TurnRun,
  parentInvocation: string,
): Pick<CodeExecutionContext, "environment" | "protocolExtension" | "parentInvocation" | "processes"> {
  const { session, extension } = turn;
  return {
    environment: { frameId: session.frameId, model: session.policy.model } as Json,
    protocolExtension: extension,
    parentInvocation,
    processes: processServices(session, (id) => reach(session, id), { parentInvocation, scope: turn }),
  };
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

// One accepted turn, worked on by this runtime: taken up, run, and put to sleep when all it can do is wait.

import { MarlingError } from "../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import type { TurnReport } from "../model/turn.ts";
import type { InboxRow } from "../store/contract.ts";
import type { TracePayloads } from "../trace/contract.ts";
import { type AdmitOptions, inputMessage } from "./admit.ts";
import { catchUp, claimSession } from "./claim-session.ts";
import { countRecovery, type Refusal } from "./count-recovery.ts";
import type { PlannedEnvironment } from "./environment.ts";
import type { ResidentSession } from "./resident-session.ts";
import { type AcceptedTurn, runTurn } from "./run-turn.ts";
import { beginSpending } from "./spending.ts";
import { traceTurnEnd, traceTurnLeft } from "./trace-turn.ts";
import { TurnParked } from "./turn-parked.ts";
import { decodeProgress } from "./turn-progress.ts";
import type { QueuedTurn } from "./turn-queue.ts";

/** What a turn starts with; live values when it was asked for just now, else what is stored with its input. */
export type StartOptions = AdmitOptions & {
  readonly isRecovery?: boolean;
  readonly plan?: PlannedEnvironment | undefined;
  /** The lease that it was accepted with, when it begins at once. */
  readonly newUnder?: number | undefined;
};

/**
 * Makes a session this runtime's for a turn. True when the turn is over already: it joined another one, was withdrawn, or
 * ran somewhere else; then its row has the report.
 */
export async function takeUp(
  session: ResidentSession,
  turn: QueuedTurn,
  { isNew, refuseClosed }: { readonly isNew: boolean; refuseClosed(): void },
): Promise<boolean> {
  if (session.parts.effects.remembers === true) {
    try {
      await claimSession(session, async () => {
        refuseClosed();
        return lookAgain(session, turn);
      });
    } catch (thrown) {
      if (turn.row.report === undefined) throw thrown;
      await showCommitted(session);
      return true;
    }
  }
  // Before it is looked at: from here on its input cannot be taken back, where no lease says so.
  session.running = { turnId: turn.row.turnId, control: turn.control };
  return isNew ? false : lookAgain(session, turn);
}

/** Takes over what others committed, so that whoever is told of a turn's end finds it in the session. */
async function showCommitted(session: ResidentSession): Promise<void> {
  const { store } = session.parts;
  await session.commits.run(async () => catchUp(session, await store.revision(session.id)));
}

/** Reads the row of a turn again; true when it has a report. */
export async function lookAgain({ parts }: ResidentSession, turn: QueuedTurn): Promise<boolean> {
  const { sessionId, turnId, submitted } = turn.row;
  turn.row = (await parts.store.find({ sessionId, turnId, submitted })) ?? turn.row;
  return turn.row.report !== undefined;
}

/** Whether a turn that sleeps has something to do. */
export async function isAwake({ parts }: ResidentSession, row: InboxRow): Promise<boolean> {
  const { parked, cancel, report, sessionId, turnId } = row;
  if (parked === undefined || cancel !== undefined || report !== undefined) return true;
  if (parked.due !== null && parked.due <= parts.clock.now()) return true;
  const waits = await parts.store.waits.read(sessionId, turnId);
  return waits.some(
    ({ name, resolution, isOver }) => parked.names.includes(name) && (isOver || resolution !== undefined),
  );
}

/** Runs a turn from its beginning; nothing when it went to sleep. */
export async function runUntilAsleep(
  session: ResidentSession,
  turn: QueuedTurn,
  options: StartOptions & { readonly isNew: boolean },
): Promise<TurnReport | undefined> {
  const { parts, lease } = session;
  const { row, control } = turn;
  control.begin();
  beginSpending(session);
  if (row.cancel !== undefined) control.request(row.cancel.reason);
  if (turn.hasRun) turn.shown.beginAgain();
  turn.hasRun = true;
  session.running = { turnId: row.turnId, control };
  if (options.isNew) parts.effects.begin?.({ sessionId: session.id, turnId: row.turnId });
  lease.onLost = (error) => control.lose(error);
  const unlisten =
    parts.effects.remembers === true
      ? parts.watch.listen(session.id, () => listenForCancel(session, turn))
      : undefined;
  const { trace } = session;
  try {
    trace?.beginTurn().announce("turn_started", started(session, turn, options));
    const report = await runTurn(session, await acceptedTurn(session, turn, options));
    if (trace !== undefined) traceTurnEnd(trace, report);
    return report;
  } catch (thrown) {
    session.isDoubtful = true;
    if (trace !== undefined) traceTurnLeft(trace, thrown);
    if (!(thrown instanceof TurnParked)) throw asLost(session, thrown);
    await park(session, turn, thrown);
    return undefined;
  } finally {
    unlisten?.();
    lease.onLost = undefined;
    session.running = undefined;
  }
}

function started(
  { trace }: ResidentSession,
  { row }: QueuedTurn,
  { isRecovery = false }: StartOptions,
): TracePayloads["turn_started"] {
  const content = trace?.wantsContent === true ? { content: { input: row.input } } : {};
  return { inputId: row.inputId, isRecovery, ...content };
}

async function acceptedTurn(
  session: ResidentSession,
  { row, control, events, shown }: QueuedTurn,
  options: StartOptions,
): Promise<AcceptedTurn> {
  return {
    turnId: row.turnId,
    inputId: row.inputId,
    message: inputMessage(row),
    pluginInputs: { ...storedPluginInputs(row), ...options.pluginInputs },
    extension: options.extension,
    outputSchema: options.outputSchema ?? storedOutputSchema(row),
    control,
    emit: (event) => events.emit(event, shown.isNew(event)),
    plan: options.plan ?? (isJsonObject(row.plan) ? (row.plan as unknown as PlannedEnvironment) : undefined),
    progress: decodeProgress(row.progress, `turn ${row.turnId}`),
    refusal: options.isRecovery === true ? await refusalOf(session, row) : undefined,
  };
}

/** Counts a recovery, and says so. */
async function refusalOf(
  { parts, lease, trace }: ResidentSession,
  row: InboxRow,
): Promise<Refusal | undefined> {
  const { attempt, refusal } = await countRecovery(parts.store, row, lease.generation);
  trace?.event("recovery", { kind: refusal === undefined ? "resumed" : "exhausted", attempt });
  return refusal;
}

/** Somebody else may have asked the turn to end. */
function listenForCancel(session: ResidentSession, turn: QueuedTurn): void {
  lookAgain(session, turn).then(
    () => {
      if (turn.row.cancel !== undefined) turn.control.ask(turn.row.cancel.reason);
    },
    () => undefined, // The commit will find out.
  );
}

async function park(session: ResidentSession, turn: QueuedTurn, { waits, due }: TurnParked): Promise<void> {
  const { parts, lease } = session;
  const { turnId } = turn.row;
  const names = waits.map(({ name }) => name);
  turn.control.refuseLost();
  const status = await parts.store.park({ ...lease.held, turnId, names, due: due ?? null });
  if (status === "ready") return void (await lookAgain(session, turn));
  lease.drop();
  turn.row = { ...turn.row, parked: { names, due: due ?? null } };
}

/** A lease that is lost is known as such, and what the session has in memory is not to be trusted. */
function asLost({ lease }: ResidentSession, thrown: unknown): unknown {
  if (MarlingError.is(thrown) && thrown.code === "lease_lost") lease.lose();
  return thrown;
}

function storedOutputSchema(row: InboxRow): JsonObject | undefined {
  return (row.input as { readonly outputSchema?: JsonObject }).outputSchema;
}

function storedPluginInputs(row: InboxRow): Readonly<Record<string, Json>> {
  return (row.input as { readonly pluginInputs?: Readonly<Record<string, Json>> }).pluginInputs ?? {};
}

// One accepted turn, worked on by this runtime: taken up, run, and put to sleep when all it can do is wait.

import { MarlingError } from "../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import type { TurnReport } from "../model/turn.ts";
import type { InboxRow } from "../store/contract.ts";
import type { TracePayloads } from "../trace/contract.ts";
import { type AdmitOptions, inputMessage } from "./admit.ts";
import { requireBindings, requireForTurn } from "./bindings.ts";
import { catchUp, claimSession } from "./claim-session.ts";
import { commitChange, stateChange } from "./commit.ts";
import { countRecovery, type Refusal } from "./count-recovery.ts";
import type { PlannedEnvironment } from "./environment.ts";
import { limitTurn } from "./limit-turn.ts";
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
 * ran somewhere else; then its row has the report. Throws `needs_binding`, and leaves the turn as it is, when this runtime
 * lacks what the session or the turn needs.
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
  requireBindings(session);
  // Before it is looked at: from here on its input cannot be taken back, where no lease says so.
  session.running = { turnId: turn.row.turnId, control: turn.control };
  if (!isNew && (await lookAgain(session, turn))) return true;
  const isKept = !isNew && session.parts.effects.remembers === true;
  session.turnPlugins = isKept ? await requireForTurn(session, turn.row) : undefined;
  if (session.bindings.retiring.length > 0) await commitChange(session, () => stateChange(session, "retire"));
  return false;
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
  control.isRunning = true;
  beginSpending(session);
  if (row.cancel !== undefined) control.request(row.cancel.reason);
  if (turn.hasRun) turn.shown.beginAgain();
  turn.hasRun = true;
  const unlimit = limitTurn(session);
  session.running = { turnId: row.turnId, control };
  const generation = parts.effects.remembers === true ? lease.held.generation : undefined;
  if (options.isNew) parts.effects.begin?.({ sessionId: session.id, turnId: row.turnId });
  lease.onLost = (error) => control.lose(error);
  const unlisten =
    parts.effects.remembers === true
      ? parts.watch.listen(session.id, () => listenForCancel(session, turn))
      : undefined;
  const { trace } = session;
  try {
    trace?.beginTurn().announce("turn_started", started(session, turn, options));
    const report = await runTurn(session, await acceptedTurn(session, turn, { ...options, generation }));
    if (trace !== undefined) traceTurnEnd(trace, report);
    return report;
  } catch (thrown) {
    session.isDoubtful = true;
    if (trace !== undefined) traceTurnLeft(trace, thrown);
    if (!(thrown instanceof TurnParked)) throw asLost(session, thrown, generation);
    await park(session, turn, { parked: thrown, generation });
    return undefined;
  } finally {
    control.isRunning = false;
    unlisten?.();
    lease.onLost = undefined;
    session.running = undefined;
    unlimit();
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
  options: StartOptions & { readonly generation: number | undefined },
): Promise<AcceptedTurn> {
  const { generation } = options;
  return {
    turnId: row.turnId,
    inputId: row.inputId,
    message: inputMessage(row),
    pluginInputs: { ...storedPluginInputs(row), ...options.pluginInputs },
    extension: options.extension,
    outputSchema: options.outputSchema ?? storedOutputSchema(row),
    control,
    lease: generation,
    emit: (event) => events.emit(event, shown.isNew(event)),
    plan: options.plan ?? (isJsonObject(row.plan) ? (row.plan as unknown as PlannedEnvironment) : undefined),
    progress: decodeProgress(row.progress, `turn ${row.turnId}`),
    refusal: options.isRecovery === true ? await refusalOf(session, row, generation) : undefined,
  };
}

/** Counts a recovery, and says so. */
async function refusalOf(
  { parts, trace }: ResidentSession,
  row: InboxRow,
  generation: number | undefined,
): Promise<Refusal | undefined> {
  const { attempt, refusal } = await countRecovery(parts.store, row, generation);
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

interface Parking {
  readonly parked: TurnParked;
  /** Generation of the lease that the turn ran under. */
  readonly generation: number | undefined;
}

/**
 * Leaves a turn to the store, which releases the lease with it. Parking takes its turn among commits: a commit that was
 * asked for under the lease is made before the lease is released.
 */
async function park(
  session: ResidentSession,
  turn: QueuedTurn,
  { parked, generation }: Parking,
): Promise<void> {
  const { id: sessionId, parts, lease } = session;
  const { turnId } = turn.row;
  const names = parked.waits.map(({ name }) => name);
  const due = parked.due ?? null;
  turn.control.refuseLost();
  if (generation === undefined) throw lease.lose(generation);
  lease.onLost = undefined; // The store decides from here on whether the turn still has its lease.
  const status = await session.commits.run(async () => {
    try {
      const answer = await parts.store.park({ sessionId, generation, turnId, names, due });
      if (answer === "parked") lease.drop(generation);
      return answer;
    } catch (thrown) {
      await lease.release().catch(() => undefined); // The answer may be lost, and with it the lease.
      throw thrown;
    }
  });
  if (status === "ready") return void (await lookAgain(session, turn));
  turn.row = { ...turn.row, parked: { names, due } };
}

/** Records that the session's own lease is lost, where that ended a turn. The lease of a session below is not its own. */
function asLost(session: ResidentSession, thrown: unknown, generation: number | undefined): unknown {
  const isLost = MarlingError.is(thrown) && thrown.code === "lease_lost";
  if (isLost && thrown.details.sessionId === session.id) session.lease.lose(generation);
  return thrown;
}

function storedOutputSchema(row: InboxRow): JsonObject | undefined {
  return (row.input as { readonly outputSchema?: JsonObject }).outputSchema;
}

function storedPluginInputs(row: InboxRow): Readonly<Record<string, Json>> {
  return (row.input as { readonly pluginInputs?: Readonly<Record<string, Json>> }).pluginInputs ?? {};
}

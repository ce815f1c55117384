// One accepted input, from its first phase to its last commit. A switch of frames goes on as another part of the turn.

import { SharedList } from "../base/shared-list.ts";
import type { InputId, TurnId } from "../model/ids.ts";
import type { JsonObject } from "../model/json.ts";
import { type Message, toMessage } from "../model/message.ts";
import type { TurnEvent, TurnReport } from "../model/turn.ts";
import { type CommittedTurn, commitTurn, type TurnEnd } from "./commit-turn.ts";
import { compactBeforeTurn } from "./compact.ts";
import type { Refusal } from "./count-recovery.ts";
import { drive } from "./drive.ts";
import { endAtRecords, endTurn } from "./end-turn.ts";
import type { PlannedEnvironment } from "./environment.ts";
import { type FinalizedTurn, finalize } from "./finalize.ts";
import { reportIssues } from "./lifecycle.ts";
import { prepare, transformContext } from "./prepare.ts";
import { publish } from "./publish.ts";
import type { ResidentSession } from "./resident-session.ts";
import { createTurnContext } from "./turn-context.ts";
import type { TurnControl } from "./turn-control.ts";
import { validateExtension } from "./turn-extension.ts";
import { faultIssue, faultOutcome, toFault } from "./turn-fault.ts";
import { TurnParked } from "./turn-parked.ts";
import { partId, type TurnProgress } from "./turn-progress.ts";
import { nameOf, type TurnLog, type TurnRun } from "./turn-run.ts";

/** An input that was accepted, and everything its turn needs. */
export interface AcceptedTurn {
  readonly turnId: TurnId;
  readonly inputId: InputId;
  readonly message: Message;
  readonly pluginInputs: Readonly<Record<string, unknown>>;
  readonly extension: unknown;
  readonly outputSchema: JsonObject | undefined;
  readonly control: TurnControl;
  /** Generation of the lease that it runs under; undefined where nothing is remembered. */
  readonly lease: number | undefined;
  emit(event: TurnEvent): void;
  readonly plan: PlannedEnvironment | undefined;
  /** Where it goes on from, when an earlier run has committed a part of it. */
  readonly progress: TurnProgress | undefined;
  /** Why it must not run any more, but end. */
  readonly refusal: Refusal | undefined;
}

/** One part of a turn: from an input, or from the task of a frame switch. */
interface TurnPart {
  readonly turnId: TurnId;
  readonly scope: string;
  readonly message: Message;
  readonly switches: number;
  /** Inputs that joined the turn so far. */
  readonly joined: InputId[];
}

export async function runTurn(session: ResidentSession, accepted: AcceptedTurn): Promise<TurnReport> {
  const { progress } = accepted;
  const log: TurnLog = progress?.log ?? { issues: [], toolCalls: [], modelCalls: [], childUsage: [] };
  accepted.emit({ kind: "turn_started", turnId: accepted.turnId });
  let part = progress === undefined ? firstPart(accepted) : nextPart(accepted, progress);
  for (;;) {
    const { switches, joined } = part;
    const committed = await runPart(startPart(session, { accepted, part, log }), { accepted, switches });
    if (committed.kind === "ended") return { ...committed.report, issues: [...log.issues] };
    part = nextPart(accepted, { task: committed.task, switches: switches + 1, joined });
  }
}

/** What a part comes to is written before it is left to sleep, and nothing of it stays in memory. */
async function runPart(
  turn: TurnRun,
  { accepted, switches }: Omit<TurnEnd, "finalized">,
): Promise<CommittedTurn> {
  const { effects } = turn.session.parts;
  let isLeft = true;
  try {
    const finalized = await runPhases(turn, accepted.refusal);
    const committed = await commitTurn(turn, { finalized, accepted, switches });
    isLeft = false;
    await publish(turn, { finalized, committed });
    return committed;
  } catch (thrown) {
    if (!(thrown instanceof TurnParked)) throw thrown;
    turn.control.refuseLost();
    await effects.flush?.(nameOf(turn), "all");
    isLeft = false;
    throw thrown;
  } finally {
    if (isLeft && effects.abandon !== undefined) effects.abandon(nameOf(turn));
    else effects.forget?.(nameOf(turn));
    if (turn.below.size > 0) await turn.session.parts.sessions.leave(turn.below);
  }
}

function firstPart({ turnId, message }: AcceptedTurn): TurnPart {
  return { turnId, scope: message.id, message, switches: 0, joined: [] };
}

function startPart(
  session: ResidentSession,
  {
    accepted,
    part,
    log,
  }: { readonly accepted: AcceptedTurn; readonly part: TurnPart; readonly log: TurnLog },
): TurnRun {
  return {
    session,
    turnId: part.turnId,
    acceptedId: accepted.turnId,
    operation: `turn:${part.turnId}`,
    scope: part.scope,
    control: accepted.control,
    lease: accepted.lease,
    context: createTurnContext(accepted.turnId, accepted.pluginInputs),
    log,
    extension: accepted.extension,
    outputSchema: accepted.outputSchema,
    inputMessage: part.message,
    shown: SharedList.of<Message>(),
    shownRecords: 1,
    askedRecords: 0,
    base: session.state.graph.leaf,
    compaction: undefined,
    compactedAfter: undefined,
    committedCalls: log.modelCalls.length,
    buffer: [],
    acceptedScope: part.scope,
    below: new Set(),
    spent: [],
    joined: part.joined,
    committedJoins: part.joined.length,
    environment: undefined,
    environmentMark: undefined,
    plan: part.switches === 0 ? accepted.plan : undefined,
    forced: undefined,
    emit: accepted.emit,
  };
}

/** The phases before the commit. A failure in them ends the turn as a `runtime_error`, with its input kept. */
async function runPhases(turn: TurnRun, refusal: Refusal | undefined): Promise<FinalizedTurn> {
  const { control, inputMessage } = turn;
  try {
    if (refusal?.keepsRecords === false) throw refusal.fault;
    if (refusal !== undefined) await endAtRecords(turn, refusal.fault);
    else await showContext(turn);
    const finalized = await finalize(turn, await drive(turn, await prepare(turn)));
    return control.ending === undefined ? finalized : await endTurn(turn, finalized);
  } catch (thrown) {
    const records = [{ kind: "message", message: inputMessage }] as const;
    if (control.ending !== undefined && thrown === control.ending)
      return endTurn(turn, { records, outcome: faultOutcome(control.ending), events: [] });
    turn.session.plugins.rollbackState();
    control.refuseLostBy(thrown);
    const failed = toFault(thrown);
    const fault = control.ending ?? failed;
    reportIssues(turn, [faultIssue(fault)]);
    return { records, outcome: faultOutcome(fault), events: [], isFault: true };
  }
}

/** The context before the first round, as the model is shown it. */
async function showContext(turn: TurnRun): Promise<void> {
  if (turn.extension !== undefined) await validateExtension(turn);
  const { shown, compact } = await transformContext(turn);
  turn.shown = shown;
  if (compact !== undefined) await compactBeforeTurn(turn, compact.instructions);
}

function nextPart(accepted: AcceptedTurn, { task, switches, joined }: Omit<TurnProgress, "log">): TurnPart {
  const scope = `${accepted.message.id}.frame.${switches}`;
  return {
    turnId: partId(accepted.turnId, switches),
    scope,
    message: toMessage({ role: "user", content: task }, scope),
    switches,
    joined: [...joined],
  };
}

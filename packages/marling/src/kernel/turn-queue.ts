// The turns of one session: accepted in order, run one after the other, by whichever runtime holds the lease.
//   TQ1  a turn that is asked for while another runs is accepted and runs next.
//   TQ2  an accepted input ends in exactly one commit; asking again attaches to the same turn.
//   TQ3  inputs run in the order of their sequences, those that another runtime accepted included.
//   TQ4  a turn that somebody else has ended by the time it could begin ends here with the same report.
//   TQ5  a turn that sleeps keeps its place; closing the session leaves it, and what is behind it, to the store.
//   TQ6  closing with a grace ends in bounded time. What has not ended by then is left to the store, as a crash would leave
//        it; where nothing is remembered it is cancelled, and at once if it waits for an answer that nobody can give any more.
//   TQ7  what is at work in sessions may give inputs to one that is being closed: closing waits for those turns too.
//        How a queue is closed is in queue-closing.ts.

import { type Deferred, deferred } from "../base/deferred.ts";
import { MarlingError } from "../base/errors.ts";
import { SerialQueue } from "../base/serial-queue.ts";
import type { TurnId } from "../model/ids.ts";
import type { TurnReport } from "../model/turn.ts";
import type { CancelStatus, InboxRow } from "../store/contract.ts";
import { type AdmitOptions, type Admitted, admit } from "./admit.ts";
import { requireBindings } from "./bindings.ts";
import { refreshIdle, requireToResume } from "./claim-session.ts";
import { planEnvironment } from "./environment.ts";
import { type CloseCode, type CloseGrace, QueueClosing } from "./queue-closing.ts";
import type { ResidentSession } from "./resident-session.ts";
import { ShownEvents } from "./shown-events.ts";
import { TurnControl } from "./turn-control.ts";
import { TurnEvents } from "./turn-events.ts";
import { isAwake, lookAgain, runUntilAsleep, type StartOptions, takeUp } from "./work-turn.ts";

/** What becomes of a new input while a turn sleeps. */
export type OnParked = "queue" | "cancel" | "reject";

/** A turn that was accepted, wherever it is on its way. */
export interface QueuedTurn {
  /** As the store had it when it was read last. */
  row: InboxRow;
  readonly control: TurnControl;
  readonly events: TurnEvents;
  readonly shown: ShownEvents;
  readonly done: Deferred<TurnReport>;
  isParked: boolean;
  /** Settled when it moves the next time: it goes to sleep, is looked at in its sleep, or wakes. */
  moved: Deferred<void>;
  /** Whether it ran here, and not only somewhere else. */
  hasRun: boolean;
  /** The turn that started it from a session above, if one did. */
  starter: TurnControl | undefined;
}

export class TurnQueue {
  readonly #session: ResidentSession;
  readonly #admissions = new SerialQueue();
  readonly #live = new Map<string, QueuedTurn>();
  /** How the queue is closed. */
  readonly closing: QueueClosing;
  #inputs: number;
  /** Up to which sequence inputs may be pending that this queue does not know. */
  #othersBefore = 0;

  constructor(session: ResidentSession, admittedInputs: number) {
    this.#session = session;
    this.#inputs = admittedInputs;
    this.closing = new QueueClosing({
      session,
      admissions: this.#admissions,
      live: this.#live,
      cancel: (turnId, reason) => this.cancel(turnId, reason),
    });
  }

  /** The id that the next input's turn will have, unless one before it is rejected or known already. */
  expectedId(): string {
    return `${this.#session.id}:turn:${this.#inputs + this.#admissions.length + 1}`;
  }

  /** Accepts an input and queues its turn; an input that is known already gives the turn it has. */
  submit(
    input: unknown,
    options: AdmitOptions & { readonly onParked?: OnParked | undefined; readonly isInside?: boolean },
  ): Promise<Admitted & { readonly turn: QueuedTurn }> {
    return this.#admissions.run(async () => {
      this.closing.refuseInput(options);
      if (this.#session.bindings.missing.length > 0) await refreshIdle(this.#session);
      requireBindings(this.#session);
      const { onParked = "queue" } = options;
      const { lease, parts } = this.#session;
      if (lease.releasing !== undefined) await lease.releasing;
      const remembers = parts.effects.remembers === true;
      const answer = remembers ? lease.asking() : undefined;
      const plan = this.isBusy ? undefined : planEnvironment(this.#session);
      const wanted = { ...options, plan };
      const admitted = await admit(this.#session, input, {
        ...wanted,
        ...(onParked === "queue" ? {} : { beforeNew: () => this.#minToParked(onParked) }),
        ...(remembers && !this.#hasSleeper ? { lease: lease.request() } : {}),
      });
      answer?.(admitted.claim);
      if (this.#hasSleeper) parts.watch.notify(this.#session.id); // What was answered too late is let go.
      this.#count(admitted);
      const { row, status } = admitted;
      // What somebody else has ended is to be seen here as well; the next one tries again when that fails.
      if (row.report !== undefined) await refreshIdle(this.#session).catch(() => undefined);
      const start = status === "duplicate" ? options : { ...wanted, newUnder: this.#newUnder(admitted) };
      return { ...admitted, turn: this.#live.get(row.turnId) ?? this.#start(row, start) };
    });
  }

  /** Queues turns whose inputs are in the inbox already: a commit put them there, or an earlier process did. */
  enqueue(
    rows: readonly InboxRow[],
    { isRecovery = false }: { readonly isRecovery?: boolean } = {},
  ): readonly QueuedTurn[] {
    return rows.map((row) => {
      this.#inputs = Math.max(this.#inputs, row.sequence);
      return this.#live.get(row.turnId) ?? this.#start(row, { isRecovery });
    });
  }

  /** Queues turns that were left in the store: by an earlier process, another runtime, or a fault of the machine here. */
  takeUp(): Promise<readonly QueuedTurn[]> {
    return this.#admissions.run(async () => {
      const { id, parts } = this.#session;
      const rows = this.isClosed ? [] : await parts.store.pending(id);
      const newest = Math.max(0, ...[...this.#live.values()].map(({ row }) => row.sequence));
      const left = rows.filter(({ turnId }) => !this.#live.has(turnId));
      await requireToResume(this.#session, left);
      // Those that belong before a turn that is queued already run just before it.
      if (left.some(({ sequence }) => sequence < newest))
        this.#othersBefore = Math.max(this.#othersBefore, newest);
      return this.enqueue(
        left.filter(({ sequence }) => sequence > newest),
        { isRecovery: true },
      );
    });
  }

  /** A turn that was accepted before, on its way or with its report; undefined when the store does not know it. */
  async find({ sessionId, turnId, submitted }: InboxRow): Promise<QueuedTurn | undefined> {
    const known = this.#live.get(turnId) ?? (await this.takeUp()).find(({ row }) => row.turnId === turnId);
    if (known !== undefined) return known;
    const row = await this.#session.parts.store.find({ sessionId, turnId, submitted });
    return row?.report === undefined ? this.#live.get(turnId) : this.#register(row);
  }

  /** Asks a turn to end, wherever it runs; what the store says is what holds. */
  async cancel(turnId: string, reason: string): Promise<CancelStatus> {
    await this.#admissions.idle();
    const { id, parts } = this.#session;
    const status = await this.#askToEnd(turnId, reason);
    if (status === "requested") parts.watch.notify(id);
    return status;
  }

  async #askToEnd(turnId: string, reason: string): Promise<CancelStatus> {
    const { id, parts } = this.#session;
    const status = await parts.store.cancel({ sessionId: id, turnId: turnId as TurnId, reason });
    const turn = this.#live.get(turnId);
    if (status === "requested" && turn?.isParked === false) turn.control.ask(reason);
    return status;
  }

  get isClosed(): boolean {
    return this.closing.isClosed;
  }

  get isBusy(): boolean {
    return this.#live.size > 0 || this.#session.writer.length > 0;
  }

  /** Whether something is accepted, runs or waits here. */
  get isAtWork(): boolean {
    return this.isBusy || this.#admissions.length > 0;
  }

  /** Whether there is nothing that this runtime could go on with. */
  get isAsleep(): boolean {
    return [...this.#live.values()].every(({ isParked }) => isParked) && this.#admissions.length === 0;
  }

  /** Resolves when these turns have ended, here or elsewhere, or sleep; rejects with what left one unfinished. */
  async quiet(turns: readonly QueuedTurn[]): Promise<void> {
    const { id, parts } = this.#session;
    for (const turn of turns) {
      while (this.#live.has(turn.row.turnId)) {
        const { moved } = turn; // Before the store is asked: no move is missed, and none is waited for that was before.
        if (await this.#isFastAsleep(turn)) break;
        if (turn.isParked) parts.watch.wake(id); // It finds out now what woke it, not with the next poll.
        await Promise.race([turn.done.promise, moved.promise]);
      }
    }
  }

  async #isFastAsleep({ isParked, row }: QueuedTurn): Promise<boolean> {
    return isParked && !(await isAwake(this.#session, row));
  }

  /** The turns that are on their way. */
  get live(): ReadonlyMap<string, QueuedTurn> {
    return this.#live;
  }

  /** Takes no more turns and waits for those that were accepted, at most for the grace and a little more. */
  close(code: CloseCode, grace: CloseGrace = {}): Promise<void> {
    return this.closing.close(code, grace);
  }

  /** What `onParked` says about the turns that sleep. */
  async #minToParked(onParked: "cancel" | "reject"): Promise<void> {
    const { id, parts } = this.#session;
    const parked: InboxRow[] = [];
    for (const row of await parts.store.pending(id)) {
      const asleep = this.#live.get(row.turnId)?.control.asleep;
      if (!(await isAwake(this.#session, asleep === undefined ? row : { ...row, parked: asleep })))
        parked.push(row);
    }
    const [first] = parked;
    if (onParked === "reject" && first !== undefined) {
      const message = `session ${id}: expected no turn that waits, found ${first.turnId}`;
      throw new MarlingError("turn_parked", message, { details: { turnId: first.turnId } });
    }
    const reason = "a new input took its place";
    for (const { turnId } of parked) await this.#askToEnd(turnId, reason);
    if (first !== undefined) parts.watch.notify(id);
  }

  /** The lease with which an input was accepted whose turn begins at once: nobody can have had it in between. */
  #newUnder({ claim }: Admitted): number | undefined {
    return claim?.kind === "claimed" && !this.isBusy ? claim.generation : undefined;
  }

  /** Whether a turn is as it was accepted: the lease that came with it was held ever since. */
  #isNew({ newUnder }: StartOptions): boolean {
    return newUnder !== undefined && newUnder === this.#session.lease.generation;
  }

  #count({ row, claim }: Admitted): void {
    const isNext = row.sequence <= this.#inputs + 1;
    this.#inputs = Math.max(this.#inputs, row.sequence);
    if (claim?.kind === "claimed" && claim.revision !== this.#session.state.revision)
      this.#session.isDoubtful = true;
    if (isNext && (claim?.kind !== "claimed" || !claim.isTakeover)) return;
    this.#othersBefore = Math.max(this.#othersBefore, row.sequence);
    this.#session.isDoubtful = true;
  }

  #start(row: InboxRow, options: StartOptions): QueuedTurn {
    const turn = this.#register(row);
    if (row.report !== undefined) return turn;
    const run = this.#session.writer.run(() => this.#run(turn, options));
    run.then(turn.done.resolve, turn.done.reject);
    return turn;
  }

  #register(row: InboxRow): QueuedTurn {
    const turn: QueuedTurn = {
      row,
      control: new TurnControl(),
      events: new TurnEvents({ turnId: row.turnId, log: this.#session.observation }),
      shown: new ShownEvents(),
      done: deferred<TurnReport>(),
      isParked: false,
      moved: deferred<void>(),
      hasRun: false,
      starter: undefined,
    };
    turn.done.promise.catch(() => undefined);
    if (row.report === undefined) {
      this.#live.set(row.turnId, turn);
      this.closing.follow(turn);
      this.#session.lease.join();
      return turn;
    }
    turn.events.close();
    turn.done.resolve(row.report);
    return turn;
  }

  async #run(turn: QueuedTurn, options: StartOptions): Promise<TurnReport> {
    const session = this.#session;
    try {
      return await this.#runToEnd(turn, options);
    } catch (thrown) {
      this.#othersBefore = Math.max(this.#othersBefore, turn.row.sequence + 1); // It stays accepted: nothing overtakes it.
      throw thrown;
    } finally {
      this.#live.delete(turn.row.turnId);
      if (session.running?.turnId === turn.row.turnId) session.running = undefined;
      turn.events.close();
      await session.lease.leave();
    }
  }

  async #runToEnd(turn: QueuedTurn, options: StartOptions): Promise<TurnReport> {
    let isRecovery = options.isRecovery === true;
    let hasWaited = false;
    for (;;) {
      const { left } = this.closing;
      if (left !== undefined) throw left;
      if (turn.row.parked !== undefined) await this.#sleep(turn, turn.row.parked);
      const isNew = !hasWaited && this.#isNew(options);
      hasWaited = true;
      const refuseClosed = (): void => this.closing.refuseWaiting(turn);
      const isOver = await takeUp(this.#session, turn, { isNew, refuseClosed });
      if (isOver) return turn.row.report as TurnReport;
      if (this.#othersBefore > 0 && (await this.#runOthersBefore(turn))) continue;
      const report = await runUntilAsleep(this.#session, turn, { ...options, isRecovery, isNew });
      if (report !== undefined) return report;
      isRecovery = false;
    }
  }

  /** While a turn sleeps nothing of it is in memory but its place and whoever waits for its end. */
  async #sleep(turn: QueuedTurn, parked: NonNullable<InboxRow["parked"]>): Promise<void> {
    const session = this.#session;
    turn.isParked = true;
    move(turn);
    const check = async (): Promise<boolean> => {
      this.closing.refuseWaiting(turn);
      await session.commits.run(() => session.lease.rest());
      await lookAgain(session, turn);
      const isUp = await isAwake(session, turn.row);
      if (!isUp) move(turn); // Another runtime may have run it and put it to sleep again.
      return isUp;
    };
    try {
      await session.parts.watch.until(check, { of: session.id, due: parked.due ?? undefined });
    } finally {
      session.lease.wake();
    }
    turn.isParked = false;
    move(turn);
  }

  get #hasSleeper(): boolean {
    return [...this.#live.values()].some(({ isParked }) => isParked);
  }

  /** Inputs that were accepted before this one, and that are nobody's now. True when some ran, which may have taken it. */
  async #runOthersBefore({ row }: QueuedTurn): Promise<boolean> {
    const { id, parts } = this.#session;
    if (parts.effects.remembers !== true) return false;
    const others = (await parts.store.pending(id)).filter(
      ({ sequence, turnId }) => sequence < row.sequence && !this.#live.has(turnId),
    );
    for (const other of others) {
      const turn = this.#register(other);
      await this.#run(turn, { isRecovery: true }).then(turn.done.resolve, (thrown: unknown) => {
        turn.done.reject(thrown);
        throw thrown;
      });
    }
    if (this.#othersBefore <= row.sequence) this.#othersBefore = 0;
    return others.length > 0;
  }
}

/** Tells whoever waits for a move of the turn. */
function move(turn: QueuedTurn): void {
  turn.moved.resolve();
  turn.moved = deferred<void>();
}

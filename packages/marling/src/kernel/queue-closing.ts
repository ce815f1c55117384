// How the turns of one session end with it.
//   QC1  from the first moment on, inputs from outside are refused; what is at work may give more, until nothing is left.
//   QC2  turns that were accepted run to their end within the grace. Then they are left to the store, as a crash would
//        leave them; where nothing is remembered they are cancelled.
//   QC3  a turn that only waits is left immediately, unless a turn that runs has started it: that one is not cut for it.
//   QC5  the deletion of a session leaves a turn that sleeps, and the turns behind it, without an end: their results reject.
//   QC4  the refusal of a shutdown, or a lost lease, that comes back out of user code leaves the turn, and is recorded nowhere.

import { type Deferred, deferred } from "../base/deferred.ts";
import { MarlingError } from "../base/errors.ts";
import { isInTime } from "../base/in-time.ts";
import type { SerialQueue } from "../base/serial-queue.ts";
import type { ResidentSession } from "./resident-session.ts";
import { lostLeaseIn, shutdownIn } from "./shutdown-fault.ts";
import type { QueuedTurn } from "./turn-queue.ts";

export type CloseCode = "session_closed" | "runtime_closed";

export interface CloseGrace {
  /** How long turns may take to end; without a limit by default. */
  readonly graceMs?: number;
  /** How long turns that were told to end may take to do so. */
  readonly lastMs?: number;
  /** Whether the session is deleted next. */
  readonly isDeletion?: boolean;
}

/** How long turns that were told to end may take by default. */
export const LAST_MS = 2_000;
const CLOSED = "the runtime was closed";

export interface ClosingTurns {
  readonly session: ResidentSession;
  readonly admissions: SerialQueue;
  readonly live: ReadonlyMap<string, QueuedTurn>;
  cancel(turnId: string, reason: string): Promise<unknown>;
}

export class QueueClosing {
  readonly #turns: ClosingTurns;
  readonly #remembers: boolean;
  #code: CloseCode | undefined;
  #endsWaits = false;
  #isEnding = false;
  /** Set when closing has found nothing left to wait for: from then on nobody's input is accepted. */
  #isDrained = false;
  #left: MarlingError | undefined;
  /** Settled when what is left is not waited for any more. */
  readonly #givenUp: Deferred<void> = deferred<void>();

  constructor(turns: ClosingTurns) {
    this.#turns = turns;
    this.#remembers = turns.session.parts.effects.remembers === true;
  }

  get isClosed(): boolean {
    return this.#code !== undefined;
  }

  /** The error that turns which have not ended are left to the store with. */
  get left(): MarlingError | undefined {
    return this.#left;
  }

  /** A turn joins those that are live. */
  follow({ row, control }: QueuedTurn): void {
    control.onThrown = (thrown) => this.#leaveFor(control, thrown);
    if (this.#endsWaits) control.whenWaiting(() => this.#cancel(row.turnId));
    if (this.#isEnding) this.#end(row.turnId, control);
  }

  /** Refuses inputs from outside from now on. With a limited grace, waits that nobody can answer any more are ended. */
  begin(code: CloseCode, { graceMs = Number.POSITIVE_INFINITY }: CloseGrace = {}): void {
    const { session, live } = this.#turns;
    this.#code ??= code;
    session.parts.watch.wake(session.id);
    if (graceMs === Number.POSITIVE_INFINITY || this.#remembers || this.#endsWaits) return;
    this.#endsWaits = true;
    for (const [turnId, { control }] of live) control.whenWaiting(() => this.#cancel(turnId));
  }

  /** Ends what has not ended. */
  end(code: CloseCode): void {
    const { session, live } = this.#turns;
    this.#isEnding = true;
    if (this.#remembers) this.#left ??= this.#error(code);
    for (const [turnId, { control }] of live) this.#end(turnId, control);
    session.parts.watch.wake(session.id);
  }

  /** Waits for the turns that were accepted, at most for the grace and a little more. */
  async close(code: CloseCode, grace: CloseGrace = {}): Promise<void> {
    const { parts, lease } = this.#turns.session;
    const { graceMs = Number.POSITIVE_INFINITY, lastMs = LAST_MS, isDeletion = false } = grace;
    this.begin(code, grace);
    if (isDeletion) this.#dropSleepers(code);
    const finished = this.drained().then(() => {
      this.#isDrained = true;
    });
    const drained = Promise.race([finished, this.#givenUp.promise]);
    if (await isInTime(drained, graceMs, parts)) return;
    this.end(code);
    if (await isInTime(drained, lastMs, parts)) return;
    this.#givenUp.resolve();
    await lease.release().catch(() => undefined); // An unreleased lease expires.
  }

  /** Resolves when nothing is left to do. Work that ends may have queued more: a command that queues a turn, for one. */
  async drained(): Promise<void> {
    const { admissions, session } = this.#turns;
    do {
      await admissions.idle();
      await session.writer.idle();
    } while (admissions.length + session.writer.length > 0);
  }

  /** A closed session takes inputs only from what is at work, and only while its own closing waits. */
  refuseInput({ isInside = false }: { readonly isInside?: boolean }): void {
    if (isInside && !this.#isDrained && this.#left === undefined) return;
    this.refuse();
  }

  refuse(): void {
    if (this.#code !== undefined) throw this.#error(this.#code);
  }

  /** Throws when a turn that only waits is to be left (QC3). */
  refuseWaiting({ starter }: QueuedTurn): void {
    if (this.#left !== undefined) throw this.#left;
    const isAwaited = this.#code === "runtime_closed" && starter?.isRunning === true;
    if (!isAwaited) this.refuse();
  }

  /** A turn that sleeps in the store ends by itself when its session is closed; one that sleeps in memory is told to. */
  #dropSleepers(code: CloseCode): void {
    for (const { control } of this.#turns.live.values())
      control.whenAsleep(() => {
        this.#left ??= this.#error(code);
        control.lose(this.#left);
      });
  }

  #end(turnId: string, control: QueuedTurn["control"]): void {
    if (this.#left === undefined) this.#cancel(turnId);
    else control.lose(this.#left);
  }

  #cancel(turnId: string): void {
    this.#turns.cancel(turnId, CLOSED).catch(() => undefined); // The result of the turn says what happened.
  }

  /** A session that is closed alone says so with its own id; refusals of others are errors of the code that got them. */
  #leaveFor(control: QueuedTurn["control"], thrown: unknown): void {
    const lost = this.#remembers ? lostLeaseIn(thrown) : undefined;
    if (lost !== undefined) control.lose(lost);
    if (lost !== undefined || this.#code === undefined || control.isCancelled) return;
    const found = shutdownIn(thrown);
    if (found === undefined) return;
    const isOwn = found.details.sessionId === this.#turns.session.id;
    if (this.#code === "runtime_closed" || isOwn) control.lose(this.#error(this.#code));
  }

  #error(code: CloseCode): MarlingError {
    const { id } = this.#turns.session;
    const what = code === "runtime_closed" ? "runtime" : "session";
    const message = `session ${id}: expected an open ${what}, found a closed one`;
    return new MarlingError(code, message, { details: { sessionId: id } });
  }
}

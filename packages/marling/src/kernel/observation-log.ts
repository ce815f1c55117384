// What happened lately in an open session, kept once for everybody who observes it. Live only: it is no history.
//   OB1  at most so many entries are kept, and none that is too old; age is looked at when something is added, and when
//        somebody begins to read.
//   OB2  an entry is kept once: an observer is a place in the log, holds no entries, and slows nobody down. What observers
//        are given is made when one comes by and not kept; those who come by together are given the same object.
//   OB9  deltas that follow each other within a second are kept together, and are one text as soon as their turn has
//        committed; observers are told them one by one, as they came. They are as old as the last of them.
//   OB3  an observer is told every entry behind its place in order, or a gap with the view of now: nothing goes missing
//        silently.
//   OB4  behind a gap come the events of the turn in flight since its last commit, as far as they are kept. Without a
//        cursor an observer starts with the same, and with a gap only when some of them are gone.
//   OB5  nobody is told of a commit that the view it has contains; a cursor carries the revision its observer has.
//   OB6  a cursor of another opening of the session gives a gap; one that is malformed, of another session or ahead of
//        the log is `invalid_input`.
//   OB7  when another process has moved the session on, whoever does not know of it is told of a gap.
//   OB8  aborting ends an observation at once; closing ends it when everything kept has been told. Neither is an error.
//   OB10 who waits is told within the microtasks that follow: a turn may pass without waiting for anything from outside, and
//        is watched while it does. Of deltas, who waits is told once for all that came with one read of a socket.

import type { Clock } from "../base/clock.ts";
import { type DeltaEvent, isDelta, type TurnEvent } from "../model/turn.ts";
import type { HistoryNode, SessionView } from "../session/view.ts";
import { DeltaRun } from "./delta-run.ts";
import type { GapReason, ObserveOptions, SessionObservation } from "./observation.ts";
import { CursorCodec, nextOpening } from "./observation-cursor.ts";
import { type Listen, Observer, type Place, type Reading } from "./observer.ts";

export interface ObservationLogOptions {
  readonly sessionId: string;
  readonly clock: Clock;
  /** The newest committed revision. */
  revision(): number;
  /** The settled state; its history is shared, so that handing it out is cheap. */
  view(): SessionView;
  readonly limits?: ObservationLimits;
}

export interface ObservationLimits {
  readonly events: number;
  readonly ageMs: number;
}

const DEFAULT_LIMITS: ObservationLimits = { events: 2_048, ageMs: 120_000 };
const NOW = Promise.resolve();

/** A commit as observers are told of it. `turnId` is set when the turn itself committed. */
export interface ObservedCommit {
  readonly revision: number;
  readonly nodes: readonly HistoryNode[];
  readonly turnId?: string | undefined;
}

type Entry = {
  /** In whole milliseconds. */
  readonly at: number;
  readonly revision: number;
} & (
  | { readonly kind: "event"; readonly turnId: string; readonly event: TurnEvent }
  | {
      readonly kind: "committed";
      readonly turnId: string | undefined;
      readonly nodes: readonly HistoryNode[];
    }
  /** The session is at a revision that nobody here committed. */
  | { readonly kind: "moved" }
);

/** What has a number: an entry, or one of the deltas that follow each other. */
type Kept = Entry | DeltaRun;
type ToldEntry = Exclude<Kept, { readonly kind: "moved" }>;

export class ObservationLog {
  readonly #options: ObservationLogOptions;
  readonly #limits: ObservationLimits;
  readonly #cursors: CursorCodec;
  readonly #opening = nextOpening();
  /** The entry with a number is at its remainder by the limit. */
  readonly #ring: (Kept | undefined)[] = [];
  /** The newest entries, as long as they are deltas that follow each other. */
  #run: DeltaRun | undefined;
  #oldest = 0;
  #next = 0;
  /** The turn that runs, and its first entry that no commit has settled. */
  #inFlight: { readonly turnId: string; readonly from: number } | undefined;
  /** Those who wait, the first to come first; whether they will look soon, and whether they will when this tick is over. */
  #waiting: (() => void)[] = [];
  #isWaking = false;
  #isDue = false;
  #isClosed = false;
  /** What was told last, and the place behind it. */
  #told: SessionObservation | undefined;
  #toldNext = 0;
  readonly #reading: Reading = {
    take: (place) => this.#take(place),
    isClosed: () => this.#isClosed,
    onGrowth: (look) => void this.#waiting.push(look),
    wake: () => this.#wake(),
  };

  constructor(options: ObservationLogOptions) {
    this.#options = options;
    this.#limits = options.limits ?? DEFAULT_LIMITS;
    this.#cursors = new CursorCodec(options.sessionId, this.#opening);
  }

  event(turnId: string, event: TurnEvent): void {
    if (this.#isClosed) return;
    if (this.#inFlight?.turnId !== turnId || event.kind === "turn_started")
      this.#inFlight = { turnId, from: this.#next };
    if (isDelta(event)) {
      this.#addDelta(turnId, event);
      this.#wakeLater();
      return;
    }
    this.#add({ kind: "event", at: this.#now(), revision: this.#options.revision(), turnId, event });
    this.#wake();
  }

  /** To be called in the tick in which the session moves to the revision. */
  committed({ revision, nodes, turnId }: ObservedCommit): void {
    if (this.#isClosed) return;
    const settled = turnId === undefined || turnId !== this.#inFlight?.turnId ? undefined : this.#inFlight;
    if (settled !== undefined) this.#settleDeltas(Math.max(settled.from, this.#oldest));
    this.#add({ kind: "committed", at: this.#now(), revision, turnId, nodes });
    if (settled !== undefined) this.#inFlight = { turnId: settled.turnId, from: this.#next };
    this.#wake();
  }

  /** The session took over what another process committed. A turn that goes on here begins again. */
  moved(): void {
    if (this.#isClosed) return;
    this.#inFlight = undefined;
    this.#add({ kind: "moved", at: this.#now(), revision: this.#options.revision() });
    this.#wake();
  }

  /** The turn is over: nothing of it is in flight. One that only sleeps is not over. */
  ended(turnId: string): void {
    if (this.#inFlight?.turnId === turnId) this.#inFlight = undefined;
  }

  close(): void {
    this.#isClosed = true;
    this.#wake();
  }

  /**
   * What happens from now on, or behind a cursor. A cursor that is refused is thrown when iterating begins. `listen` is
   * called when it begins; what it returns, when the observation is over.
   */
  observe({ cursor, signal }: ObserveOptions = {}, listen?: Listen): AsyncIterable<SessionObservation> {
    const now = cursor === undefined ? this.#placeOfNow() : undefined;
    const start = (): Place => (now === undefined ? this.#placeOf(cursor) : { ...now });
    return { [Symbol.asyncIterator]: () => new Observer(this.#reading, start, { signal, listen }) };
  }

  #take(place: Place): SessionObservation | undefined {
    if (place.gap === undefined && place.next < this.#oldest) place.gap = "too_slow";
    if (place.gap !== undefined) return this.#gap(place, place.gap);
    while (place.next < this.#next) {
      const kept = this.#keptAt(place.next);
      place.next += 1;
      const isCommit = kept.kind === "committed" || kept.kind === "moved";
      if (isCommit && kept.revision <= place.revision) continue;
      if (kept.kind === "moved") return this.#gap(place, "other_process");
      place.revision = Math.max(place.revision, kept.revision);
      return this.#observationOf(kept, place);
    }
    return undefined;
  }

  /** What comes before they look wakes nobody again. */
  #wake(): void {
    if (this.#isWaking || this.#waiting.length === 0) return;
    this.#isWaking = true;
    void NOW.then(this.#look);
  }

  /** Behind all that goes on in this tick; more deltas may. */
  #wakeLater(): void {
    if (this.#isDue || this.#isWaking || this.#waiting.length === 0) return;
    this.#isDue = true;
    process.nextTick(this.#look);
  }

  readonly #look = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#isWaking = false;
    this.#isDue = false;
    for (const look of waiting) look();
  };

  #add(entry: Entry): void {
    this.#run = undefined;
    this.#keep(entry, entry.at);
  }

  #addDelta(turnId: string, event: DeltaEvent): void {
    const told = { at: this.#now(), revision: this.#options.revision(), turnId };
    if (this.#run?.add(told, event) !== true) this.#run = new DeltaRun(this.#next, told, event);
    this.#keep(this.#run, told.at);
  }

  #keep(kept: Kept, at: number): void {
    const { events } = this.#limits;
    this.#letGoOld(at);
    if (this.#next - this.#oldest === events) this.#oldest += 1;
    this.#ring[this.#next % events] = kept;
    this.#next += 1;
  }

  #keptAt(number: number): Kept {
    return this.#ring[number % this.#limits.events] as Kept;
  }

  /** Makes one text of deltas that follow each other, from an entry on. */
  #settleDeltas(from: number): void {
    for (let number = from; number < this.#next; ) {
      const kept = this.#keptAt(number);
      if (kept.kind === "deltas") kept.settle();
      number = kept.kind === "deltas" ? kept.end : number + 1;
    }
  }

  #letGoOld(now: number): void {
    const { events, ageMs } = this.#limits;
    for (; this.#oldest < this.#next; this.#oldest += 1) {
      const slot = this.#oldest % events;
      if (now - (this.#ring[slot] as Kept).at <= ageMs) return;
      this.#ring[slot] = undefined;
    }
  }

  #placeOfNow(): Place {
    this.#letGoOld(this.#now());
    const next = this.#inFlight?.from ?? this.#next;
    return { next, revision: this.#options.revision(), gap: next < this.#oldest ? "too_old" : undefined };
  }

  #placeOf(cursor: unknown): Place {
    const { opening, next, revision } = this.#cursors.decode(cursor);
    if (opening !== this.#opening) return { next: 0, revision: 0, gap: "other_process" };
    if (next > this.#next)
      throw this.#cursors.refusal("a cursor that observe() gave", "one ahead of the log");
    this.#letGoOld(this.#now());
    return { next, revision, gap: next < this.#oldest ? "too_old" : undefined };
  }

  #gap(place: Place, reason: GapReason): SessionObservation {
    const view = this.#options.view();
    const { turnId, from } = this.#inFlight ?? { turnId: undefined, from: this.#next };
    place.next = Math.max(from, this.#oldest);
    place.revision = view.revision;
    place.gap = undefined;
    const inFlight = turnId === undefined ? {} : { inFlight: { turnId, isWhole: from >= this.#oldest } };
    return { kind: "gap", cursor: this.#cursors.encode(place), reason, view, ...inFlight };
  }

  /** The same object for everybody, but for those who know of a newer commit already and need that in their cursor. */
  #observationOf(kept: ToldEntry, place: Place): SessionObservation {
    const isShared = place.revision === kept.revision;
    if (isShared && place.next === this.#toldNext && this.#told !== undefined) return this.#told;
    const told = observationOf(kept, { cursor: this.#cursors.encode(place), number: place.next - 1 });
    if (!isShared) return told;
    this.#told = told;
    this.#toldNext = place.next;
    return told;
  }

  /** Whole milliseconds: a fraction would be an object of its own in every entry. */
  #now(): number {
    return Math.floor(this.#options.clock.monotonic());
  }
}

function observationOf(
  kept: ToldEntry,
  { cursor, number }: { readonly cursor: string; readonly number: number },
): SessionObservation {
  if (kept.kind !== "committed") {
    const event = kept.kind === "deltas" ? kept.eventAt(number) : kept.event;
    return { kind: "event", cursor, turnId: kept.turnId, event };
  }
  const { revision, turnId, nodes } = kept;
  return { kind: "committed", cursor, revision, ...(turnId === undefined ? {} : { turnId }), nodes };
}

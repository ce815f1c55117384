// Deltas of a turn that were told one after the other. As long as their turn runs they are kept as they came; when it has
// committed they are one text: what is settled is rarely asked for again, and each delta by itself costs several times
// its text.

import type { DeltaEvent } from "../model/turn.ts";

/** Fewer deltas are left as they are. */
const SHORTEST = 4;
/** The first delta of a run is at most this much older than the last: a run is let go as a whole. */
const LONGEST_MS = 1_000;

/** When and of what something was told. */
export interface Told {
  /** In whole milliseconds. */
  readonly at: number;
  readonly revision: number;
  readonly turnId: string;
}

export class DeltaRun {
  readonly kind = "deltas";
  readonly revision: number;
  readonly turnId: string;
  readonly #first: number;
  readonly #firstAt: number;
  #at: number;
  #events: DeltaEvent[] | undefined;
  #text = "";
  /** Where each delta ends in the text. */
  #ends: readonly number[] = [];
  #sample: DeltaEvent;

  /** Begins with a delta whose entry has this number. */
  constructor(first: number, { at, revision, turnId }: Told, event: DeltaEvent) {
    this.revision = revision;
    this.turnId = turnId;
    this.#first = first;
    this.#firstAt = at;
    this.#at = at;
    this.#events = [event];
    this.#sample = event;
  }

  /** When the newest of them was told. */
  get at(): number {
    return this.#at;
  }

  /** The number of the entry behind the last one. */
  get end(): number {
    return this.#first + (this.#events ?? this.#ends).length;
  }

  /** Adds a delta if it goes on where the last one ended; else false. */
  add({ at, revision, turnId }: Told, event: DeltaEvent): boolean {
    const { kind, round } = this.#sample;
    const isNext = kind === event.kind && round === event.round && turnId === this.turnId;
    if (!isNext || revision !== this.revision || at - this.#firstAt > LONGEST_MS) return false;
    if (this.#events === undefined) return false;
    this.#events.push(event);
    this.#at = at;
    return true;
  }

  /** The delta whose entry has this number. */
  eventAt(number: number): DeltaEvent {
    const index = number - this.#first;
    const kept = this.#events?.[index];
    if (kept !== undefined) return kept;
    return { ...this.#sample, text: this.#text.slice(this.#ends[index - 1] ?? 0, this.#ends[index]) };
  }

  /** Makes one text of them. */
  settle(): void {
    const events = this.#events;
    if (events === undefined || events.length < SHORTEST) return;
    const texts: string[] = [];
    const ends: number[] = [];
    let end = 0;
    for (let index = 0; index < events.length; index += 1) {
      const { text } = events[index] as DeltaEvent;
      end += text.length;
      texts.push(text);
      ends.push(end);
    }
    this.#text = texts.join(""); // Adding them up would keep every one of them.
    this.#ends = ends;
    this.#sample = { ...this.#sample, text: "" };
    this.#events = undefined;
  }
}

// Deltas of a turn that were told one after the other, kept as one text. What has been streamed and is committed is rarely
// asked for again, and each delta by itself costs several times its text.

import type { DeltaEvent } from "../model/turn.ts";

/** One delta as the log keeps it. */
export interface DeltaEntry {
  readonly kind: "event";
  readonly at: number;
  readonly revision: number;
  readonly turnId: string;
  readonly event: DeltaEvent;
}

export class DeltaRun {
  /** When the newest of them was told. */
  readonly at: number;
  readonly #first: number;
  readonly #from: DeltaEntry;
  readonly #text: string;
  /** Where each delta ends in the text. */
  readonly #ends: readonly number[];

  /** From entries that follow each other, the first of which has this number. */
  constructor(first: number, entries: readonly [DeltaEntry, ...(readonly DeltaEntry[])]) {
    let length = 0;
    const [from] = entries;
    this.at = (entries.at(-1) ?? from).at;
    this.#first = first;
    this.#text = entries.map(({ event }) => event.text).join("");
    this.#from = { ...from, event: { ...from.event, text: "" } };
    this.#ends = entries.map(({ event }) => {
      length += event.text.length;
      return length;
    });
  }

  /** The entry with a number, as it was. */
  entry(number: number): DeltaEntry {
    const index = number - this.#first;
    const text = this.#text.slice(this.#ends[index - 1] ?? 0, this.#ends[index]);
    return { ...this.#from, event: { ...this.#from.event, text } };
  }

  /** Whether one delta goes on where the other ended. */
  static isOne(one: DeltaEntry, next: DeltaEntry): boolean {
    return (
      one.turnId === next.turnId &&
      one.revision === next.revision &&
      one.event.kind === next.event.kind &&
      one.event.round === next.event.round
    );
  }
}

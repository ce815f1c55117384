// Wall time of a zone and instants. A wall time is written as the milliseconds that it would be in UTC.

import { MarlingError } from "../base/errors.ts";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** Offsets change on quarters of an hour; so many of them are remembered. */
const QUARTER = 15 * MINUTE;
const MOST_REMEMBERED = 4000;

export class TimeZone {
  readonly name: string;
  readonly #format: Intl.DateTimeFormat;
  readonly #offsets = new Map<number, number>();

  /** Throws `invalid_schedule` for a name that is no time zone of this system. */
  constructor(name: string) {
    this.name = name;
    this.#format = formatOf(name);
  }

  /** The wall time of an instant. */
  wallTime(at: number): number {
    return at + this.#offset(at);
  }

  /** The instants that have a wall time, earliest first: one, two where it comes twice, none where it is skipped. */
  instants(wall: number): readonly number[] {
    const [before, after] = this.#offsetsAround(wall);
    const one = wall - Math.max(before, after);
    const other = wall - Math.min(before, after);
    const found = one === other ? [one] : [one, other];
    return found.filter((at) => this.wallTime(at) === wall);
  }

  /** The first instant behind a wall time that is skipped. */
  afterSkipped(wall: number): number {
    const [before, after] = this.#offsetsAround(wall);
    let early = wall - Math.max(before, after);
    let late = wall - Math.min(before, after);
    while (late - early > MINUTE) {
      const middle = early + Math.floor((late - early) / 2 / MINUTE) * MINUTE;
      if (this.#offset(middle) === before) early = middle;
      else late = middle;
    }
    return late;
  }

  #offsetsAround(wall: number): readonly [number, number] {
    return [this.#offset(wall - DAY), this.#offset(wall + DAY)];
  }

  #offset(at: number): number {
    const quarter = Math.floor(at / QUARTER);
    const known = this.#offsets.get(quarter);
    if (known !== undefined) return known;
    const offset = this.#read(quarter * QUARTER);
    if (this.#offsets.size >= MOST_REMEMBERED) this.#offsets.clear();
    this.#offsets.set(quarter, offset);
    return offset;
  }

  #read(at: number): number {
    const parts = new Map(this.#format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
    const part = (name: Intl.DateTimeFormatPartTypes): number => parts.get(name) ?? 0;
    const wall = Date.UTC(
      part("year"),
      part("month") - 1,
      part("day"),
      part("hour"),
      part("minute"),
      part("second"),
    );
    return wall - at;
  }
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat("en-US-u-ca-gregory-nu-latn-hc-h23", {
      timeZone,
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch (cause) {
    const message = `time zone: expected the name of a zone such as Europe/Berlin, found ${JSON.stringify(timeZone)}`;
    throw new MarlingError("invalid_schedule", message, { cause, details: { timeZone } });
  }
}

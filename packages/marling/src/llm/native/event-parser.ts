// The JSON of the events of one stream.
//   LN14  most events are the one before with another text in one place: what is around the text is parsed once, and the
//         text is parsed by itself. What is read is what parsing each event would give.

import { membersOf } from "../members-of.ts";

type Members = { readonly [name: string]: unknown };

/** An event of which one text is left open. */
interface KnownEvent {
  /** What its JSON begins with, up to the sign before the text, and what it ends with from the sign behind it. */
  readonly start: string;
  readonly end: string;
  readonly event: Members;
  /** Where the text is. */
  readonly holder: { [name: string]: unknown };
  readonly name: string;
}

/** How many events in a row are compared with the one before; streams whose events are all different stop paying for it. */
const MOST_TRIES = 8;
/** Longer events are not compared: of those few come, and what they cost is their text. */
const LONGEST_COMPARED = 4_096;
/** Texts to find a place with; one that an event does not have is taken. */
const PROBES: readonly string[] = ["?", "?!", "?!?", "!?!"];
/** How many levels of an event are looked through for its text. */
const DEEPEST = 8;

export class EventParser {
  #before = "";
  #known: KnownEvent | undefined;
  #tries = MOST_TRIES;

  /** The members of an event, valid until the next one is parsed; nothing when it is no JSON. */
  parse(data: string): Members | undefined {
    const known = this.#known;
    if (known !== undefined && fits(known, data)) {
      const text = parsed(data.slice(known.start.length - 1, data.length - known.end.length + 1));
      if (typeof text !== "string") return eventOf(data);
      this.#tries = MOST_TRIES;
      known.holder[known.name] = text;
      return known.event;
    }
    if (this.#tries > 0) {
      this.#tries -= 1;
      this.#known = learn(this.#before, data) ?? known;
      this.#before = data;
    }
    return eventOf(data);
  }
}

/** The members of what a text is the JSON of; nothing when it is none. */
export function eventOf(data: string): Members | undefined {
  const value = parsed(data);
  return value === undefined ? undefined : membersOf(value);
}

/** The value that a text is the JSON of; nothing when it is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Slices are compared at once; `startsWith`, once optimized, goes through long texts a character at a time. */
function fits({ start, end }: KnownEvent, data: string): boolean {
  const isLongEnough = data.length >= start.length + end.length;
  return isLongEnough && data.slice(0, start.length) === start && data.slice(-end.length) === end;
}

/** What two events have in common, when they differ inside one text. */
function learn(before: string, data: string): KnownEvent | undefined {
  if (data.length > LONGEST_COMPARED) return undefined;
  const most = Math.min(before.length, data.length);
  let same = 0;
  while (same < most && before.charCodeAt(same) === data.charCodeAt(same)) same += 1;
  if (same === 0) return undefined;
  const open = data.lastIndexOf('"', same - 1);
  const close = data.indexOf('"', open + 1);
  if (open < 0 || close < same) return undefined;
  const [start, end] = [data.slice(0, open + 1), data.slice(close)];
  if (!before.endsWith(end)) return undefined; // More than a text differs.
  const probe = PROBES.find((text) => !data.includes(text));
  if (probe === undefined) return undefined;
  const event = eventOf(start + probe + end);
  const place = placeOf(event, probe);
  return event === undefined || place === undefined ? undefined : { start, end, event, ...place };
}

/** Where a text is in a value, if it is not too deep. */
function placeOf(value: unknown, text: string, depth = 0): Pick<KnownEvent, "holder" | "name"> | undefined {
  if (typeof value !== "object" || value === null || depth > DEEPEST) return undefined;
  for (const [name, member] of Object.entries(value)) {
    if (member === text && name !== "__proto__") return { holder: value as KnownEvent["holder"], name };
    const inside = placeOf(member, text, depth + 1);
    if (inside !== undefined) return inside;
  }
  return undefined;
}

// What the watchers of a turn have seen already. A turn that slept runs again from its journal; in the process that it
// slept in, nobody is told the same thing twice.

import { isDelta, type TurnEvent } from "../model/turn.ts";

export class ShownEvents {
  /** By name, how often it was shown in runs before this one; nothing in the first run, as which most turns end. */
  #before: ReadonlyMap<string, number> | undefined;
  /** The same of this run. */
  #now = new Map<string, number>();
  /** Events of the first run, which are named when there is a second. */
  #first: TurnEvent[] = [];

  /** The turn begins again from the start. */
  beginAgain(): void {
    for (const event of this.#first) this.#count(nameOf(event));
    this.#first = [];
    this.#before = this.#now;
    this.#now = new Map();
  }

  /** Whether an event is new to watchers. */
  isNew(event: TurnEvent): boolean {
    if (this.#before === undefined) {
      if (!isDelta(event)) this.#first.push(event);
      return true;
    }
    const name = nameOf(event);
    if (name === undefined) return !(isDelta(event) && this.#before.has(`finished ${event.round}`));
    return this.#count(name) > (this.#before.get(name) ?? 0);
  }

  #count(name: string | undefined): number {
    if (name === undefined) return 0;
    const count = (this.#now.get(name) ?? 0) + 1;
    this.#now.set(name, count);
    return count;
  }
}

/** What makes an event the same in every run; text has no name, it goes with its round. */
function nameOf(event: TurnEvent): string | undefined {
  switch (event.kind) {
    case "text_delta":
    case "reasoning_delta":
    case "attempt_reset":
    case "tool_progress":
      return undefined;
    case "model_call":
      return `${event.phase} ${event.round}`;
    case "tool_started":
    case "waiting":
      return `${event.kind} ${event.callId}`;
    case "tool_finished":
      return `${event.kind} ${event.record.callId}`;
    case "usage":
      return `${event.kind} ${event.round}`;
    case "input_accepted":
      return `${event.kind} ${event.inputIds.join(" ")}`;
    default:
      return JSON.stringify(event);
  }
}

// What the watchers of a turn have seen already. A turn that slept runs again from its journal; in the process that it
// slept in, nobody is told the same thing twice.

import { isDelta, type TurnEvent } from "../model/turn.ts";

export class ShownEvents {
  /** By name, how often it was shown in runs before this one, and in this one. */
  #before = new Map<string, number>();
  #now = new Map<string, number>();

  /** The turn begins again from the start. */
  beginAgain(): void {
    this.#before = this.#now;
    this.#now = new Map();
  }

  /** Whether an event is new to watchers. */
  isNew(event: TurnEvent): boolean {
    const name = nameOf(event);
    if (name === undefined)
      return this.#before.size === 0 || !(isDelta(event) && this.#before.has(`finished ${event.round}`));
    const count = (this.#now.get(name) ?? 0) + 1;
    this.#now.set(name, count);
    return count > (this.#before.get(name) ?? 0);
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

// Which events of a turn were shown already. A turn that slept runs again from what was recorded, and those who observe
// its session are told all of it again.

import type { TurnEvent } from "marling";

export class SeenEvents {
  #earlier = new Map<string, number>();
  #now = new Map<string, number>();

  /** The turn runs again from its beginning. */
  beginAgain(): void {
    this.#earlier = this.#now;
    this.#now = new Map();
  }

  isNew(event: TurnEvent): boolean {
    if (event.kind === "text_delta" || event.kind === "reasoning_delta")
      return !this.#earlier.has(`model_call finished ${event.round}`);
    const name = nameOf(event);
    if (name === undefined) return true;
    const times = (this.#now.get(name) ?? 0) + 1;
    this.#now.set(name, times);
    return times > (this.#earlier.get(name) ?? 0);
  }
}

function nameOf(event: TurnEvent): string | undefined {
  switch (event.kind) {
    case "attempt_reset":
    case "tool_progress":
      return undefined;
    case "model_call":
      return `model_call ${event.phase} ${event.round}`;
    case "tool_started":
    case "waiting":
      return `${event.kind} ${event.callId}`;
    case "tool_finished":
      return `tool_finished ${event.record.callId}`;
    case "usage":
      return `usage ${event.round}`;
    default:
      return JSON.stringify(event);
  }
}

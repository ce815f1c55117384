// The live events of one turn, for any number of watchers.
//   EV1  a watcher that comes late gets the newest events that are kept, then everything that follows.
//   EV2  nobody has to watch: what is kept is bounded.
//   EV3  a slow watcher costs at most the text it has not read: adjacent deltas are joined while it lags.
//   EV4  those who observe the session are told every run of the turn from its beginning, watchers only what is new.

import { isDelta, type TurnEvent } from "../model/turn.ts";
import type { ObservationLog } from "./observation-log.ts";

const KEPT = 2_048;
const JOIN_BEYOND = 1_024;

interface Watcher {
  readonly queue: TurnEvent[];
  wake: (() => void) | undefined;
}

/** Where the turn's session is observed. */
interface Observed {
  readonly turnId: string;
  readonly log: Pick<ObservationLog, "event" | "ended">;
}

export class TurnEvents {
  readonly #observed: Observed | undefined;
  readonly #kept: TurnEvent[] = [];
  #dropped = 0;
  readonly #watchers = new Set<Watcher>();
  #isClosed = false;

  constructor(observed?: Observed) {
    this.#observed = observed;
  }

  /** Tells an event; `isNew` is false when watchers saw it in an earlier run of the turn. */
  emit(event: TurnEvent, isNew = true): void {
    if (this.#isClosed) return;
    this.#observed?.log.event(this.#observed.turnId, event);
    if (!isNew) return;
    this.#kept.push(event);
    if (this.#kept.length >= 2 * KEPT) this.#dropped += this.#kept.splice(0, KEPT).length;
    if (this.#watchers.size === 0) return; // An iterator for each delta would cost more than the delta.
    for (const watcher of this.#watchers) {
      enqueue(watcher.queue, event);
      watcher.wake?.();
    }
  }

  /** Events that were let go because nobody watched when they happened. */
  get dropped(): number {
    return this.#dropped;
  }

  close(): void {
    this.#isClosed = true;
    this.#observed?.log.ended(this.#observed.turnId);
    for (const watcher of this.#watchers) watcher.wake?.();
  }

  async *watch(): AsyncGenerator<TurnEvent, void, void> {
    const watcher: Watcher = { queue: [...this.#kept], wake: undefined };
    this.#watchers.add(watcher);
    try {
      for (;;) {
        for (const event of watcher.queue.splice(0)) yield event;
        if (watcher.queue.length > 0) continue;
        if (this.#isClosed) return;
        await new Promise<void>((resolve) => {
          watcher.wake = resolve;
        });
        watcher.wake = undefined;
      }
    } finally {
      this.#watchers.delete(watcher);
    }
  }
}

function enqueue(queue: TurnEvent[], event: TurnEvent): void {
  const last = queue.at(-1);
  if (
    queue.length > JOIN_BEYOND &&
    isDelta(event) &&
    last?.kind === event.kind &&
    last.round === event.round
  ) {
    queue[queue.length - 1] = { ...last, text: last.text + event.text };
    return;
  }
  queue.push(event);
}

// Who is told of tasks. Nobody who listens can hold up or fail what happens.
//   TE1  events are told in the order in which things happened, to every subscriber whose filter they pass.
//   TE2  a subscriber that throws is reported, and the others are told all the same.
//   TE3  a watcher that is slow skips the oldest events; the registry's list is the truth, events are news.

import { type Deferred, deferred } from "../base/deferred.ts";
import { matchesEvent, type TaskEvent, type TaskFilter } from "./task.ts";

export type TaskListener = (event: TaskEvent) => void;

export interface WatchOptions {
  /** Ends the watching; no error. */
  readonly signal?: AbortSignal;
  /** How many events may wait to be read. Default: 256. */
  readonly limit?: number;
}

interface Subscriber {
  readonly filter: TaskFilter;
  readonly listener: TaskListener;
}

const WATCH_LIMIT = 256;

export class TaskEvents {
  readonly #subscribers = new Set<Subscriber>();
  readonly #watchers = new Set<Mailbox>();
  readonly #onListenerFailed: (event: TaskEvent, error: unknown) => void;
  /** What happened while subscribers were being told of something else. */
  readonly #untold: TaskEvent[] = [];
  #isTelling = false;
  #isClosed = false;

  constructor(onListenerFailed: (event: TaskEvent, error: unknown) => void) {
    this.#onListenerFailed = onListenerFailed;
  }

  publish(event: TaskEvent): void {
    if (this.#isClosed) return;
    this.#untold.push(Object.freeze(event));
    if (this.#isTelling) return;
    this.#isTelling = true;
    try {
      for (let next = this.#untold.shift(); next !== undefined; next = this.#untold.shift()) this.#tell(next);
    } finally {
      this.#isTelling = false;
    }
  }

  /** Tells a listener of every event from now on. The returned function ends it. */
  subscribe(listener: TaskListener, filter: TaskFilter = {}): () => void {
    const subscriber: Subscriber = { filter, listener };
    this.#subscribers.add(subscriber);
    return () => {
      this.#subscribers.delete(subscriber);
    };
  }

  /** The events from the moment reading begins. Ends when the events are closed, and when the signal aborts. */
  async *watch(filter: TaskFilter = {}, options: WatchOptions = {}): AsyncGenerator<TaskEvent, void> {
    const { signal, limit = WATCH_LIMIT } = options;
    const mailbox = new Mailbox(limit);
    const end = (): void => mailbox.end();
    const unsubscribe = this.subscribe((event) => mailbox.put(event), filter);
    this.#watchers.add(mailbox);
    signal?.addEventListener("abort", end, { once: true });
    if (this.#isClosed || signal?.aborted === true) end();
    try {
      for (let event = await mailbox.take(); event !== undefined; event = await mailbox.take()) {
        yield event;
        if (signal?.aborted === true) return;
      }
    } finally {
      unsubscribe();
      this.#watchers.delete(mailbox);
      signal?.removeEventListener("abort", end);
    }
  }

  /** Watchers read what waits for them and end; nothing is told any more. */
  close(): void {
    this.#isClosed = true;
    for (const mailbox of this.#watchers) mailbox.end();
    this.#subscribers.clear();
  }

  #tell(event: TaskEvent): void {
    for (const { filter, listener } of [...this.#subscribers]) {
      if (!matchesEvent(event, filter)) continue;
      try {
        listener(event);
      } catch (error) {
        this.#onListenerFailed(event, error);
      }
    }
  }
}

/** What one watcher has not read yet. */
class Mailbox {
  readonly #limit: number;
  readonly #events: TaskEvent[] = [];
  #grown: Deferred<void> | undefined;
  #isEnded = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  put(event: TaskEvent): void {
    if (this.#events.length === this.#limit) this.#events.shift();
    this.#events.push(event);
    this.#grown?.resolve();
  }

  end(): void {
    this.#isEnded = true;
    this.#grown?.resolve();
  }

  /** The next event, or nothing when there will be none. */
  async take(): Promise<TaskEvent | undefined> {
    while (this.#events.length === 0 && !this.#isEnded) {
      this.#grown = deferred();
      await this.#grown.promise;
    }
    return this.#events.shift();
  }
}

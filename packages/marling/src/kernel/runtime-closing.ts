// How the sessions of a runtime end together.
//   RT1  from the first moment on no input is taken from outside; turns that were accepted may still open and make
//        sessions, start turns and give inputs, and all of that is waited for within the grace.
//   RT2  no session is released before all are done: a turn of one may need another.
//   RT3  when the grace is over, all turns are ended in one step, before anything is refused to them.

import { MarlingError } from "../base/errors.ts";
import { isInTime } from "../base/in-time.ts";
import type { KernelParts } from "./parts.ts";
import { LAST_MS } from "./queue-closing.ts";
import type { TurnQueue } from "./turn-queue.ts";

export interface RuntimeGrace {
  readonly graceMs: number;
}

export class RuntimeClosing {
  readonly #parts: Pick<KernelParts, "clock" | "watch">;
  readonly #queues = new Set<TurnQueue>();
  #grace: RuntimeGrace | undefined;
  #isEnding = false;
  #isOver = false;

  constructor(parts: Pick<KernelParts, "clock" | "watch">) {
    this.#parts = parts;
  }

  /** Whether nothing is taken from outside any more. */
  get isClosing(): boolean {
    return this.#grace !== undefined;
  }

  add(queue: TurnQueue): void {
    this.#queues.add(queue);
    if (this.#grace !== undefined) queue.closing.begin("runtime_closed", this.#grace);
    if (this.#isEnding) queue.closing.end("runtime_closed");
  }

  delete(queue: TurnQueue): void {
    this.#queues.delete(queue);
  }

  /** Takes nothing more from outside. */
  begin(grace: RuntimeGrace): void {
    if (this.isClosing) return;
    this.#grace = grace;
    for (const queue of this.#queues) queue.closing.begin("runtime_closed", grace);
  }

  /** Resolves when nothing is at work, or the grace is over; from then on nobody opens or makes a session. */
  async end(grace: RuntimeGrace, onEnding: () => void): Promise<void> {
    this.begin(grace);
    const drained = this.#drained();
    const isDone = await isInTime(drained, grace.graceMs, this.#parts);
    onEnding();
    if (!isDone) {
      this.#isEnding = true;
      for (const queue of this.#queues) queue.closing.end("runtime_closed");
      await isInTime(drained, LAST_MS, this.#parts);
    }
    this.#isOver = true;
  }

  /** For calls from outside. */
  refuseOutside(): void {
    if (this.isClosing) throw closed();
  }

  /** For calls of what is at work. */
  refuse(): void {
    if (this.#isOver) throw closed();
  }

  /** A turn that ends may have been all that kept others which only wait: they look again. */
  async #drained(): Promise<void> {
    for (;;) {
      const busy = [...this.#queues].filter(({ isAtWork }) => isAtWork);
      if (busy.length === 0 || this.#isOver) return;
      this.#parts.watch.wake();
      await Promise.race(busy.map(({ closing }) => closing.drained()));
    }
  }
}

function closed(): MarlingError {
  return new MarlingError("runtime_closed", "expected an open runtime, found a closed one");
}

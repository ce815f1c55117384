// Recovery: sessions with work that nobody goes on with are opened, and the work goes on.
//   RC1  it begins with the runtime, and is looked for again after every change and now and then.
//        A store that cannot be reached when it begins is tried again by every sweep.
//   RC2  a session that cannot be opened is skipped and reported; its inputs stay accepted.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { SessionId } from "../model/ids.ts";
import type { KernelParts } from "./parts.ts";
import type { QueuedTurn } from "./turn-queue.ts";

export interface RecoveryReport {
  readonly resumed: readonly { readonly sessionId: string; readonly turnId: string }[];
  /** Sessions that could not be opened, and why; their inputs stay accepted. */
  readonly skipped: readonly {
    readonly sessionId: string;
    readonly code: string;
    readonly message: string;
  }[];
}

/** What is remembered of turns that were resumed before somebody asked. */
const MOST_RESUMED = 10_000;

export class Recovery {
  readonly #parts: KernelParts;
  readonly #open: (id: SessionId) => Promise<void>;
  readonly #resumed = new Set<QueuedTurn>();
  readonly #skipped = new Map<string, RecoveryReport["skipped"][number]>();
  #sweeping: Promise<void> | undefined;
  #isAskedAgain = false;
  #isStopped = false;

  constructor(parts: KernelParts, open: (id: SessionId) => Promise<void>) {
    this.#parts = parts;
    this.#open = open;
  }

  /** Resolves when the store is open; the sweep goes on behind it. */
  async start(): Promise<void> {
    const { store, effects, watch } = this.#parts;
    if (effects.remembers !== true) return;
    watch.sweep(() => void this.sweep().catch(() => undefined));
    await store.changes();
    this.sweep().catch(() => undefined); // What fails is found by whoever uses the store next.
  }

  /** Opens the sessions that somebody should go on with. One sweep at a time; asked meanwhile, there is another. */
  sweep(): Promise<void> {
    if (this.#parts.effects.remembers !== true || this.#isStopped) return Promise.resolve();
    this.#isAskedAgain = this.#sweeping !== undefined;
    this.#sweeping ??= this.#sweepAll().finally(() => {
      this.#sweeping = undefined;
    });
    return this.#sweeping;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#sweeping?.catch(() => undefined);
  }

  /** A turn of an earlier process is taken up. */
  note(turn: QueuedTurn): void {
    this.#resumed.add(turn);
    const [oldest] = this.#resumed;
    if (this.#resumed.size > MOST_RESUMED && oldest !== undefined) this.#resumed.delete(oldest);
  }

  /** What was resumed since the runtime began, and what cannot be. */
  report(): RecoveryReport {
    const resumed = [...this.#resumed].filter(({ hasRun, isParked }) => hasRun && !isParked);
    return {
      resumed: resumed.map(({ row }) => ({ sessionId: row.sessionId, turnId: row.turnId })),
      skipped: [...this.#skipped.values()],
    };
  }

  async #sweepAll(): Promise<void> {
    const { store, clock } = this.#parts;
    do {
      this.#isAskedAgain = false;
      for (const id of await store.workable(clock.now())) {
        if (this.#isStopped) return;
        await this.#open(id).then(
          () => this.#skipped.delete(id),
          (thrown: unknown) => this.#skip(id, thrown),
        );
      }
    } while (this.#isAskedAgain && !this.#isStopped);
  }

  #skip(id: SessionId, thrown: unknown): void {
    const code = MarlingError.is(thrown) ? thrown.code : "io_failed";
    this.#skipped.set(id, { sessionId: id, code, message: messageOf(thrown) });
  }
}

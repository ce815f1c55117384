// Recovery: sessions with work that nobody goes on with are opened, and the work goes on.
//   RC1  it begins with the runtime, and is looked for again after every change and now and then.
//        A store that cannot be reached when it begins is tried again by every sweep.
//   RC2  a session that cannot be opened is skipped and reported; its inputs stay accepted.
//   RC4  what goes on beside turns is gone on with as well, where nobody does. What was let go here, done or not, is left
//        alone until somebody else has written to the session.
//   RC3  the runtime of a whole store looks for those of its tenants too, whose runtimes look for nothing by themselves.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { SessionId } from "../model/ids.ts";
import type { KernelParts } from "./parts.ts";
import { SessionTrace } from "./session-trace.ts";
import type { QueuedTurn } from "./turn-queue.ts";

export interface RecoveryReport {
  /** With the tenant, where the session is of one and the runtime is not. */
  readonly resumed: readonly {
    readonly sessionId: string;
    readonly turnId: string;
    readonly tenant?: string;
  }[];
  /** Sessions with durable tasks that go on here, which nobody waits for. */
  readonly resumedWork: readonly { readonly sessionId: string; readonly tenant?: string }[];
  /** Sessions that could not be opened, and why; their inputs stay accepted. */
  readonly skipped: readonly {
    readonly sessionId: string;
    readonly tenant?: string;
    readonly code: string;
    readonly message: string;
  }[];
}

/** What is remembered of what was resumed before somebody asked. */
const MOST_RESUMED = 10_000;

/** Which sessions there are to go on with, and how. */
export interface RecoverySource {
  /** Takes up everything that can be taken up now, until it is told to stop. */
  takeUpAll(isStopped: () => boolean): Promise<void>;
  open(id: SessionId): Promise<void>;
  /** As `open`, for what goes on beside turns; says whether that goes on here now. */
  openForWork(id: SessionId): Promise<boolean>;
  /** Whether it is looked for now and then, or only when somebody says so. */
  readonly isTimed: boolean;
  /** Called whenever it is time to look. */
  onTime(): void;
}

export class Recovery {
  readonly #parts: KernelParts;
  readonly #source: RecoverySource;
  readonly #resumed = new Set<QueuedTurn>();
  readonly #resumedWork = new Set<SessionId>();
  readonly #skipped = new Map<string, RecoveryReport["skipped"][number]>();
  #sweeping: Promise<void> | undefined;
  #isAskedAgain = false;
  #isStopped = false;

  constructor(parts: KernelParts, source: RecoverySource) {
    this.#parts = parts;
    this.#source = source;
  }

  /** Resolves when the store is open; the sweep goes on behind it. */
  async start(): Promise<void> {
    const { store, effects, watch } = this.#parts;
    if (effects.remembers !== true) return;
    watch.sweep(() => void this.sweep().catch(() => undefined), this.#source);
    await store.changes();
    if (this.#source.isTimed) this.sweep().catch(() => undefined); // What fails is found by whoever uses the store next.
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
    remember(this.#resumed, turn);
  }

  /** What was resumed since the runtime began, and what cannot be. */
  report(): RecoveryReport {
    const resumed = [...this.#resumed].filter(({ hasRun, isParked }) => hasRun && !isParked);
    return {
      resumed: resumed.map(({ row }) => ({ sessionId: row.sessionId, turnId: row.turnId })),
      resumedWork: [...this.#resumedWork].map((sessionId) => ({ sessionId })),
      skipped: [...this.#skipped.values()],
    };
  }

  /** Opens a session that somebody should go on with, or says why it cannot be. */
  async takeUp(id: SessionId): Promise<void> {
    try {
      await this.#source.open(id);
      this.#skipped.delete(id);
    } catch (thrown) {
      this.#skip(id, thrown);
    }
  }

  /** As `takeUp`, for what goes on beside turns. */
  async takeUpWork(id: SessionId): Promise<void> {
    try {
      if (await this.#source.openForWork(id)) remember(this.#resumedWork, id);
      this.#skipped.delete(id);
    } catch (thrown) {
      this.#skip(id, thrown);
    }
  }

  async #sweepAll(): Promise<void> {
    do {
      this.#isAskedAgain = false;
      await this.#source.takeUpAll(() => this.#isStopped);
    } while (this.#isAskedAgain && !this.#isStopped);
  }

  #skip(id: SessionId, thrown: unknown): void {
    const code = MarlingError.is(thrown) ? thrown.code : "io_failed";
    if (this.#skipped.get(id)?.code !== code) this.#tell(id, code);
    this.#skipped.set(id, { sessionId: id, code, message: messageOf(thrown) });
  }
  /** There is no session that could tell it. */
  #tell(sessionId: SessionId, code: string): void {
    const { trace, clock, owner } = this.#parts;
    if (trace === undefined) return;
    new SessionTrace({ trace, clock, owner }, { id: sessionId, running: undefined }).event("recovery", {
      kind: "skipped",
      code,
    });
  }
}

/** Only the newest are remembered. */
function remember<T>(known: Set<T>, value: T): void {
  known.add(value);
  const [oldest] = known;
  if (known.size > MOST_RESUMED && oldest !== undefined) known.delete(oldest);
}

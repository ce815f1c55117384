// Writes that arrive together share a transaction.
//   WQ1  what arrives in one tick is one transaction; a caller hears of its write after COMMIT, never before.
//   WQ5  who writes alone waits for the end of its tick only; what arrives behind that, before the process has looked for what
//        came from outside, waits for all of it: a crowd shares its transactions.
//   WQ2  a write that fails changes nothing and fails alone: those that shared its transaction are done again, each with a
//        savepoint of its own. Failures are rare, and savepoints for all cost more than most writes do.
//   WQ3  there is no await between BEGIN and COMMIT; while somebody else holds the file, waiting is asynchronous and
//        bounded, and then everybody who waited gets `store_busy`.
//   WQ6  callers of a large transaction are told in another turn of the event loop: what they do next does not add to the
//        time that the transaction has blocked the process.
//   WQ4  after a failure the next write finds what was committed before it.

import { type Deferred, deferred, isPromise } from "../../base/deferred.ts";
import type { MarlingError } from "../../base/errors.ts";
import type { Connection } from "./connection.ts";
import { isBusy } from "./sqlite-fault.ts";
import { whenFree } from "./when-free.ts";

export interface WriteQueueOptions {
  /** How long writes wait for somebody else's lock before they fail. */
  readonly busyLimitMs: number;
  /** Called inside every transaction, before its writes: nobody else writes from here to its end. */
  readonly onBegun: () => void;
  /** Called behind COMMIT, before anybody is told: what it throws fails every write of the transaction. */
  readonly onCommitted: () => void;
  /** The error that a caller gets for what was thrown. */
  readonly fault: (thrown: unknown) => MarlingError;
  /** Told when something that was written is undone: what was remembered of it is void. */
  readonly onUndone: () => void;
  /** Told after writes were committed and whoever asked for them has been answered. */
  readonly onDone: () => void;
}

interface Write {
  readonly apply: () => unknown;
  readonly settled: Deferred<unknown>;
}

type Outcome =
  | { readonly kind: "done"; readonly value: unknown }
  | { readonly kind: "failed"; readonly error: unknown };

type Outcomes = readonly (Outcome | undefined)[];

export class WriteQueue {
  readonly #db: Connection;
  readonly #options: WriteQueueOptions;
  #waiting: Write[] = [];
  /** Whether what waits will be written, or something is being written. */
  #isBusy = false;
  /** Settled when it is not. */
  #idle: Deferred<void> | undefined;
  /** Whether nothing was written since the process last looked for what came from outside. */
  #isQuiet = true;

  constructor(db: Connection, options: WriteQueueOptions) {
    this.#db = db;
    this.#options = options;
  }

  /** Runs `apply` in a transaction with whatever else is asked for in this tick. */
  write<T>(apply: () => T): Promise<T> {
    const settled = deferred<unknown>();
    this.#waiting.push({ apply, settled });
    if (!this.#isBusy) this.#gather();
    return settled.promise as Promise<T>; // what `apply` returned
  }

  /** Resolves when everything that was asked for is settled. */
  async idle(): Promise<void> {
    if (!this.#isBusy) return;
    this.#idle ??= deferred<void>();
    await this.#idle.promise;
  }

  /** Lets come what else comes: until this tick is over or, where one was written in it already, until all ticks are. */
  #gather(): void {
    this.#isBusy = true;
    if (this.#isQuiet) process.nextTick(this.#drain);
    else setImmediate(this.#drain);
  }

  readonly #drain = (): void => {
    const writes = this.#waiting;
    this.#waiting = [];
    if (this.#isQuiet) {
      this.#isQuiet = false;
      setImmediate(this.#calm).unref(); // It waits for nothing that would happen.
    }
    const committed = this.#commit(writes);
    if (isPromise(committed)) void committed.then((outcomes) => this.#end(writes, outcomes));
    else if (this.#db.isLogLarge) setImmediate(() => this.#end(writes, committed));
    else this.#end(writes, committed);
  };

  readonly #calm = (): void => {
    this.#isQuiet = true;
  };

  #end(writes: readonly Write[], outcomes: Outcomes): void {
    for (let index = 0; index < writes.length; index += 1)
      settle((writes[index] as Write).settled, outcomes[index]);
    this.#options.onDone();
    this.#isBusy = false;
    if (this.#waiting.length > 0) this.#gather();
    else {
      this.#idle?.resolve();
      this.#idle = undefined;
    }
  }

  /** Commits the writes together, at once where nobody else has the file. */
  #commit(writes: readonly Write[]): Outcomes | Promise<Outcomes> {
    try {
      const done = whenFree(() => this.#transaction(writes), this.#options.busyLimitMs);
      return done instanceof Promise
        ? done.catch((thrown: unknown) => this.#afterFault(writes, thrown))
        : done;
    } catch (thrown) {
      return this.#afterFault(writes, thrown);
    }
  }

  /** A transaction failed as a whole: its writes are committed each by itself, unless it was one, or waited in vain. */
  async #afterFault(writes: readonly Write[], thrown: unknown): Promise<Outcomes> {
    if (writes.length === 1 || isBusy(thrown)) return writes.map(() => failed(this.#fault(thrown)));
    const outcomes: (Outcome | undefined)[] = [];
    for (const write of writes) outcomes.push(...(await this.#commit([write])));
    return outcomes;
  }

  #transaction(writes: readonly Write[]): readonly Outcome[] {
    this.#db.run("BEGIN IMMEDIATE");
    try {
      this.#options.onBegun();
      const outcomes = this.#together(writes) ?? this.#apart(writes);
      if (outcomes.every(({ kind }) => kind === "failed")) this.#rollBack();
      else {
        this.#db.commit();
        this.#options.onCommitted();
      }
      return outcomes;
    } catch (thrown) {
      this.#rollBack();
      throw thrown;
    }
  }

  /** The outcomes of writes that all succeed, or of one that has no company; else none, and nothing is left of them. */
  #together(writes: readonly Write[]): readonly Outcome[] | undefined {
    const outcomes: Outcome[] = [];
    for (const { apply } of writes) {
      try {
        outcomes.push({ kind: "done", value: apply() });
      } catch (thrown) {
        if (isBusy(thrown)) throw thrown;
        if (writes.length === 1) return [failed(this.#fault(thrown))];
        this.#rollBack();
        this.#db.run("BEGIN IMMEDIATE");
        this.#options.onBegun();
        return undefined;
      }
    }
    return outcomes;
  }

  #apart(writes: readonly Write[]): readonly Outcome[] {
    return writes.map((write) => this.#saved(write));
  }

  /** One write with a savepoint; losing that means that SQLite gave up the whole transaction. */
  #saved({ apply }: Write): Outcome {
    this.#db.run("SAVEPOINT member");
    try {
      const value = apply();
      this.#db.run("RELEASE member");
      return { kind: "done", value };
    } catch (thrown) {
      if (isBusy(thrown)) throw thrown;
      this.#options.onUndone();
      this.#db.run("ROLLBACK TO member");
      this.#db.run("RELEASE member");
      return failed(this.#fault(thrown));
    }
  }

  #rollBack(): void {
    this.#options.onUndone();
    try {
      this.#db.run("ROLLBACK");
    } catch {
      // There is no transaction left to end: SQLite ended it with the error that brought us here.
    }
  }

  #fault(thrown: unknown): unknown {
    return this.#options.fault(thrown);
  }
}

function failed(error: unknown): Outcome {
  return { kind: "failed", error };
}

function settle({ resolve, reject }: Deferred<unknown>, outcome: Outcome | undefined): void {
  if (outcome?.kind === "done") resolve(outcome.value);
  else reject(outcome?.error);
}

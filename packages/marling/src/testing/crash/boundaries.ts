// Points at which a process can be killed. Each has a name that is the same in every run: what happens there, and the
// how manieth time it does.

/** A boundary that a process has passed. */
export interface Passed {
  readonly name: string;
  /** How often the world outside the process had changed by then: what it is killed at later leaves the same behind. */
  readonly world: number;
  /** Something is only read here, perhaps by a clock: another run may come here more or less often. */
  readonly isRead?: true;
}

export class Boundaries {
  readonly #deadly: string | undefined;
  readonly #end: () => void;
  readonly #counts = new Map<string, number>();
  readonly #passed: Passed[] = [];
  #world = 0;

  /**
   * @param deadly the boundary at which this process ends
   * @param end how it ends; killed by default
   */
  constructor(deadly: string | undefined, end: () => void = die) {
    this.#deadly = deadly;
    this.#end = end;
  }

  get passed(): readonly Passed[] {
    return this.#passed;
  }

  get world(): number {
    return this.#world;
  }

  pass(what: string, { isRead = false }: { readonly isRead?: boolean } = {}): void {
    const count = (this.#counts.get(what) ?? 0) + 1;
    this.#counts.set(what, count);
    const name = `${what} #${count}`;
    this.#passed.push({ name, world: this.#world, ...(isRead ? { isRead } : {}) });
    if (name === this.#deadly) this.#end();
  }

  /** Something outside has changed: bytes were written, or somebody else knows more than before. */
  moveWorld(): void {
    this.#world += 1;
  }

  /** Calls a function between two boundaries; one that returns a promise has its second when that is fulfilled. */
  around<T>(what: string, call: () => T, options: { readonly isRead?: boolean } = {}): T {
    this.pass(`before ${what}`, options);
    const result = call();
    if (result instanceof Promise)
      return result.then((value) => {
        this.pass(`after ${what}`, options);
        return value;
      }) as T; // a promise of the same value
    this.pass(`after ${what}`, options);
    return result;
  }
}

/** Nothing runs after it: not even what this thread would do until the signal arrives. */
function die(): never {
  process.kill(process.pid, "SIGKILL");
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

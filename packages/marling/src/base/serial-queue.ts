/** Runs jobs one after the other, in the order they were given; a failing job does not stop the next. */
export class SerialQueue {
  #tail: Promise<unknown> = Promise.resolve();
  #length = 0;

  run<T>(job: () => Promise<T>): Promise<T> {
    this.#length += 1;
    const result = this.#tail.then(job);
    this.#tail = result.then(
      () => this.#leave(),
      () => this.#leave(),
    );
    return result;
  }

  /** Resolves when everything before is done; nothing after begins until the returned function is called. */
  acquire(): Promise<() => void> {
    return new Promise((resolve) => {
      void this.run(() => new Promise<void>((release) => resolve(release)));
    });
  }

  /** Jobs that wait or run. */
  get length(): number {
    return this.#length;
  }

  /** Resolves when everything given so far is done. */
  async idle(): Promise<void> {
    await this.#tail;
  }

  #leave(): void {
    this.#length -= 1;
  }
}

// Writes of one set of tools follow each other, so that no edit is made on a text that another edit is replacing.

/** Runs a piece of work when those before it have ended, unless it was cancelled by then. */
export type OneByOne = <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;

/** A queue of its own; what fails does not stop what comes after it. */
export function oneByOne(): OneByOne {
  let last: Promise<unknown> = Promise.resolve();
  return (signal, work) => {
    const done = last.then(() => {
      signal.throwIfAborted();
      return work();
    });
    last = done.catch(() => undefined); // Whoever asked for the work is told.
    return done;
  };
}

// How an observation waits and ends: kernel/observer.ts, rules OB8 and OB10.

import { setMaxListeners } from "node:events";
import { describe, expect, test } from "vitest";
import type { SessionObservation } from "../../src/kernel/observation.ts";
import type { ObservationLog } from "../../src/kernel/observation-log.ts";
import { all, brief, take, written } from "./observation-support.ts";

const briefly = (seen: readonly SessionObservation[]): readonly string[] => seen.map(brief);

describe("an observer that waits", () => {
  const microtasks = async (): Promise<void> => {
    for (let microtask = 0; microtask < 10; microtask += 1) await undefined;
  };
  const watched = (log: ObservationLog): { readonly seen: string[]; readonly watching: Promise<void> } => {
    const seen: string[] = [];
    const watching = (async () => {
      for await (const observation of log.observe()) seen.push(brief(observation));
    })();
    return { seen, watching };
  };

  test("[OB10] is told before anything from outside is looked at", async () => {
    const { log, begin, commit } = written();
    const { seen, watching } = watched(log);
    begin();
    await microtasks();
    expect(seen).toHaveLength(1);
    commit("Done.", "t1");
    await microtasks();
    expect(seen).toHaveLength(2);
    log.close();
    await watching;
  });

  test("[OB10] is told of deltas at the end of their tick, or with what is no delta", async () => {
    const { log, begin, say, commit } = written();
    const { seen, watching } = watched(log);
    begin();
    await microtasks();
    for (const word of ["one", "two"]) {
      say(word);
      await microtasks();
    }
    expect(seen).toHaveLength(1);
    await new Promise<void>((resolve) => process.nextTick(resolve));
    await microtasks();
    expect(seen.slice(1)).toEqual(["one", "two"]);
    say("three");
    commit("Done.", "t1");
    await microtasks();
    expect(seen).toHaveLength(5);
    log.close();
    await watching;
  });
});

describe("how an observation ends", () => {
  test("[OB8] aborting ends it at once, without an error", async () => {
    const { log, begin, say } = written();
    const abort = new AbortController();
    const waiting = all(log.observe({ signal: abort.signal }));
    begin();
    await new Promise((resolve) => setImmediate(resolve));
    abort.abort();
    say("unheard");
    expect(briefly(await waiting)).toEqual(["turn_started"]);
    expect(await all(log.observe({ signal: abort.signal }))).toEqual([]);
  });

  test("[OB8] aborting one leaves the others", async () => {
    const { log, begin } = written();
    const abort = new AbortController();
    const aborted = all(log.observe({ signal: abort.signal }));
    const other = take(log.observe(), 1);
    await Promise.resolve();
    abort.abort();
    expect(await aborted).toEqual([]);
    begin();
    expect(briefly(await other)).toEqual(["turn_started"]);
  });

  test("[OB8] closing ends it after what is kept, and nothing is added any more", async () => {
    const { log, begin, say } = written();
    const observed = log.observe();
    begin();
    say("last");
    log.close();
    say("too late");
    expect(briefly(await all(observed))).toEqual(["turn_started", "last"]);
  });

  test("[OB8] returning from it while it waits ends it at once", async () => {
    const observer = written().log.observe()[Symbol.asyncIterator]();
    const waiting = observer.next();
    await observer.return?.();
    expect(await waiting).toEqual({ done: true, value: undefined });
  });

  test("[OB8] one that is over does not listen to its signal any more", async () => {
    const { log } = written();
    const { signal } = new AbortController();
    setMaxListeners(1, signal);
    const warned: unknown[] = [];
    const warn = (warning: unknown): void => void warned.push(warning);
    process.on("warning", warn);
    for (let index = 0; index < 5; index += 1) {
      const observer = log.observe({ signal })[Symbol.asyncIterator]();
      const waiting = observer.next();
      await observer.return?.();
      await waiting;
    }
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", warn);
    expect(warned).toEqual([]);
  });
});

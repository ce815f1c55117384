// Runtimes that share one file, with clocks of their own and a plugin that counts.

import { createRuntime, definePlugin, type Plugin } from "marling";
import { sqliteStore } from "marling/sqlite";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import type { CallStore } from "../../src/testing/faulty-store.ts";
import { database, type Life, type LifeOptions, live } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";

/** A clock that is so far ahead that every lease of the others has run out for it. */
export const AHEAD: Clock = { ...systemClock, now: () => systemClock.now() + 3_600_000 };

/** Opens a file once more with every call. */
export function sharedFile(): (options?: Omit<LifeOptions, "store">) => Promise<Life> {
  const path = database();
  return (options = {}) => live({ store: sqliteStore({ path }), plugins: [counter()], ...options });
}

/** What another runtime finds in the file. */
export async function found(path: string, id = "s"): Promise<readonly string[]> {
  const runtime = createRuntime({
    model: undefined as never,
    store: sqliteStore({ path }),
    plugins: [counter()],
  });
  try {
    return transcript(await runtime.sessions.open(id));
  } finally {
    await runtime.close();
  }
}

/** A plugin with one number, and every kind of operation on it. */
export function counter(): Plugin {
  return definePlugin({
    id: "counter",
    build(ctx) {
      const count = ctx.durable({ version: 1, initial: () => 0 });
      const add = (): number => {
        count.update((value) => value + 1);
        return count.get();
      };
      const session = "required" as const;
      return {
        operations: {
          queries: { "counter.read": { session, handler: () => count.get() } },
          commands: { "counter.add": { session, handler: add } },
          tasks: { "counter.task": { session, handler: add } },
          actions: { "counter.act": { session, handler: () => add() } },
        },
        context: {
          compact: {
            priority: 1,
            compact: ({ state }) => ({
              initialNodes: [
                {
                  kind: "message",
                  message: { role: "system", content: `${state.messages.length} messages` },
                },
              ],
            }),
          },
        },
      };
    },
  })();
}

/** Counts the calls of one method of a store. */
export function counted(method: string): { readonly around: CallStore; readonly calls: () => number } {
  let calls = 0;
  return {
    around: async (name, call) => {
      const answer = await call();
      if (name === method) calls += 1;
      return answer;
    },
    calls: () => calls,
  };
}

// Finds loops that ask a store for ever without letting the event loop turn: every answer comes in the same tick, so that
// no timer fires, no lease is renewed and nothing can be cancelled. It counts calls and looks at no clock.
//   LG1  about one session a store answers so many calls between two turns of the event loop and no more, and so many about
//        none; the next is refused with the stack of whoever asked. Hundreds of sessions at work at once are no loop.
//   LG2  a refusal comes after the event loop has turned, so that a loop that swallows it ends nothing else.
//   LG3  a refusal fails the test that it happened in, whoever swallowed it.

import type { Store } from "../../src/store/contract.ts";

/** More than any step of the runtime needs at once. */
export const MOST_CALLS = 1000;

/** Tests may put their own timers in its place later. */
export const turnOfLoop: typeof setImmediate = setImmediate;

type Method = (...args: readonly unknown[]) => unknown;
type Methods = Record<string, unknown>;

export class LoopGuard {
  readonly #mostCalls: number;
  /** Since the event loop last turned, by the session that was asked about. */
  readonly #calls = new Map<string, number>();
  #found: Error | undefined;

  constructor(mostCalls: number = MOST_CALLS) {
    this.#mostCalls = mostCalls;
  }

  /** Counts the calls of a store and of everything it has, in place. */
  watch(store: Store): Store {
    const members = store as unknown as Methods;
    for (const part of ["journal", "waits", "triggers", "blobs"]) {
      const methods = members[part];
      if (methods !== undefined) members[part] = Object.freeze(this.#counted(methods as Methods, part));
    }
    const names = Object.getOwnPropertyNames(Object.getPrototypeOf(store));
    for (const name of names) {
      const method = members[name];
      if (name !== "constructor" && typeof method === "function")
        members[name] = this.#around(name, (method as Method).bind(store));
    }
    return store;
  }

  /** What was refused since it was asked last. */
  take(): Error | undefined {
    const found = this.#found;
    this.#found = undefined;
    return found;
  }

  #counted(methods: Methods, part: string): Methods {
    const counted = Object.entries(methods).map(([name, method]) => [
      name,
      typeof method === "function" ? this.#around(`${part}.${name}`, method as Method) : method,
    ]);
    return Object.fromEntries(counted) as Methods;
  }

  #around(name: string, method: Method): Method {
    return (...args) => {
      if (name === "blobs.ref") return method(...args); // It asks nobody.
      if (this.#calls.size === 0) turnOfLoop(() => this.#calls.clear()).unref();
      const subject = subjectOf(args[0]);
      const calls = (this.#calls.get(subject) ?? 0) + 1;
      this.#calls.set(subject, calls);
      return calls > this.#mostCalls ? this.#refuse(name) : method(...args);
    };
  }

  #refuse(name: string): Promise<never> {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 100;
    const error = new Error(
      `store.${name}: expected at most ${this.#mostCalls} calls before the event loop turns, found one more; whoever asks has to wait for something that happens`,
    );
    Error.stackTraceLimit = stackTraceLimit;
    this.#found ??= error;
    return new Promise((_, reject) => {
      turnOfLoop(() => reject(error));
    });
  }
}

/** The session that a call is about, by its first argument; calls about all of them are about one thing. */
function subjectOf(asked: unknown): string {
  if (typeof asked === "string") return asked;
  if (Array.isArray(asked)) return subjectOf(asked[0]);
  if (typeof asked !== "object" || asked === null) return "";
  const { sessionId } = asked as { readonly sessionId?: unknown };
  return typeof sessionId === "string" ? sessionId : "";
}

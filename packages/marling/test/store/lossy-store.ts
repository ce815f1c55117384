// A client on a bad network: calls fail before or after they are made, and what failed is asked for again.

import { MarlingError } from "../../src/base/errors.ts";
import type { Store } from "../../src/store/contract.ts";
import {
  type CallStore,
  faultyStore,
  randomDelays,
  randomFaults,
  type StoreFault,
  wrappedStore,
} from "../../src/testing/faulty-store.ts";

/**
 * What a call answers that is made again because its answer was lost: not what it answered first, so that answers of
 * these are not lost here. `test/testing/faulty-store.test.ts` has each of them.
 */
export const ANSWERS_OTHERWISE: Readonly<Record<string, string>> = {
  admit: "another row without a key or a turn id; with one `duplicate`, and the claim as of `claim`",
  cancel: "`already_requested`",
  claim: "the same generation, but no takeover",
  commit: "`revision_conflict`, unless it happens once",
  fork: "`duplicate_session`",
  park: "`lease_lost`",
  "triggers.accept": "`duplicate`, or `moved` for a tick",
  "triggers.advance": "that the tick has moved",
  "triggers.subscribe": "that it is not new",
  "triggers.unsubscribe": "that it was not there",
  vacuum: "nothing more to remove",
  "waits.resolve": "`already_resolved`",
  withdraw: "`already_cancelled`",
};

const RATE = 0.3;
const MAX_DELAY_MS = 1;
const MOST_ATTEMPTS = 50;

export function slowStore(store: Store, seed: number): Store {
  return faultyStore(store, { delay: randomDelays(seed, MAX_DELAY_MS) });
}

/** The store behind delays and failures, and a client that asks again. */
export function lossyStore(store: Store, seed: number): Store {
  const delay = randomDelays(seed, MAX_DELAY_MS);
  const fault = randomFaults(seed, RATE);
  const fail = (method: string, call: number): StoreFault | undefined =>
    fault(method, call) === "after" && method in ANSWERS_OTHERWISE ? "before" : fault(method, call);
  const safe = wrappedStore(faultyStore(store, { delay, fail }), askAgain);
  const lossy = wrappedStore(faultyStore(store, { delay, fail: fault }), askAgain);
  return { ...safe, commit: (commit) => (commit.once === true ? lossy : safe).commit(commit) };
}

const askAgain: CallStore = async (method, call) => {
  for (let attempt = 1; attempt < MOST_ATTEMPTS; attempt += 1) {
    try {
      return await call();
    } catch (thrown) {
      if (!MarlingError.is(thrown) || thrown.code !== "io_failed") throw thrown;
    }
  }
  throw new Error(`${method} failed ${MOST_ATTEMPTS} times`);
};

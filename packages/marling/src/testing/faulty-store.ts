// A store as it looks over a bad network: slow, failing, and losing the answers to what it did.
//   FS1  nothing of a store is reached past the faults, its journal, waits, triggers and blobs included; what is added to the
//        contract and not wrapped here does not compile.
//   FS2  a call that fails "before" was never made; one that fails "after" was made, and its answer is lost.
//   FS3  the same seed gives the same faults and the same delays.

import { MarlingError } from "../base/errors.ts";
import type { JournalStore } from "../model/journal.ts";
import type { TriggerStore } from "../model/trigger-store.ts";
import type { BlobStore, Store, WaitStore } from "../store/contract.ts";

/** When a call fails: without having been made, or having been made. */
export type StoreFault = "before" | "after";

export interface FaultyStoreOptions {
  /** How many milliseconds pass before a call arrives, and again before its answer does. */
  readonly delay?: () => number;
  /** Whether a call fails with `io_failed`: by its method, such as `waits.create`, and how many of it there were. */
  readonly fail?: (method: string, call: number) => StoreFault | undefined;
}

/** Makes a call of a store, or does not. */
export type CallStore = <T>(method: string, call: () => Promise<T>) => Promise<T>;

/** Every member, the optional ones too. */
type Complete<T> = { readonly [K in keyof Required<T>]: T[K] };

/** The store behind delays and failures. */
export function faultyStore(store: Store, { delay, fail }: FaultyStoreOptions = {}): Store {
  const calls = new Map<string, number>();
  return wrappedStore(store, async (method, call) => {
    const number = (calls.get(method) ?? 0) + 1;
    calls.set(method, number);
    const fault = fail?.(method, number);
    await pass(delay?.());
    if (fault === "before") throw ioFailed(method, "the call was not made");
    const answer = await call();
    await pass(delay?.());
    if (fault === "after") throw ioFailed(method, "the answer was lost");
    return answer;
  });
}

/** Failures for `fail`: of all calls about this share, one half before they are made and one half after. */
export function randomFaults(
  seed: number,
  rate: number,
): (method: string, call: number) => StoreFault | undefined {
  return (method, call) => {
    const random = seeded(hashOf(`${seed} ${call} ${method}`));
    if (random() >= rate) return undefined;
    return random() < 0.5 ? "before" : "after";
  };
}

/** Delays for `delay`: whole milliseconds from 0 to `maxMs`. */
export function randomDelays(seed: number, maxMs: number): () => number {
  const random = seeded(hashOf(String(seed)));
  return () => Math.floor(random() * (maxMs + 1));
}

/** The store with something around each of its calls. */
export function wrappedStore(store: Store, around: CallStore): Store {
  const members: Complete<Store> = {
    isDurable: store.isDurable,
    blobs: wrappedBlobs(store.blobs, around),
    journal: store.journal === undefined ? undefined : wrappedJournal(store.journal, around),
    waits: wrappedWaits(store.waits, around),
    triggers: store.triggers === undefined ? undefined : wrappedTriggers(store.triggers, around),
    load: (sessionId) => around("load", () => store.load(sessionId)),
    revision: (sessionId) => around("revision", () => store.revision(sessionId)),
    commit: (commit) => around("commit", () => store.commit(commit)),
    admit: (input, lease, delivery) => around("admit", () => store.admit(input, lease, delivery)),
    find: (input) => around("find", () => store.find(input)),
    pending: (sessionId, deliver) => around("pending", () => store.pending(sessionId, deliver)),
    unsettled: () => around("unsettled", () => store.unsettled()),
    workable: (now) => around("workable", () => store.workable(now)),
    resumable: (now) => around("resumable", () => store.resumable(now)),
    claim: (sessionId, request) => around("claim", () => store.claim(sessionId, request)),
    renew: (leases, request) => around("renew", () => store.renew(leases, request)),
    release: (lease) => around("release", () => store.release(lease)),
    deliver: (request) => around("deliver", () => store.deliver(request)),
    withdraw: (sessionId, withdrawals) => around("withdraw", () => store.withdraw(sessionId, withdrawals)),
    cancel: (request) => around("cancel", () => store.cancel(request)),
    park: (request) => around("park", () => store.park(request)),
    announced: (sessionId, revision) => around("announced", () => store.announced(sessionId, revision)),
    changes: () => around("changes", () => store.changes()),
    vacuum: (request) => around("vacuum", () => store.vacuum(request)),
    list: (filter) => around("list", () => store.list(filter)),
    exists: (sessionId) => around("exists", () => store.exists(sessionId)),
    delete: (sessionId) => around("delete", () => store.delete(sessionId)),
    fork: (request) => around("fork", () => store.fork(request)),
    close: () => around("close", () => store.close()),
  };
  const { journal, triggers, ...others } = members;
  return {
    ...others,
    ...(journal === undefined ? {} : { journal }),
    ...(triggers === undefined ? {} : { triggers }),
  };
}

function wrappedBlobs(blobs: BlobStore, around: CallStore): Complete<BlobStore> {
  return {
    ref: (bytes) => blobs.ref(bytes),
    put: (bytes) => around("blobs.put", () => blobs.put(bytes)),
    get: (ref) => around("blobs.get", () => blobs.get(ref)),
  };
}

function wrappedJournal(journal: JournalStore, around: CallStore): Complete<JournalStore> {
  return {
    append: (records, lease) => around("journal.append", () => journal.append(records, lease)),
    read: (sessionId, turnId) => around("journal.read", () => journal.read(sessionId, turnId)),
  };
}

function wrappedWaits(waits: WaitStore, around: CallStore): Complete<WaitStore> {
  return {
    create: (wait) => around("waits.create", () => waits.create(wait)),
    read: (sessionId, turnId) => around("waits.read", () => waits.read(sessionId, turnId)),
    resolve: (keyHash, kind, resolution) =>
      around("waits.resolve", () => waits.resolve(keyHash, kind, resolution)),
    end: (wait) => around("waits.end", () => waits.end(wait)),
  };
}

function wrappedTriggers(triggers: TriggerStore, around: CallStore): Complete<TriggerStore> {
  return {
    subscribe: (wanted) => around("triggers.subscribe", () => triggers.subscribe(wanted)),
    get: (subscriptionId) => around("triggers.get", () => triggers.get(subscriptionId)),
    list: (query) => around("triggers.list", () => triggers.list(query)),
    enable: (subscriptionId, change) =>
      around("triggers.enable", () => triggers.enable(subscriptionId, change)),
    unsubscribe: (subscriptionId) =>
      around("triggers.unsubscribe", () => triggers.unsubscribe(subscriptionId)),
    accept: (occurrence, tick) => around("triggers.accept", () => triggers.accept(occurrence, tick)),
    advance: (tick) => around("triggers.advance", () => triggers.advance(tick)),
    pending: (page) => around("triggers.pending", () => triggers.pending(page)),
    settle: (delivery) => around("triggers.settle", () => triggers.settle(delivery)),
    due: (now, limit) => around("triggers.due", () => triggers.due(now, limit)),
    nextDue: () => around("triggers.nextDue", () => triggers.nextDue()),
  };
}

async function pass(ms = 0): Promise<void> {
  if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
}

function ioFailed(method: string, how: string): MarlingError {
  return new MarlingError("io_failed", `store: ${method}: expected an answer, found a fault: ${how}`, {
    details: { method },
  });
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}

/** Numbers from 0 to below 1, always the same ones for a seed (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

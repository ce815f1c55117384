// What the cases of the store suite are made of: values to commit, and checks of what a store refuses.

import assert from "node:assert/strict";
import { sha256 } from "../../base/digest.ts";
import { type ErrorCode, MarlingError } from "../../base/errors.ts";
import type { EffectKey, InputId, NodeId, SessionId, TurnId } from "../../model/ids.ts";
import type { JournalRecord, JournalStore } from "../../model/journal.ts";
import type { Json, JsonObject } from "../../model/json.ts";
import type { TurnReport } from "../../model/turn.ts";
import type {
  DeliverRequest,
  LeaseRequest,
  NewInput,
  NewWait,
  ParkRequest,
  SessionCommit,
  SessionHead,
  Store,
  StoredSession,
} from "../../store/contract.ts";

export interface StoreBench {
  readonly store: Store;
  /** The same data in a store that is opened anew. */
  reopen(): Promise<Store>;
  /** The same data in another store, while the first one stays open. */
  second(): Promise<Store>;
}

export interface StoreCase {
  readonly rule: string;
  readonly title: string;
  /** What a store must have for the case to be about it. */
  readonly needs?: "journal" | "triggers" | "reopen" | "second";
  run(bench: StoreBench): Promise<void>;
}

export const id = (name: string): SessionId => name as SessionId; // samples may use any text
export const turn = (name: string): TurnId => name as TurnId;
export const node = (name: string): NodeId => name as NodeId;
export const inputId = (name: string): InputId => name as InputId;

export const A: SessionId = id("a");
export const B: SessionId = id("b");

export const NO_TOKENS = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 } as const;

/** A head with hand-written defaults. */
export function head(changes: Partial<SessionHead> = {}): SessionHead {
  return {
    version: 1,
    turnIndex: 0,
    leaf: null,
    currentFrameId: "frame-1",
    frames: [{ id: "frame-1", status: "active" }],
    ledger: [],
    lastPromptUsage: null,
    parentSessionId: null,
    operations: 0,
    ...changes,
  };
}

/** Nodes with these ids; each says its own id. */
export function nodes(...ids: readonly string[]): readonly JsonObject[] {
  return ids.map((name) => ({ kind: "message", id: name, text: `text of ${name}` }));
}

/** A commit on `revision` that appends nodes with these ids, the last of which is the leaf. */
export function commitOf(
  sessionId: SessionId,
  revision: number,
  { ids = [], ...changes }: Partial<SessionCommit> & { readonly ids?: readonly string[] } = {},
): SessionCommit {
  const leaf = ids.at(-1);
  return {
    sessionId,
    expectedRevision: revision,
    operation: `op-${revision}`,
    head: head({ turnIndex: revision, leaf: leaf === undefined ? null : node(leaf) }),
    nodes: nodes(...ids),
    components: {},
    ...changes,
  };
}

export function inputOf(sessionId: SessionId, text: string, changes: Partial<NewInput> = {}): NewInput {
  return { sessionId, submitted: { text }, input: { text }, ...changes };
}

export function report(text: string): TurnReport {
  return {
    outcome: { kind: "finished", by: "message", text },
    text,
    turnId: "turn",
    revision: 1,
    usage: NO_TOKENS,
    childUsage: [],
    toolCalls: [],
    modelCalls: [],
    issues: [],
  };
}

/** The report of a turn that ended because it was asked to. */
export function cancelledReport(text: string): TurnReport {
  return { ...report(text), outcome: { kind: "stopped", reason: "cancelled" } };
}

/** A request for a lease from 1000 to 2000. */
export function leaseFor(name: string, changes: Partial<LeaseRequest> = {}): LeaseRequest {
  return { owner: name, incarnation: `first run of ${name}`, now: 1000, expiresAt: 2000, ...changes };
}

/** Claims a lease that can be had; returns its generation. */
export async function claimed(
  store: Store,
  name: string,
  { sessionId = A, ...changes }: Partial<LeaseRequest> & { readonly sessionId?: SessionId } = {},
): Promise<number> {
  const claim = await store.claim(sessionId, leaseFor(name, changes));
  assert.equal(claim.kind, "claimed", `the lease of ${sessionId} could not be had`);
  return claim.kind === "claimed" ? claim.generation : 0;
}

/** The name of the first turn of `A`. */
export const FIRST: TurnId = turn("a:turn:1");

export function deliveryTo(
  key: string,
  generation: number,
  changes: Partial<DeliverRequest> = {},
): DeliverRequest {
  return { sessionId: A, turnId: FIRST, key: key as EffectKey, generation, isReplay: false, ...changes };
}

export function parking(generation: number, changes: Partial<ParkRequest> = {}): ParkRequest {
  return { sessionId: A, turnId: FIRST, names: [], due: null, generation, ...changes };
}

export const hashOf = (key: string): string => sha256(key);

/** A wait of the first turn of `A`; the hash of its key is `hashOf(name)`. */
export function waitOf(name: string, changes: Partial<NewWait> = {}): NewWait {
  return { sessionId: A, turnId: FIRST, name, kind: "completion", keyHash: hashOf(name), ...changes };
}

export function record(
  key: string,
  status: JournalRecord["status"],
  { sessionId = A, turnId = "t1", outcome }: { sessionId?: SessionId; turnId?: string; outcome?: Json } = {},
): JournalRecord {
  const step = { sessionId, turnId: turn(turnId), key: key as EffectKey, status };
  return outcome === undefined ? step : { ...step, outcome };
}

/** The journal of a store that has one. */
export function journalOf(store: Store): JournalStore {
  assert.ok(store.journal, "the case needs a store with a journal");
  return store.journal;
}

/** A session that must be there. */
export async function loaded(store: Store, sessionId: SessionId): Promise<StoredSession> {
  const session = await store.load(sessionId);
  assert.ok(session, `session ${sessionId} is not there`);
  return session;
}

export async function nodeIds(store: Store, sessionId: SessionId): Promise<readonly unknown[]> {
  return (await loaded(store, sessionId)).nodes.map((item) => item.id);
}

/** Waits for a refusal with this code and returns what it carries beside. */
export async function refused(
  promise: Promise<unknown>,
  code: ErrorCode,
): Promise<Readonly<Record<string, unknown>>> {
  let value: unknown;
  try {
    value = await promise;
  } catch (thrown) {
    if (!MarlingError.is(thrown)) throw thrown;
    assert.equal(thrown.code, code, thrown.message);
    return thrown.details;
  }
  return assert.fail(`expected ${code}, found ${JSON.stringify(value)}`);
}

/** Times at which leases may have expired and turns may be due. */
const TIMES = [0, 1500, 2500, 1e12];

/** Everything a store says about sessions, to see that nothing changed. Asking writes nothing. */
export async function observe(store: Store, ...ids: readonly SessionId[]): Promise<unknown> {
  const sessions = await Promise.all(
    ids.map((sessionId) =>
      Promise.all([
        store.load(sessionId),
        store.pending(sessionId),
        store.journal?.read(sessionId, turn("t1")),
        store.waits.read(sessionId, turn("t1")),
        store.waits.read(sessionId, FIRST),
        leaseOf(store, sessionId),
      ]),
    ),
  );
  const workable = await Promise.all(TIMES.map((now) => store.workable(now)));
  const unsettled = [...(await store.unsettled())].sort();
  const resumable = await Promise.all(TIMES.map((now) => store.resumable(now)));
  const seen = { sessions, list: await store.list({}), unsettled, workable, resumable };
  return JSON.parse(JSON.stringify(seen));
}

/**
 * Which of the first generations of a lease is held, if one is. A replay of a checkpoint that never was takes nothing, and
 * is refused to whoever does not hold the lease.
 */
async function leaseOf(store: Store, sessionId: SessionId): Promise<number | undefined> {
  const turnId = turn("nobody's turn");
  const probes = [1, 2, 3, 4].map(async (generation) => {
    const probe = deliveryTo("nobody's checkpoint", generation, { sessionId, turnId, isReplay: true });
    try {
      await store.deliver(probe);
      return [generation];
    } catch (thrown) {
      if (MarlingError.is(thrown) && thrown.code === "lease_lost") return [];
      throw thrown;
    }
  });
  return (await Promise.all(probes)).flat()[0];
}

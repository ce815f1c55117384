// What the cases of the store suite are made of: values to commit, and checks of what a store refuses.

import assert from "node:assert/strict";
import { type ErrorCode, MarlingError } from "../../base/errors.ts";
import type { EffectKey, InputId, NodeId, SessionId, TurnId } from "../../model/ids.ts";
import type { JournalRecord, JournalStore } from "../../model/journal.ts";
import type { Json, JsonObject } from "../../model/json.ts";
import type { TurnReport } from "../../model/turn.ts";
import type { NewInput, SessionCommit, SessionHead, Store, StoredSession } from "../../store/contract.ts";

export interface StoreBench {
  readonly store: Store;
  /** The same data in a store that is opened anew. */
  reopen(): Promise<Store>;
}

export interface StoreCase {
  readonly rule: string;
  readonly title: string;
  /** What a store must have for the case to be about it. */
  readonly needs?: "journal" | "reopen";
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

/** Everything a store says about sessions, to see that nothing changed. */
export async function observe(store: Store, ...ids: readonly SessionId[]): Promise<unknown> {
  const sessions = await Promise.all(
    ids.map(async (sessionId) => ({
      session: await store.load(sessionId),
      pending: await store.pending(sessionId),
      journal: await store.journal?.read(sessionId, turn("t1")),
    })),
  );
  const seen = { sessions, list: await store.list({}), unsettled: await store.unsettled() };
  return JSON.parse(JSON.stringify(seen));
}

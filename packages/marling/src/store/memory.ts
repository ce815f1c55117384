// A store that lives as long as its process. Plain JSON goes in and comes out, as with any other store.

import { MarlingError } from "../base/errors.ts";
import { sha256 } from "../base/digest.ts";
import { SharedList } from "../base/shared-list.ts";
import type { InputId, NodeId, SessionId, TurnId } from "../model/ids.ts";
import { type JsonObject, jsonEqual } from "../model/json.ts";
import type { TurnReport } from "../model/turn.ts";
import type {
  BlobStore,
  CommitResult,
  ForkRequest,
  InboxRow,
  NewInput,
  SessionCommit,
  SessionComponents,
  SessionFilter,
  SessionHead,
  SessionPage,
  Store,
  StoredSession,
} from "./contract.ts";

/** Where a session stood after one commit. */
interface Boundary {
  readonly revision: number;
  readonly length: number;
  readonly head: SessionHead;
  readonly components: SessionComponents;
  readonly nodes: SharedList<JsonObject>;
}

interface MemorySession {
  current: Boundary;
  readonly boundaries: Boundary[];
  readonly results: Map<string, CommitResult>;
}

interface Inbox {
  readonly rows: InboxRow[];
  readonly byKey: Map<string, number>;
  readonly byTurn: Map<string, number>;
  readonly unsettled: Map<InputId, number>;
}

/** A store without files: nothing survives the process. */
export function memoryStore(): Store {
  return new MemoryStore();
}

class MemoryStore implements Store {
  readonly isDurable = false;
  readonly blobs: BlobStore = memoryBlobs();
  readonly #sessions = new Map<SessionId, MemorySession>();
  readonly #inboxes = new Map<SessionId, Inbox>();
  readonly #retired = new Set<SessionId>();

  async load(sessionId: SessionId): Promise<StoredSession | undefined> {
    this.#refuseRetired(sessionId);
    const session = this.#sessions.get(sessionId);
    return session === undefined ? undefined : this.#stored(sessionId, session.current);
  }

  async commit(commit: SessionCommit): Promise<CommitResult> {
    this.#refuseRetired(commit.sessionId);
    const session = this.#sessions.get(commit.sessionId);
    const known = session?.results.get(commit.operation);
    if (known !== undefined) return known;
    const revision = session?.current.revision ?? 0;
    if (revision !== commit.expectedRevision) throw revisionConflict(commit, revision);
    const enqueued = (commit.enqueues ?? []).map((input) => this.#enqueue(input).row);
    const result = { revision: revision + 1, enqueued };
    this.#write(commit, session, result);
    if (commit.settles !== undefined) this.#settle(commit.sessionId, commit.settles);
    return result;
  }

  async admit(input: NewInput): Promise<{ readonly status: "accepted" | "duplicate"; readonly row: InboxRow }> {
    this.#refuseRetired(input.sessionId);
    return this.#enqueue(input);
  }

  async pending(sessionId: SessionId): Promise<readonly InboxRow[]> {
    const { rows, unsettled } = this.#inbox(sessionId);
    return [...unsettled.values()].map((index) => rows[index] as InboxRow);
  }

  async list({ prefix = "", limit = 100, cursor = "" }: SessionFilter): Promise<SessionPage> {
    const ids = [...this.#sessions.keys()].filter((id) => id.startsWith(prefix) && id > cursor).sort();
    const items = ids.slice(0, limit).map((id) => summary(id, this.#sessions.get(id) as MemorySession));
    const last = items.at(-1);
    return ids.length > limit && last !== undefined ? { items, cursor: last.id } : { items };
  }

  async exists(sessionId: SessionId): Promise<boolean> {
    return this.#sessions.has(sessionId);
  }

  async delete(sessionId: SessionId): Promise<void> {
    this.#sessions.delete(sessionId);
    this.#inboxes.delete(sessionId);
    this.#retired.add(sessionId);
  }

  async fork({ from, as, at }: ForkRequest): Promise<StoredSession> {
    this.#refuseRetired(from);
    this.#refuseRetired(as);
    const source = this.#sessions.get(from);
    if (source === undefined) throw new MarlingError("unknown_session", `session ${from}: expected a session to fork, found none`);
    if (this.#sessions.has(as)) throw new MarlingError("duplicate_session", `session ${as}: expected a new id to fork into, found an existing session`);
    const boundary = at === undefined ? source.current : boundaryAt(source, at, from);
    const current: Boundary = { ...boundary, revision: 1, head: { ...boundary.head, ledger: [], parentSessionId: null } };
    this.#sessions.set(as, { current, boundaries: [...source.boundaries.filter((b) => b.length < boundary.length), current], results: new Map() });
    return this.#stored(as, current);
  }

  async close(): Promise<void> {}

  #stored(sessionId: SessionId, { revision, head, components, nodes }: Boundary): StoredSession {
    return { sessionId, revision, head, components, nodes: nodes.toArray(), inputs: this.#inboxes.get(sessionId)?.rows.length ?? 0 };
  }

  #write(commit: SessionCommit, session: MemorySession | undefined, result: CommitResult): void {
    const nodes = (session?.current.nodes ?? SharedList.of<JsonObject>()).append(commit.nodes);
    const components = { ...session?.current.components, ...commit.components };
    const current: Boundary = { revision: result.revision, length: nodes.length, head: commit.head, components, nodes };
    const written: MemorySession = session ?? { current, boundaries: [], results: new Map() };
    written.current = current;
    written.boundaries.push(current);
    written.results.set(commit.operation, result);
    this.#sessions.set(commit.sessionId, written);
  }

  #settle(sessionId: SessionId, settles: { readonly inputId: InputId; readonly report: TurnReport }): void {
    const { rows, unsettled } = this.#inbox(sessionId);
    const index = unsettled.get(settles.inputId);
    if (index === undefined) return;
    rows[index] = { ...(rows[index] as InboxRow), report: settles.report };
    unsettled.delete(settles.inputId);
  }

  #enqueue(input: NewInput): { readonly status: "accepted" | "duplicate"; readonly row: InboxRow } {
    const inbox = this.#inbox(input.sessionId);
    const known = inbox.rows[inbox.byKey.get(input.key ?? "") ?? inbox.byTurn.get(input.turnId ?? "") ?? -1];
    if (known !== undefined) {
      if (!jsonEqual(known.submitted, input.submitted)) throw keyConflict(input, known);
      return { status: "duplicate", row: known };
    }
    const sequence = inbox.rows.length + 1;
    const turnId = input.turnId ?? (`${input.sessionId}:turn:${sequence}` as TurnId);
    const row: InboxRow = { ...input, turnId, inputId: `${input.sessionId}:input:${sequence}` as InputId, sequence };
    inbox.rows.push(row);
    inbox.unsettled.set(row.inputId, sequence - 1);
    inbox.byTurn.set(turnId, sequence - 1);
    if (input.key !== undefined) inbox.byKey.set(input.key, sequence - 1);
    return { status: "accepted", row };
  }

  #inbox(sessionId: SessionId): Inbox {
    const known = this.#inboxes.get(sessionId);
    if (known !== undefined) return known;
    const inbox: Inbox = { rows: [], byKey: new Map(), byTurn: new Map(), unsettled: new Map() };
    this.#inboxes.set(sessionId, inbox);
    return inbox;
  }

  #refuseRetired(sessionId: SessionId): void {
    if (this.#retired.has(sessionId)) {
      throw new MarlingError("session_deleted", `session ${sessionId}: expected a live id, found one that was deleted`);
    }
  }
}

function memoryBlobs(): BlobStore {
  const blobs = new Map<string, Uint8Array>();
  return {
    put: async (bytes) => {
      const ref = `sha256:${sha256(bytes)}`;
      blobs.set(ref, Uint8Array.from(bytes));
      return ref;
    },
    get: async (ref) => blobs.get(ref),
  };
}

function summary(id: SessionId, { current }: MemorySession): SessionPage["items"][number] {
  const { revision, head } = current;
  const parent = head.parentSessionId === null ? {} : { parentSessionId: head.parentSessionId };
  return { id, revision, turnIndex: head.turnIndex, ...parent };
}

function boundaryAt(session: MemorySession, at: NodeId, from: SessionId): Boundary {
  const exact = session.boundaries.findLast((boundary) => boundary.head.leaf === at);
  if (exact !== undefined) return exact;
  const index = session.current.nodes.toArray().findIndex((node) => node["id"] === at);
  if (index < 0) throw new MarlingError("fork_point_unknown", `session ${from}: expected a node of its history, found ${at}`);
  const before = session.boundaries.findLast((boundary) => boundary.length <= index);
  const after = session.boundaries.find((boundary) => boundary.length > index);
  const boundaries = { before: before?.head.leaf ?? null, after: after?.head.leaf ?? null };
  throw new MarlingError(
    "fork_point_inside_turn",
    `session ${from}: expected the last node of a commit, found ${at} inside one; the boundaries around it are ${boundaries.before ?? "none"} and ${boundaries.after ?? "none"}`,
    { details: boundaries },
  );
}

function revisionConflict(commit: SessionCommit, found: number): MarlingError {
  return new MarlingError(
    "revision_conflict",
    `session ${commit.sessionId}: expected revision ${commit.expectedRevision}, found ${found}`,
    { details: { expected: commit.expectedRevision, found } },
  );
}

function keyConflict(input: NewInput, known: InboxRow): MarlingError {
  const name = input.key === undefined ? `turn id ${known.turnId}` : `key ${input.key}`;
  return new MarlingError("idempotency_conflict", `session ${input.sessionId}: ${name} was used before with other content`, {
    details: { inputId: known.inputId, turnId: known.turnId },
  });
}

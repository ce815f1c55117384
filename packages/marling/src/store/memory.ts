// A store that lives as long as its process. Plain JSON goes in and comes out, as with any other store.
//   MS1  everything that can refuse a commit is looked at before anything of it is written.
//   MS2  nodes are shared with whoever gave them, because they never change; what callers are handed is theirs to keep.

import { sha256 } from "../base/digest.ts";
import { MarlingError } from "../base/errors.ts";
import { SharedList } from "../base/shared-list.ts";
import type { InputId, NodeId, SessionId, TurnId } from "../model/ids.ts";
import { decodeJson, type JsonObject, jsonEqual } from "../model/json.ts";
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
  /** Commits that happen once, by operation. */
  readonly done: Map<string, { readonly commit: SessionCommit; readonly result: CommitResult }>;
}

type Admission = Awaited<ReturnType<Store["admit"]>>;

/** What was admitted to one session. The index of a row is its sequence less one. */
interface Inbox {
  readonly rows: InboxRow[];
  readonly byKey: Map<string, number>;
  readonly byTurn: Map<TurnId, number>;
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
    const revision = session?.current.revision ?? 0;
    const known = commit.once === true ? session?.done.get(commit.operation) : undefined;
    if (known !== undefined && isRepeated(known.commit, commit)) return known.result;
    if (known !== undefined || revision !== commit.expectedRevision) throw revisionConflict(commit, revision);
    const { enqueues = [] } = commit;
    for (const input of enqueues) {
      this.#refuseRetired(input.sessionId);
      this.#find(input);
    }
    refuseRivals(enqueues);
    const result = { revision: revision + 1, enqueued: enqueues.map((input) => this.#enqueue(input).row) };
    this.#write(commit, session, result);
    return result;
  }

  async admit(input: NewInput): Promise<Admission> {
    this.#refuseRetired(input.sessionId);
    return this.#enqueue(input);
  }

  async find(input: Omit<NewInput, "input">): Promise<InboxRow | undefined> {
    this.#refuseRetired(input.sessionId);
    return this.#find(input);
  }

  async pending(sessionId: SessionId): Promise<readonly InboxRow[]> {
    this.#refuseRetired(sessionId);
    const inbox = this.#inboxes.get(sessionId);
    if (inbox === undefined) return [];
    return [...inbox.unsettled.values()].map((index) => inbox.rows[index] as InboxRow);
  }

  async unsettled(): Promise<readonly SessionId[]> {
    return [...this.#inboxes].flatMap(([sessionId, { unsettled }]) =>
      unsettled.size === 0 ? [] : [sessionId],
    );
  }

  async list({ prefix = "", limit = 100, cursor = "" }: SessionFilter): Promise<SessionPage> {
    if (!Number.isSafeInteger(limit) || limit < 1) {
      throw new MarlingError(
        "invalid_input",
        `limit: expected a positive whole number, found ${String(limit)}`,
      );
    }
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
    if (source === undefined)
      throw new MarlingError("unknown_session", `session ${from}: expected a session to fork, found none`);
    if (this.#sessions.has(as))
      throw new MarlingError(
        "duplicate_session",
        `session ${as}: expected a new id to fork into, found an existing session`,
      );
    const boundary = at === undefined ? source.current : boundaryAt(source, at, from);
    const current: Boundary = {
      ...boundary,
      revision: 1,
      head: { ...boundary.head, ledger: [], parentSessionId: null },
    };
    this.#sessions.set(as, {
      current,
      boundaries: [...source.boundaries.filter((b) => b.length < boundary.length), current],
      done: new Map(),
    });
    return this.#stored(as, current);
  }

  async close(): Promise<void> {}

  #stored(sessionId: SessionId, { revision, head, components, nodes }: Boundary): StoredSession {
    return {
      sessionId,
      revision,
      head,
      components,
      nodes: nodes.toArray(),
      inputs: this.#inboxes.get(sessionId)?.rows.length ?? 0,
    };
  }

  #write(commit: SessionCommit, session: MemorySession | undefined, result: CommitResult): void {
    const nodes = (session?.current.nodes ?? SharedList.of<JsonObject>()).append(commit.nodes);
    const components = { ...session?.current.components, ...commit.components };
    const current: Boundary = {
      revision: result.revision,
      length: nodes.length,
      head: commit.head,
      components,
      nodes,
    };
    const written: MemorySession = session ?? { current, boundaries: [], done: new Map() };
    written.current = current;
    written.boundaries.push(current);
    if (commit.once === true) written.done.set(commit.operation, { commit, result });
    this.#sessions.set(commit.sessionId, written);
    this.#bringFurther(commit);
  }

  /** What a commit says about the input that it is about. */
  #bringFurther({ sessionId, settles, advances }: SessionCommit): void {
    const inputId = (settles ?? advances)?.inputId;
    const inbox = this.#inboxes.get(sessionId);
    const index = inputId === undefined ? undefined : inbox?.unsettled.get(inputId);
    if (inbox === undefined || inputId === undefined || index === undefined) return;
    const row = inbox.rows[index] as InboxRow;
    if (settles === undefined) {
      inbox.rows[index] = { ...row, progress: advances?.progress ?? null };
      return;
    }
    inbox.rows[index] = { ...row, report: decodeJson(settles.report, "report") as unknown as TurnReport };
    inbox.unsettled.delete(inputId);
  }

  /** The row with the input's key or turn id. Throws when that row is of another input. */
  #find(input: Omit<NewInput, "input">): InboxRow | undefined {
    const inbox = this.#inboxes.get(input.sessionId);
    if (inbox === undefined) return undefined;
    const byKey = input.key === undefined ? undefined : inbox.byKey.get(input.key);
    const byTurn = input.turnId === undefined ? undefined : inbox.byTurn.get(input.turnId);
    const row = inbox.rows[byKey ?? byTurn ?? -1];
    if (row !== undefined && !isSame(row, input)) throw keyConflict(input, row);
    return row;
  }

  #enqueue(input: NewInput): Admission {
    const known = this.#find(input);
    if (known !== undefined) return { status: "duplicate", row: known };
    const inbox = this.#inbox(input.sessionId);
    const index = inbox.rows.length;
    const sequence = index + 1;
    const turnId = input.turnId ?? freeTurnId(input.sessionId, sequence, inbox);
    const row: InboxRow = {
      ...input,
      turnId,
      inputId: `${input.sessionId}:input:${sequence}` as InputId,
      sequence,
    };
    inbox.rows.push(row);
    inbox.unsettled.set(row.inputId, index);
    inbox.byTurn.set(turnId, index);
    if (input.key !== undefined) inbox.byKey.set(input.key, index);
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
      throw new MarlingError(
        "session_deleted",
        `session ${sessionId}: expected a live id, found one that was deleted`,
      );
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
    get: async (ref) => blobs.get(ref)?.slice(),
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
  const index = session.current.nodes.toArray().findIndex((node) => node.id === at);
  if (index < 0)
    throw new MarlingError(
      "fork_point_unknown",
      `session ${from}: expected a node of its history, found ${at}`,
    );
  const before = session.boundaries.findLast((boundary) => boundary.length <= index);
  const after = session.boundaries.find((boundary) => boundary.length > index);
  const boundaries = { before: before?.head.leaf ?? null, after: after?.head.leaf ?? null };
  throw new MarlingError(
    "fork_point_inside_turn",
    `session ${from}: expected the last node of a commit, found ${at} inside one; the boundaries around it are ${boundaries.before ?? "none"} and ${boundaries.after ?? "none"}`,
    { details: boundaries },
  );
}

function isRepeated(first: SessionCommit, again: SessionCommit): boolean {
  return jsonEqual(decodeJson(first, "commit"), decodeJson(again, "commit"));
}

/** The same input: the same content, and no other turn id than the row has. */
function isSame(
  row: InboxRow,
  { submitted, turnId = row.turnId, key = row.key }: Omit<NewInput, "input">,
): boolean {
  return row.turnId === turnId && row.key === key && jsonEqual(row.submitted, submitted);
}

/** Two inputs of one commit are checked against each other, too: neither is in the inbox yet. */
function refuseRivals(inputs: readonly NewInput[]): void {
  const byKey = new Map<string, NewInput>();
  for (const input of inputs) {
    const rival = input.key === undefined ? undefined : byKey.get(input.key);
    if (rival !== undefined && !jsonEqual(rival.submitted, input.submitted)) throw keyConflict(input, rival);
    if (input.key !== undefined) byKey.set(input.key, input);
  }
}

/** A derived id; one that somebody gave to an earlier turn is left alone. */
function freeTurnId(sessionId: SessionId, sequence: number, { byTurn }: Inbox): TurnId {
  let turnId = `${sessionId}:turn:${sequence}` as TurnId;
  for (let number = 2; byTurn.has(turnId); number += 1)
    turnId = `${sessionId}:turn:${sequence}.${number}` as TurnId;
  return turnId;
}

function revisionConflict(commit: SessionCommit, found: number): MarlingError {
  return new MarlingError(
    "revision_conflict",
    `session ${commit.sessionId}: expected revision ${commit.expectedRevision}, found ${found}`,
    { details: { expected: commit.expectedRevision, found } },
  );
}

function keyConflict(input: Omit<NewInput, "input">, known: NewInput | InboxRow): MarlingError {
  const name = input.key === undefined ? `turn id ${input.turnId}` : `key ${input.key}`;
  const message = `session ${input.sessionId}: ${name} was used before with other content`;
  const details = "inputId" in known ? { inputId: known.inputId, turnId: known.turnId } : {};
  return new MarlingError("idempotency_conflict", message, { details });
}

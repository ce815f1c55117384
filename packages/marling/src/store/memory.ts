// A store that lives as long as its process. Plain JSON goes in and comes out, as with any other store.
//   MS1  everything that can refuse a write is looked at before anything of it is written.
//   MS2  nodes are shared with whoever gave them, because they never change; what callers are handed is theirs to keep.
//   MS3  what a call does happens before it returns its promise: calls happen in the order in which they are made.
//   MS4  `changes` counts every write, whoever made it: runtimes of one process may share a store.

import { MarlingError } from "../base/errors.ts";
import { type SessionId, type TurnId, workLeaseId } from "../model/ids.ts";
import type { JournalStore } from "../model/journal.ts";
import type { DeliveryName, TriggerStore } from "../model/trigger-store.ts";
import type {
  Admission,
  BlobStore,
  CancelStatus,
  Claim,
  CommitResult,
  DeliverRequest,
  ForkRequest,
  InboxRow,
  Lease,
  LeaseRequest,
  NewInput,
  ParkRequest,
  SessionCommit,
  SessionFilter,
  SessionPage,
  Store,
  StoredSession,
  VacuumReport,
  VacuumRequest,
  WaitStore,
  Withdrawal,
  WithdrawOutcome,
} from "./contract.ts";
import { BlobTable, blobAddress } from "./memory/blob-table.ts";
import { type Boundary, forkedHistory, History, summaryOf } from "./memory/history.ts";
import { Inbox, refuseRivals } from "./memory/inbox.ts";
import { copiedRecord, JournalTable } from "./memory/journal-table.ts";
import { LeaseTable } from "./memory/lease-table.ts";
import { memoryTriggers } from "./memory/memory-triggers.ts";
import { TriggerTable } from "./memory/trigger-table.ts";
import { WaitTable } from "./memory/wait-table.ts";

/** A store without files: nothing survives the process. */
export function memoryStore(): Store {
  return new MemoryStore();
}

type MemorySession = Omit<StoredSession, "nodes"> & Pick<Boundary, "nodes">;

class MemoryStore implements Store {
  readonly isDurable = false;
  readonly blobs: BlobStore;
  readonly journal: JournalStore;
  readonly waits: WaitStore;
  readonly triggers: TriggerStore;
  readonly #histories = new Map<SessionId, History>();
  readonly #inboxes = new Map<SessionId, Inbox>();
  readonly #retired = new Set<SessionId>();
  readonly #leases = new LeaseTable();
  readonly #journal = new JournalTable();
  readonly #waits = new WaitTable();
  readonly #triggers = new TriggerTable();
  readonly #blobs = new BlobTable();
  #changes = 0;

  constructor() {
    this.blobs = this.#blobStore();
    this.journal = this.#journalStore();
    this.waits = this.#waitStore();
    this.triggers = memoryTriggers(this.#triggers, {
      refuseRetired: (sessionId) => this.#refuseRetired(sessionId),
      changed: () => {
        this.#changes += 1;
      },
    });
  }

  async load(sessionId: SessionId): Promise<StoredSession | undefined> {
    this.#refuseRetired(sessionId);
    const stored = this.#stored(sessionId);
    return stored && { ...stored, nodes: stored.nodes.toArray() };
  }

  async revision(sessionId: SessionId): Promise<number> {
    this.#refuseRetired(sessionId);
    return this.#histories.get(sessionId)?.revision ?? 0;
  }

  async commit(commit: SessionCommit): Promise<CommitResult> {
    const { sessionId, enqueues = [], lease } = commit;
    this.#refuseRetired(sessionId);
    const history = this.#histories.get(sessionId) ?? new History();
    const repeated = history.repeated(commit);
    if (repeated !== undefined) return repeated;
    this.#leases.fenceCommit(sessionId, lease);
    history.refuseOutdated(commit);
    this.#inboxes.get(sessionId)?.refuseCancelled(commit.settles);
    for (const input of enqueues) {
      this.#refuseRetired(input.sessionId);
      this.#inboxes.get(input.sessionId)?.find(input);
    }
    refuseRivals(enqueues);
    const enqueued = enqueues.map((input) => this.#inbox(input.sessionId).admit(input).row);
    const result = { revision: history.revision + 1, enqueued };
    history.write(commit, result);
    this.#histories.set(sessionId, history);
    this.#inboxes.get(sessionId)?.bringFurther(commit);
    this.#forget(sessionId, commit.forgets ?? []);
    if (commit.releases === true && lease !== undefined)
      this.#leases.release({ sessionId, generation: lease });
    this.#changes += 1;
    return result;
  }

  async admit(input: NewInput, request?: LeaseRequest, delivery?: DeliveryName): Promise<Admission> {
    this.#refuseRetired(input.sessionId);
    const admission = this.#inbox(input.sessionId).admit(input);
    const isDelivered = delivery !== undefined && this.#triggers.settle(delivery);
    if (admission.status === "accepted" || isDelivered) this.#changes += 1;
    if (request === undefined || admission.row.report !== undefined) return admission;
    return { ...admission, claim: this.#claim(input.sessionId, request) };
  }

  async find(input: Omit<NewInput, "input">): Promise<InboxRow | undefined> {
    this.#refuseRetired(input.sessionId);
    return this.#inboxes.get(input.sessionId)?.find(input);
  }

  async pending(sessionId: SessionId, deliver?: InboxRow["deliver"]): Promise<readonly InboxRow[]> {
    this.#refuseRetired(sessionId);
    return this.#inboxes.get(sessionId)?.pending(deliver) ?? [];
  }

  async unsettled(): Promise<readonly SessionId[]> {
    return [...this.#inboxes].flatMap(([sessionId, inbox]) => (inbox.hasPending ? [sessionId] : []));
  }

  async workable(now: number): Promise<readonly SessionId[]> {
    const ids: SessionId[] = [];
    for (const [sessionId, inbox] of this.#inboxes) {
      if (!this.#leases.isAvailable(sessionId, now)) continue;
      if (inbox.isWorkable(now, this.#isSettledIn(sessionId))) ids.push(sessionId);
    }
    return ids.sort();
  }

  async resumable(now: number): Promise<readonly SessionId[]> {
    const ids = [...this.#histories].flatMap(([id, { hasWork }]) => (hasWork ? [id] : []));
    return ids.filter((id) => this.#leases.isAvailable(workLeaseId(id), now)).sort();
  }

  async claim(sessionId: SessionId, request: LeaseRequest): Promise<Claim> {
    this.#refuseRetired(sessionId);
    return this.#claim(sessionId, request);
  }

  async renew(leases: readonly Lease[], request: LeaseRequest): Promise<readonly SessionId[]> {
    const lost = this.#leases.renew(leases, request);
    if (lost.length < leases.length) this.#changes += 1;
    return lost;
  }

  async release(lease: Lease): Promise<void> {
    if (this.#leases.release(lease)) this.#changes += 1;
  }

  async deliver(request: DeliverRequest): Promise<readonly InboxRow[]> {
    this.#refuseUnfenced({ sessionId: request.sessionId, lease: request.generation });
    const rows = this.#inboxes.get(request.sessionId)?.deliver(request) ?? [];
    if (rows.length > 0) this.#changes += 1;
    return rows;
  }

  async withdraw(
    sessionId: SessionId,
    withdrawals: readonly Withdrawal[],
  ): Promise<readonly WithdrawOutcome[]> {
    this.#refuseRetired(sessionId);
    const inbox = this.#inboxes.get(sessionId) ?? new Inbox(sessionId);
    const options = { isHeld: this.#leases.isHeld(sessionId), at: Date.now() };
    const outcomes = withdrawals.map((withdrawal) => inbox.withdraw(withdrawal, options));
    if (outcomes.some(({ status }) => status === "cancelled")) this.#changes += 1;
    return outcomes;
  }

  async cancel({ sessionId, turnId, reason }: Parameters<Store["cancel"]>[0]): Promise<CancelStatus> {
    this.#refuseRetired(sessionId);
    const status = this.#inboxes.get(sessionId)?.cancel(turnId, reason) ?? "unknown";
    if (status === "requested") this.#changes += 1;
    return status;
  }

  async park(request: ParkRequest): Promise<"parked" | "ready"> {
    const { sessionId, generation } = request;
    this.#refuseRetired(sessionId);
    this.#leases.fence(sessionId, generation);
    const answer = this.#inboxes.get(sessionId)?.park(request, this.#isSettledIn(sessionId)) ?? "ready";
    if (answer === "ready") return answer;
    this.#leases.release({ sessionId, generation });
    this.#changes += 1;
    return answer;
  }

  async announced(sessionId: SessionId, revision: number): Promise<void> {
    this.#refuseRetired(sessionId);
    if (this.#histories.get(sessionId)?.announced([revision]) === true) this.#changes += 1;
  }

  async changes(): Promise<number> {
    return this.#changes;
  }

  async vacuum({ now, keepMs }: VacuumRequest): Promise<VacuumReport> {
    const keptSince = now - keepMs;
    const journal = this.#journal.vacuum(
      (sessionId, turnId) => this.#inboxes.get(sessionId)?.isRunning(turnId) ?? false,
    );
    let inputs = 0;
    for (const inbox of this.#inboxes.values()) inputs += inbox.vacuum(keptSince);
    const waits = this.#waits.vacuum(keptSince);
    const occurrences = this.#triggers.vacuum(keptSince);
    const { blobs, bytes } = this.#blobs.vacuum(this.#values(), keptSince);
    if (journal + inputs + waits + occurrences + blobs > 0) this.#changes += 1;
    return { journal, inputs, waits, occurrences, components: 0, blobs, bytes };
  }

  async list({ prefix = "", limit = 100, cursor = "" }: SessionFilter): Promise<SessionPage> {
    if (!Number.isSafeInteger(limit) || limit < 1) {
      throw new MarlingError(
        "invalid_input",
        `limit: expected a positive whole number, found ${String(limit)}`,
      );
    }
    const ids = [...this.#histories.keys()].filter((id) => id.startsWith(prefix) && id > cursor).sort();
    const items = ids.slice(0, limit).flatMap((id) => {
      const current = this.#histories.get(id)?.current;
      return current === undefined ? [] : [summaryOf(id, current)];
    });
    const last = items.at(-1);
    return ids.length > limit && last !== undefined ? { items, cursor: last.id } : { items };
  }

  async exists(sessionId: SessionId): Promise<boolean> {
    return this.#histories.has(sessionId);
  }

  async delete(sessionId: SessionId): Promise<void> {
    this.#histories.delete(sessionId);
    this.#inboxes.delete(sessionId);
    this.#journal.delete(sessionId);
    this.#waits.delete(sessionId);
    this.#triggers.delete(sessionId);
    this.#leases.delete(sessionId);
    this.#leases.delete(workLeaseId(sessionId));
    this.#retired.add(sessionId);
    this.#changes += 1;
  }

  async fork({ from, as, at }: ForkRequest): ReturnType<Store["fork"]> {
    this.#refuseRetired(from);
    this.#refuseRetired(as);
    const source = this.#histories.get(from);
    if (source === undefined)
      throw new MarlingError("unknown_session", `session ${from}: expected a session to fork, found none`);
    if (this.#histories.has(as))
      throw new MarlingError(
        "duplicate_session",
        `session ${as}: expected a new id to fork into, found an existing session`,
      );
    this.#histories.set(as, forkedHistory(from, source, at));
    this.#changes += 1;
    const { nodes: _shared, ...forked } = this.#stored(as) as MemorySession; // it was just made
    return forked;
  }

  async close(): Promise<void> {}

  #blobStore(): BlobStore {
    return {
      ref: blobAddress,
      put: async (bytes) => {
        this.#changes += 1;
        return this.#blobs.put(bytes, Date.now());
      },
      get: async (ref) => this.#blobs.get(ref),
    };
  }

  #journalStore(): JournalStore {
    return {
      append: async (records, lease) => {
        for (const { sessionId } of records) {
          this.#refuseRetired(sessionId);
          if (lease !== undefined) this.#leases.fence(sessionId, lease);
        }
        for (const record of records.map(copiedRecord)) this.#journal.append(record);
        if (records.length > 0) this.#changes += 1;
      },
      read: async (sessionId, turnId) => {
        this.#refuseRetired(sessionId);
        return this.#journal.read(sessionId, turnId);
      },
    };
  }

  #waitStore(): WaitStore {
    return {
      create: async (wait) => {
        this.#refuseUnfenced(wait);
        this.#waits.create(wait);
        this.#changes += 1;
      },
      read: async (sessionId, turnId) => {
        this.#refuseRetired(sessionId);
        return this.#waits.read(sessionId, turnId);
      },
      resolve: async (keyHash, kind, resolution) => {
        const answer = this.#waits.resolve(keyHash, kind, resolution);
        if (answer.status === "resolved") this.#changes += 1;
        return answer;
      },
      end: async (wait) => {
        this.#refuseUnfenced(wait);
        this.#changes += 1;
        return this.#waits.end(wait, Date.now());
      },
    };
  }

  #claim(sessionId: SessionId, request: LeaseRequest): Claim {
    const claim = this.#leases.claim(sessionId, request);
    if (claim.kind === "held") return claim;
    this.#changes += 1;
    const revision = this.#histories.get(sessionId)?.revision ?? 0;
    return { ...claim, revision, inputs: this.#inboxes.get(sessionId)?.sequence ?? 0 };
  }

  #forget(sessionId: SessionId, turns: readonly TurnId[]): void {
    this.#journal.forget(sessionId, turns);
    for (const turnId of turns) this.#waits.endAll(sessionId, turnId, Date.now());
  }

  #isSettledIn(sessionId: SessionId): (turnId: TurnId, name: string) => boolean {
    return (turnId, name) => this.#waits.isSettled({ sessionId, turnId, name });
  }

  /** Everything that may name a blob. The path of a session has all that any of its boundaries had. */
  *#values(): Iterable<unknown> {
    for (const { current, boundaries } of this.#histories.values()) {
      yield* current?.nodes ?? [];
      for (const { head, components } of boundaries) yield [head, components];
    }
    for (const inbox of this.#inboxes.values()) yield* inbox.rows();
    yield* this.#journal.records();
    yield* this.#waits.rows();
    yield* this.#triggers.values();
  }

  #stored(sessionId: SessionId): MemorySession | undefined {
    const history = this.#histories.get(sessionId);
    const current = history?.current;
    if (history === undefined || current === undefined) return undefined;
    const { revision, head, components, nodes } = current;
    const inputs = this.#inboxes.get(sessionId)?.sequence ?? 0;
    return { sessionId, revision, head, components, nodes, inputs, unannounced: history.unannounced };
  }

  #inbox(sessionId: SessionId): Inbox {
    const known = this.#inboxes.get(sessionId);
    if (known !== undefined) return known;
    const inbox = new Inbox(sessionId);
    this.#inboxes.set(sessionId, inbox);
    return inbox;
  }

  #refuseUnfenced({
    sessionId,
    lease,
  }: {
    readonly sessionId: SessionId;
    readonly lease?: number | undefined;
  }): void {
    this.#refuseRetired(sessionId);
    if (lease !== undefined) this.#leases.fence(sessionId, lease);
  }

  #refuseRetired(sessionId: SessionId): void {
    if (this.#retired.has(sessionId)) {
      throw new MarlingError(
        "session_deleted",
        `session ${sessionId}: expected a live id, found one that was deleted`,
        { details: { sessionId } },
      );
    }
  }
}

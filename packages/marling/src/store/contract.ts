// The seam to storage. One commit is one transaction: all of it happens, or none of it.
//   ST1  a commit names the revision it was made on; another revision is `revision_conflict` and changes nothing.
//   ST2  a commit that happens `once` may be asked for again: the same operation with the same content returns the first
//        result, with other content it is `revision_conflict`. All others are told apart by their revision alone.
//   ST3  an input is admitted once per key and once per turn id: same content returns the same row; other content, or a
//        key and a turn id of different rows, is `idempotency_conflict`.
//   ST4  a deleted id is retired for ever; everything that names it is `session_deleted`.
//   ST5  lists are in the order of ids, so that a cursor stays good while sessions come and go.
//   ST28 whoever writes to a session holds its lease, or nobody does: a write with another generation than the lease has
//        now is `lease_lost`; a commit without one while somebody holds it is `lease_held`. Nothing of it happens.
//   ST32 a cancel request and the commit that settles the turn exclude each other: the first writer wins.
//   ST50 an id that the store makes, of an input or a turn, begins with the id of its session.
//   ST34 a wait takes one value, whoever brings it first, from any process; keys are known by their hashes only.

import type { EffectKey, InputId, NodeId, SessionId, TurnId } from "../model/ids.ts";
import type { JournalStore } from "../model/journal.ts";
import type { Json, JsonObject } from "../model/json.ts";
import type { DeliveryName, TriggerStore } from "../model/trigger-store.ts";
import type { TurnReport } from "../model/turn.ts";
import type { TokenUsage, UsageEntry } from "../model/usage.ts";

/** What a session is besides its nodes: small, written with every commit. */
export interface SessionHead {
  readonly version: 1;
  readonly turnIndex: number;
  readonly leaf: NodeId | null;
  readonly currentFrameId: string;
  /** Frames as the session layer encodes them. */
  readonly frames: readonly JsonObject[];
  readonly ledger: readonly UsageEntry[];
  readonly lastPromptUsage: TokenUsage | null;
  readonly parentSessionId: string | null;
  /** Counts operations beside turns, so that their ids can be derived. */
  readonly operations: number;
}

/** State that changes rarely; a commit carries a component only when it changed. */
export interface SessionComponents {
  readonly plugins?: JsonObject;
  readonly tools?: JsonObject;
  /** Code execution state by frame, as base64. */
  readonly execution?: JsonObject;
  /** What goes on beside turns. */
  readonly work?: JsonObject;
  /** Durable tasks that are to begin beside turns, for whoever goes on with `work`. */
  readonly requests?: JsonObject;
}

export interface StoredSession {
  readonly sessionId: SessionId;
  readonly revision: number;
  readonly head: SessionHead;
  /**
   * The active path, oldest first; of a session that was loaded in part, what is behind `earlier`. Whoever loads them may
   * freeze them.
   */
  readonly nodes: readonly JsonObject[];
  /** The nodes before those; there when some were left out. Reads them when it is called, until the store is closed. */
  earlier?(): readonly JsonObject[];
  readonly components: SessionComponents;
  /** Inputs admitted so far; the sequence of the newest. */
  readonly inputs: number;
  /** Commits that were to be announced and have not been, oldest first. */
  readonly unannounced: readonly Announcement[];
}

export interface LoadOptions {
  /** Whether nodes that were committed before the current frame was opened may be left out until they are asked for. */
  readonly isPartial?: boolean;
}

/** A commit that listeners are told of after it happened. */
export interface Announcement {
  readonly revision: number;
  readonly turnId: TurnId;
}

/** Who asks for a lease: a worker by its stable name, in one run of it. */
export interface LeaseRequest {
  readonly owner: string;
  /** Random, made anew by every run. */
  readonly incarnation: string;
  /** Wall time of whoever asks, and until when the lease shall hold. */
  readonly now: number;
  readonly expiresAt: number;
}

/** The right to write to a session. A newer generation ends every older one. */
export interface Lease {
  readonly sessionId: SessionId;
  readonly generation: number;
}

/** `held`: somebody else has the lease, it has not expired, and the store cannot prove that its holder is dead. */
export type Claim =
  | {
      readonly kind: "claimed";
      readonly generation: number;
      /** Whether the lease of somebody else ended by it, without being released. */
      readonly isTakeover: boolean;
      /** Of the newest commit, and the sequence of the newest input: whether the session moved meanwhile. */
      readonly revision: number;
      readonly inputs: number;
    }
  | { readonly kind: "held"; readonly owner: string; readonly expiresAt: number };

export interface SessionCommit {
  readonly sessionId: SessionId;
  readonly expectedRevision: number;
  /** The name of a turn, or the derived name of another operation. */
  readonly operation: string;
  /** Set for a turn, which only one commit can end: see ST2. */
  readonly once?: true;
  readonly head: SessionHead;
  /** What is added to the path. */
  readonly nodes: readonly JsonObject[];
  readonly components: SessionComponents;
  /** Whether something beside turns is left to be gone on with: see `resumable`. Left out, it stays as it is. */
  readonly hasWork?: boolean;
  /** The input that this turn settles, with its report. */
  readonly settles?: { readonly inputId: InputId; readonly report: TurnReport };
  /** Inputs that joined this turn at its checkpoints: settled with it, by the same report. */
  readonly joins?: readonly InputId[];
  /** The input that this commit brings further without settling it; where its turn goes on from is kept with it. */
  readonly advances?: { readonly inputId: InputId; readonly progress: Json };
  /** Turns, or parts of turns, whose journal and waits are not needed any longer. */
  readonly forgets?: readonly TurnId[];
  /** Inputs that this commit puts into the inbox. */
  readonly enqueues?: readonly NewInput[];
  /** The generation of the lease that the writer holds; left out by one that holds none. Not part of the content (ST2). */
  readonly lease?: number;
  /** Lets the lease go with the commit. */
  readonly releases?: true;
  /** The commit is to be announced under this turn: kept in `unannounced` until it was. */
  readonly announces?: TurnId;
  /** Revisions whose announcements are done. */
  readonly announced?: readonly number[];
}

export interface CommitResult {
  readonly revision: number;
  readonly enqueued: readonly InboxRow[];
}

export interface Admission {
  readonly status: "accepted" | "duplicate";
  readonly row: InboxRow;
  /** What became of the request for the lease, if there was one and the input is not settled. */
  readonly claim?: Claim;
}

export interface NewInput {
  readonly sessionId: SessionId;
  readonly key?: string;
  readonly turnId?: TurnId;
  /** As submitted; what idempotency compares. */
  readonly submitted: Json;
  /** As accepted, after `input.before`. */
  readonly input: Json;
  /** What its turn begins with; kept until it is settled, and no part of what idempotency compares. */
  readonly plan?: Json;
  /** It joins the turn that runs at its next checkpoint; what comes too late for that becomes a turn of its own. */
  readonly deliver?: "active_turn";
}

/** An accepted input. It becomes exactly one turn, or joins one. */
export interface InboxRow extends NewInput {
  readonly inputId: InputId;
  readonly turnId: TurnId;
  readonly sequence: number;
  /** The checkpoint of a turn that took it. */
  readonly claimed?: { readonly turnId: TurnId; readonly key: EffectKey };
  /** Its turn was asked to end. */
  readonly cancel?: { readonly reason: string };
  /** Its turn sleeps until one of the waits of these names has a value or is over, or until a time. */
  readonly parked?: { readonly names: readonly string[]; readonly due: number | null };
  /** Where the turn goes on from, when a commit brought it further. */
  readonly progress?: Json;
  readonly report?: TurnReport;
}

/** An input that shall not become a turn, with what whoever asks for it again is told. */
export interface Withdrawal {
  readonly inputId: InputId;
  readonly report: TurnReport;
}

export interface WithdrawOutcome {
  readonly inputId: InputId;
  /** `already_claimed`: a turn has it, or is it. */
  readonly status: "cancelled" | "already_claimed" | "already_completed" | "already_cancelled" | "unknown";
}

export type CancelStatus = "requested" | "already_requested" | "completed" | "unknown";

/** Approvals and completions have doors of their own: a key opens only what it was made for. */
export type WaitKind = "completion" | "approval";

export type Resolution =
  | { readonly ok: Json }
  | { readonly error: { readonly code: string; readonly message: string } };

export interface WaitName {
  readonly sessionId: SessionId;
  readonly turnId: TurnId;
  /** Unique in its turn. */
  readonly name: string;
}

/** A wait, and one of the keys that resolve it. A wait may have several keys, all of the same kind. */
export interface NewWait extends WaitName {
  readonly kind: WaitKind;
  /** SHA-256 of the key, as hex. */
  readonly keyHash: string;
  readonly lease?: number | undefined;
}

export interface WaitRow extends WaitName {
  readonly kind: WaitKind;
  /** The first value that came; missing while none has. */
  readonly resolution?: Resolution;
  /** Nobody waits any more: values come too late. */
  readonly isOver: boolean;
}

export type ResolveStatus = "resolved" | "already_resolved" | "unknown";

/** Values that arrive from outside, once, from any process. */
export interface WaitStore {
  /** Makes a wait known, or gives one that is known another key. */
  create(wait: NewWait): Promise<void>;
  read(sessionId: SessionId, turnId: TurnId): Promise<readonly WaitRow[]>;
  /** The first value wins; a key of another kind is unknown. Says whose wait it was. */
  resolve(
    keyHash: string,
    kind: WaitKind,
    resolution: Resolution,
  ): Promise<{ readonly status: ResolveStatus } & Partial<WaitName>>;
  /** Ends a wait unless a value came first; returns it as it is then. */
  end(wait: WaitName & { readonly lease?: number | undefined }): Promise<WaitRow | undefined>;
}

/** A turn that has nothing to do until a wait of these names is over, or until `due`. */
export interface ParkRequest extends Lease {
  readonly turnId: TurnId;
  readonly names: readonly string[];
  readonly due: number | null;
}

export interface DeliverRequest {
  readonly sessionId: SessionId;
  /** Of the lease that the turn runs under; none where turns run without. */
  readonly generation: number | undefined;
  readonly turnId: TurnId;
  /** The checkpoint that takes them. */
  readonly key: EffectKey;
  /** Set when later effects of the turn are known already: then only what this checkpoint took before is returned. */
  readonly isReplay: boolean;
}

export interface VacuumRequest {
  readonly now: number;
  /** How long what is over stays: withdrawn inputs, waits that answer that they are over, delivered occurrences. */
  readonly keepMs: number;
}

/** How many of each were removed, and by how much the store shrank. */
export interface VacuumReport {
  readonly journal: number;
  readonly inputs: number;
  readonly waits: number;
  readonly occurrences: number;
  readonly components: number;
  readonly blobs: number;
  readonly bytes: number;
}

export interface SessionSummary {
  readonly id: string;
  readonly revision: number;
  readonly turnIndex: number;
  readonly parentSessionId?: string;
}

export interface SessionFilter {
  readonly prefix?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export interface SessionPage {
  readonly items: readonly SessionSummary[];
  readonly cursor?: string;
}

export interface ForkRequest {
  readonly from: SessionId;
  readonly as: SessionId;
  /** The last node of a commit; by default the newest. */
  readonly at?: NodeId;
}

/** Bytes by content address. */
export interface BlobStore {
  /** The address that bytes have, whether they are stored or not. */
  ref(bytes: Uint8Array): string;
  put(bytes: Uint8Array): Promise<string>;
  get(ref: string): Promise<Uint8Array | undefined>;
}

export interface Store {
  /** Whether what was committed outlives the process. */
  readonly isDurable: boolean;
  readonly blobs: BlobStore;
  /** There when what happened inside a turn can outlive the process. */
  readonly journal?: JournalStore;
  readonly waits: WaitStore;
  /** There when subscriptions and occurrences can be kept. */
  readonly triggers?: TriggerStore;
  load(sessionId: SessionId, options?: LoadOptions): Promise<StoredSession | undefined>;
  /** The revision of the newest commit; 0 when there is none. */
  revision(sessionId: SessionId): Promise<number>;
  commit(commit: SessionCommit): Promise<CommitResult>;
  /**
   * With a request, asks for the lease of the session in the same transaction, unless the input is settled already. An
   * input that is a delivery takes it out of those that are to be made, in the same transaction.
   */
  admit(input: NewInput, lease?: LeaseRequest, delivery?: DeliveryName): Promise<Admission>;
  /** The row that an input is a duplicate of, if there is one; `idempotency_conflict` as for `admit`. */
  find(input: Omit<NewInput, "input">): Promise<InboxRow | undefined>;
  /** Admitted inputs that no commit has settled, in order; with `deliver`, those of them that are to be delivered so. */
  pending(sessionId: SessionId, deliver?: InboxRow["deliver"]): Promise<readonly InboxRow[]>;
  /** The sessions that have such inputs. */
  unsettled(): Promise<readonly SessionId[]>;
  /**
   * Those of them that somebody should go on with now: nobody who is alive holds the lease, and the first pending input
   * is not parked, or a wait of its is over, its time has come or its turn was asked to end.
   */
  workable(now: number): Promise<readonly SessionId[]>;
  /** The sessions with something beside turns to go on with, where nobody who is alive does: the `workLeaseId` is free. */
  resumable(now: number): Promise<readonly SessionId[]>;
  /** Takes the lease of a session. Its holder gets it again, with the same generation, and may so extend it. */
  claim(sessionId: SessionId, request: LeaseRequest): Promise<Claim>;
  /** Extends leases; returns those that were lost meanwhile. */
  renew(leases: readonly Lease[], request: LeaseRequest): Promise<readonly SessionId[]>;
  /** Lets a lease go; one that is lost already is left alone. */
  release(lease: Lease): Promise<void>;
  /** Inputs for a checkpoint of the turn that runs. The same checkpoint always gets the same. */
  deliver(request: DeliverRequest): Promise<readonly InboxRow[]>;
  /** Takes inputs out of the inbox that no turn has yet. */
  withdraw(sessionId: SessionId, withdrawals: readonly Withdrawal[]): Promise<readonly WithdrawOutcome[]>;
  /** Asks the turn of an input to end, from any process: see ST32. */
  cancel(request: {
    readonly sessionId: SessionId;
    readonly turnId: TurnId;
    readonly reason: string;
  }): Promise<CancelStatus>;
  /** Puts a turn to sleep and lets its lease go; `ready` when there is something to do already, and nothing changed. */
  park(request: ParkRequest): Promise<"parked" | "ready">;
  /** A commit was announced. */
  announced(sessionId: SessionId, revision: number): Promise<void>;
  /** Moves when somebody else has written to the same data; costs next to nothing. */
  changes(): Promise<number>;
  /** Removes what nothing names any more. */
  vacuum(request: VacuumRequest): Promise<VacuumReport>;
  list(filter: SessionFilter): Promise<SessionPage>;
  exists(sessionId: SessionId): Promise<boolean>;
  delete(sessionId: SessionId): Promise<void>;
  /** The session as it stood at a commit, under a new id. Nodes are shared: none is copied, and none is read for it. */
  fork(request: ForkRequest): Promise<Omit<StoredSession, "nodes" | "earlier">>;
  close(): Promise<void>;
}

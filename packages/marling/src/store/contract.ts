// The seam to storage. One commit is one transaction: all of it happens, or none of it.
//   ST1  a commit names the revision it was made on; another revision is `revision_conflict` and changes nothing.
//   ST2  a commit that happens `once` may be asked for again: the same operation with the same content returns the first
//        result, with other content it is `revision_conflict`. All others are told apart by their revision alone.
//   ST3  an input is admitted once per key and once per turn id: same content returns the same row; other content, or a
//        key and a turn id of different rows, is `idempotency_conflict`.
//   ST4  a deleted id is retired for ever; everything that names it is `session_deleted`.
//   ST5  lists are in the order of ids, so that a cursor stays good while sessions come and go.

import type { InputId, NodeId, SessionId, TurnId } from "../model/ids.ts";
import type { JournalStore } from "../model/journal.ts";
import type { Json, JsonObject } from "../model/json.ts";
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
}

export interface StoredSession {
  readonly sessionId: SessionId;
  readonly revision: number;
  readonly head: SessionHead;
  /** The active path, oldest first. */
  readonly nodes: readonly JsonObject[];
  readonly components: SessionComponents;
  /** Inputs admitted so far; the sequence of the newest. */
  readonly inputs: number;
}

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
  /** The input that this turn settles, with its report. */
  readonly settles?: { readonly inputId: InputId; readonly report: TurnReport };
  /** The input that this commit brings further without settling it; where its turn goes on from is kept with it. */
  readonly advances?: { readonly inputId: InputId; readonly progress: Json };
  /** Turns, or parts of turns, whose journal is not needed any longer. */
  readonly forgets?: readonly TurnId[];
  /** Inputs that this commit puts into the inbox. */
  readonly enqueues?: readonly NewInput[];
}

export interface CommitResult {
  readonly revision: number;
  readonly enqueued: readonly InboxRow[];
}

export interface NewInput {
  readonly sessionId: SessionId;
  readonly key?: string;
  readonly turnId?: TurnId;
  /** As submitted; what idempotency compares. */
  readonly submitted: Json;
  /** As accepted, after `input.before`. */
  readonly input: Json;
}

/** An accepted input. It becomes exactly one turn. */
export interface InboxRow extends NewInput {
  readonly inputId: InputId;
  readonly turnId: TurnId;
  readonly sequence: number;
  /** Where the turn goes on from, when a commit brought it further. */
  readonly progress?: Json;
  readonly report?: TurnReport;
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
  put(bytes: Uint8Array): Promise<string>;
  get(ref: string): Promise<Uint8Array | undefined>;
}

export interface Store {
  /** Whether what was committed outlives the process. */
  readonly isDurable: boolean;
  readonly blobs: BlobStore;
  /** There when what happened inside a turn can outlive the process. */
  readonly journal?: JournalStore;
  load(sessionId: SessionId): Promise<StoredSession | undefined>;
  commit(commit: SessionCommit): Promise<CommitResult>;
  admit(input: NewInput): Promise<{ readonly status: "accepted" | "duplicate"; readonly row: InboxRow }>;
  /** The row that an input is a duplicate of, if there is one; `idempotency_conflict` as for `admit`. */
  find(input: Omit<NewInput, "input">): Promise<InboxRow | undefined>;
  /** Admitted inputs that no commit has settled, in order. */
  pending(sessionId: SessionId): Promise<readonly InboxRow[]>;
  /** The sessions that have such inputs. */
  unsettled(): Promise<readonly SessionId[]>;
  list(filter: SessionFilter): Promise<SessionPage>;
  exists(sessionId: SessionId): Promise<boolean>;
  delete(sessionId: SessionId): Promise<void>;
  /** The session as it stood at a commit, under a new id; shares nodes, copies none. */
  fork(request: ForkRequest): Promise<StoredSession>;
  close(): Promise<void>;
}

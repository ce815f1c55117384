// The commits of sessions, in memory: every commit leaves a boundary that a fork can begin at.

import { MarlingError } from "../../base/errors.ts";
import { SharedList } from "../../base/shared-list.ts";
import type { NodeId, SessionId } from "../../model/ids.ts";
import { decodeJson, type JsonObject, jsonEqual } from "../../model/json.ts";
import type {
  Announcement,
  CommitResult,
  SessionCommit,
  SessionComponents,
  SessionHead,
  SessionSummary,
} from "../contract.ts";

/** Where a session stood after one commit. */
export interface Boundary {
  readonly revision: number;
  readonly length: number;
  readonly head: SessionHead;
  readonly components: SessionComponents;
  readonly nodes: SharedList<JsonObject>;
}

export class History {
  /** Commits that happen once, by operation. */
  readonly #done = new Map<string, { readonly commit: SessionCommit; readonly result: CommitResult }>();
  #boundaries: SharedList<Boundary>;
  #unannounced: readonly Announcement[] = [];
  #hasWork = false;

  constructor(boundaries: SharedList<Boundary> = SharedList.of<Boundary>()) {
    this.#boundaries = boundaries;
  }

  /** Oldest first; shared with forks. */
  get boundaries(): SharedList<Boundary> {
    return this.#boundaries;
  }

  get current(): Boundary | undefined {
    return this.#boundaries.at(-1);
  }

  get revision(): number {
    return this.current?.revision ?? 0;
  }

  get hasWork(): boolean {
    return this.#hasWork;
  }

  get unannounced(): readonly Announcement[] {
    return this.#unannounced;
  }

  /** What a commit that happened before came to; nothing when it did not happen, or with other content. */
  repeated(commit: SessionCommit): CommitResult | undefined {
    const known = commit.once === true ? this.#done.get(commit.operation) : undefined;
    return known !== undefined && isRepeated(known.commit, commit) ? known.result : undefined;
  }

  /** Refuses a commit that was made on another revision, or whose operation happened before. */
  refuseOutdated(commit: SessionCommit): void {
    const isKnown = commit.once === true && this.#done.has(commit.operation);
    if (!isKnown && this.revision === commit.expectedRevision) return;
    throw new MarlingError(
      "revision_conflict",
      `session ${commit.sessionId}: expected revision ${commit.expectedRevision}, found ${this.revision}`,
      { details: { expected: commit.expectedRevision, found: this.revision } },
    );
  }

  write(commit: SessionCommit, result: CommitResult): void {
    const { current } = this;
    const nodes = (current?.nodes ?? SharedList.of<JsonObject>()).append(commit.nodes);
    const { revision } = result;
    const components = { ...current?.components, ...commit.components };
    const boundary = { revision, length: nodes.length, head: commit.head, components, nodes };
    this.#boundaries = this.#boundaries.append([boundary]);
    if (commit.once === true) this.#done.set(commit.operation, { commit, result });
    this.#hasWork = commit.hasWork ?? this.#hasWork;
    this.announced(commit.announced ?? []);
    if (commit.announces !== undefined)
      this.#unannounced = [...this.#unannounced, { revision, turnId: commit.announces }];
  }

  /** Says whether any of these was waiting to be announced. */
  announced(revisions: readonly number[]): boolean {
    const left = this.#unannounced.filter(({ revision }) => !revisions.includes(revision));
    if (left.length === this.#unannounced.length) return false;
    this.#unannounced = left;
    return true;
  }
}

/** A history of its own that begins with what another one was at a commit. */
export function forkedHistory(from: SessionId, source: History, at: NodeId | undefined): History {
  const boundary = at === undefined ? source.current : boundaryAt(from, source, at);
  if (boundary === undefined) return new History();
  const head = { ...boundary.head, ledger: [], parentSessionId: null };
  const before = upTo(source.boundaries, ({ length }) => length < boundary.length);
  return new History(before.append([{ ...boundary, revision: 1, head }]));
}

export function summaryOf(id: SessionId, { revision, head }: Boundary): SessionSummary {
  const parent = head.parentSessionId === null ? {} : { parentSessionId: head.parentSessionId };
  return { id, revision, turnIndex: head.turnIndex, ...parent };
}

function boundaryAt(from: SessionId, { boundaries, current }: History, at: NodeId): Boundary {
  const exact = upTo(boundaries, ({ head }) => head.leaf === at).at(-1);
  if (exact !== undefined) return exact;
  const index = [...(current?.nodes ?? [])].findIndex((node) => node.id === at);
  if (index < 0)
    throw new MarlingError(
      "fork_point_unknown",
      `session ${from}: expected a node of its history, found ${at}`,
    );
  const before = upTo(boundaries, ({ length }) => length <= index).at(-1)?.head.leaf ?? null;
  const after = [...boundaries].find(({ length }) => length > index)?.head.leaf ?? null;
  throw new MarlingError(
    "fork_point_inside_turn",
    `session ${from}: expected the last node of a commit, found ${at} inside one; the boundaries around it are ${before ?? "none"} and ${after ?? "none"}`,
    { details: { before, after } },
  );
}

/** The boundaries up to the last one for which this is so; none when it is so for none. Looks at those behind it only. */
function upTo(boundaries: SharedList<Boundary>, isIt: (boundary: Boundary) => boolean): SharedList<Boundary> {
  let { length } = boundaries;
  while (length > 0 && !isIt(boundaries.at(length - 1) as Boundary)) length -= 1;
  return boundaries.take(length);
}

/** Whose lease a commit was made under is no part of it. */
function isRepeated(first: SessionCommit, again: SessionCommit): boolean {
  const [one, other] = [first, again].map(({ lease: _lease, ...content }) => decodeJson(content, "commit"));
  return jsonEqual(one, other);
}

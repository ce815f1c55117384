// A fork begins with a commit of its own, on top of a commit that it shares.
//   FK1  it starts where a commit ended; a node inside a commit is refused with the boundaries around it.
//   FK2  it refers to the session that made the commit, however many forks lie between.
//   FK3  inputs, journal, waits, lease, announcements and usage stay behind.

import { MarlingError } from "../../base/errors.ts";
import type { NodeId, SessionId } from "../../model/ids.ts";
import type { ForkRequest, StoredSession } from "../contract.ts";
import { insertCommit, lastNodeOf, type PathCommit, readPath } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import { forkPatch, HeadFold } from "./head-patch.ts";
import { countInputs } from "./input-rows.ts";
import { loadSession } from "./load-session.ts";
import { ensureSession, knownSession, reviseSession, type SessionRow, setBase } from "./session-rows.ts";

/** Where a commit of a path ended. */
interface Boundary {
  readonly commit: PathCommit;
  readonly leaf: NodeId | null;
  /** Nodes of the path up to here. */
  readonly length: number;
}

export function forkSession(db: Connection, { from, as, at }: ForkRequest): StoredSession {
  const source = knownSession(db, from);
  if (source?.status !== "live") {
    throw new MarlingError("unknown_session", `session ${from}: expected a session to fork, found none`);
  }
  const target = knownSession(db, as);
  if (target?.status === "live") {
    throw new MarlingError(
      "duplicate_session",
      `session ${as}: expected a new id to fork into, found an existing session`,
    );
  }
  const path = readPath(db, source);
  const boundary = boundaryAt(boundariesOf(path), { at, from, path });
  const fork = target ?? ensureSession(db, as);
  beginFork(db, fork, boundary);
  const stored = loadSession(db, { ...fork, status: "live", base: boundary.commit })?.stored;
  if (stored === undefined) throw new Error(`session ${as} is not there after it was forked`);
  return stored;
}

function boundariesOf(path: readonly PathCommit[]): readonly Boundary[] {
  const fold = new HeadFold();
  let length = 0;
  return path.map((commit) => {
    fold.add(commit.manifest.head, lastNodeOf(commit.nodes));
    length += commit.nodes.length;
    return { commit, leaf: fold.leaf as NodeId | null, length }; // as it was committed
  });
}

interface ForkPlace {
  readonly at: NodeId | undefined;
  readonly from: SessionId;
  readonly path: readonly PathCommit[];
}

function boundaryAt(boundaries: readonly Boundary[], { at, from, path }: ForkPlace): Boundary {
  const exact = at === undefined ? boundaries.at(-1) : boundaries.findLast(({ leaf }) => leaf === at);
  if (exact !== undefined) return exact;
  const index = path.flatMap(({ nodes }) => nodes).findIndex((node) => node.id === at);
  if (index < 0) {
    throw new MarlingError(
      "fork_point_unknown",
      `session ${from}: expected a node of its history, found ${at}`,
    );
  }
  const before = boundaries.findLast(({ length }) => length <= index)?.leaf ?? null;
  const after = boundaries.find(({ length }) => length > index)?.leaf ?? null;
  throw new MarlingError(
    "fork_point_inside_turn",
    `session ${from}: expected the last node of a commit, found ${at} inside one; the boundaries around it are ${before ?? "none"} and ${after ?? "none"}`,
    { details: { before, after } },
  );
}

function beginFork(db: Connection, fork: SessionRow, { commit, leaf }: Boundary): void {
  const head = forkPatch(commit.manifest.head.set.turnIndex ?? 0, leaf);
  const inputs = countInputs(db, fork);
  setBase(db, fork.no, commit);
  reviseSession(db, fork, null);
  insertCommit(db, { ...fork, revision: 1 }, { manifest: { head, inputs }, nodes: "[]" });
}

// A fork begins with a commit of its own, on top of a commit that it shares.
//   FK1  it starts where a commit ended; a node inside a commit is refused with the boundaries around it.
//   FK2  it refers to the session that made the commit, however many forks lie between.
//   FK3  inputs, journal, waits, lease, announcements and usage stay behind.
//   FK4  what is read is the newest commit of the source, whatever was before it; for an earlier place, what is behind that.

import { MarlingError } from "../../base/errors.ts";
import type { NodeId, SessionId } from "../../model/ids.ts";
import type { ForkRequest, StoredSession } from "../contract.ts";
import { insertCommit, lastNodeOf, type PathCommit, pathBackwards } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import type { HeadImages, SessionImage } from "./head-images.ts";
import { forkImage, forkPatch, headOf } from "./head-patch.ts";
import { countInputs } from "./input-rows.ts";
import { readComponents } from "./load-session.ts";
import { knownSession, putFork, type SessionRow } from "./session-rows.ts";

type Forked = Omit<StoredSession, "nodes" | "earlier">;

/** Where a commit of a path ended. */
interface Boundary {
  readonly commit: PathCommit;
  readonly leaf: NodeId | null;
  readonly turnIndex: number;
  /** Whether the source has nothing behind it. */
  readonly isNewest: boolean;
}

export function forkSession(db: Connection, request: ForkRequest, images: HeadImages): Forked {
  const { source, target } = endsOf(db, request);
  const boundary = boundaryAt(db, source, request.at);
  const { leaf, turnIndex } = boundary;
  const inputs = target === undefined ? 0 : countInputs(db, target);
  const fork = putFork(db, request.as, boundary.commit);
  const manifest = { head: forkPatch(turnIndex, leaf), inputs };
  insertCommit(db, { ...fork, revision: 1 }, { manifest, nodes: "[]" });
  const image = imageOf(images, { source, fork, boundary });
  const forked = {
    sessionId: fork.id,
    revision: 1,
    head: headOf(image.head, { leaf, turnIndex, parentSessionId: null }),
    components: readComponents(db, image.components),
    inputs,
    unannounced: [],
  };
  images.set(fork.no, image);
  return forked;
}

function endsOf(
  db: Connection,
  { from, as }: ForkRequest,
): { readonly source: SessionRow; readonly target: SessionRow | undefined } {
  const source = knownSession(db, from);
  const target = knownSession(db, as); // A retired id is refused before anything else.
  if (source?.status !== "live") {
    throw new MarlingError("unknown_session", `session ${from}: expected a session to fork, found none`);
  }
  if (target?.status === "live") {
    throw new MarlingError(
      "duplicate_session",
      `session ${as}: expected a new id to fork into, found an existing session`,
    );
  }
  return { source, target };
}

/** The newest commit, or the newest one that ended with a node. */
function boundaryAt(db: Connection, source: SessionRow, at: NodeId | undefined): Boundary {
  const path = pathBackwards(db, source);
  let isNewest = true;
  for (const commit of path) {
    const leaf = leafOf(commit);
    if (at === undefined || leaf === at) return { commit, leaf, turnIndex: turnIndexOf(commit), isNewest };
    if (commit.nodes.some(({ id }) => id === at)) {
      const [before] = path;
      throw insideTurn(source.id, at, { before: before === undefined ? null : leafOf(before), after: leaf });
    }
    isNewest = false;
  }
  throw new MarlingError(
    "fork_point_unknown",
    `session ${source.id}: expected a node of its history, found ${at}`,
  );
}

/** A leaf that a commit does not name is its last node. */
function leafOf({ manifest, nodes }: PathCommit): NodeId | null {
  const { leaf = lastNodeOf(nodes) ?? null } = manifest.head.set as { readonly leaf?: NodeId | null }; // as it was committed
  return leaf;
}

function turnIndexOf({ manifest }: PathCommit): number {
  const { turnIndex = 0 } = manifest.head.set;
  return Number(turnIndex);
}

function insideTurn(
  from: SessionId,
  at: NodeId,
  around: { readonly before: NodeId | null; readonly after: NodeId | null },
): MarlingError {
  const { before, after } = around;
  return new MarlingError(
    "fork_point_inside_turn",
    `session ${from}: expected the last node of a commit, found ${at} inside one; the boundaries around it are ${before ?? "none"} and ${after ?? "none"}`,
    { details: { before, after } },
  );
}

/** What the fork is besides its nodes: as its source is now, or as the commits up to an earlier place say. */
function imageOf(
  images: HeadImages,
  {
    source,
    fork,
    boundary,
  }: { readonly source: SessionRow; readonly fork: SessionRow; readonly boundary: Boundary },
): SessionImage {
  const image = images.of(boundary.isNewest ? source : fork);
  if (image === undefined) throw new Error(`session ${fork.id} is not there after it was forked`);
  const patches = image.patches + (boundary.isNewest ? 1 : 0); // What was read of the fork counts its own.
  return { ...image, head: forkImage(image.head), patches };
}

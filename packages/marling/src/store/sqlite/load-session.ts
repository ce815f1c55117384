import type { LoadOptions, SessionComponents, StoredSession } from "../contract.ts";
import { lastNodeOf, readNodes } from "./commit-rows.ts";
import { readComponent } from "./component-rows.ts";
import type { Connection } from "./connection.ts";
import type { HeadImages } from "./head-images.ts";
import { countInputs } from "./input-rows.ts";
import { unannounced } from "./outbox-rows.ts";
import type { CommitPoint, SessionRow } from "./session-rows.ts";
import { damaged } from "./sqlite-fault.ts";

/** A session as it was loaded, and the commit that its nodes begin with when some were left out. */
export interface LoadedSession {
  readonly stored: Omit<StoredSession, "earlier">;
  readonly from: CommitPoint | undefined;
}

/** A session with everything on its path, or in part; `undefined` when it has no commit. */
export function loadSession(
  db: Connection,
  session: SessionRow,
  { isPartial = false, images }: LoadOptions & { readonly images: HeadImages },
): LoadedSession | undefined {
  if (session.status !== "live") return undefined;
  const folded = images.read(session);
  if (folded === undefined)
    throw damaged(db.path, `session ${session.id}: expected the commits of a session, found none`);
  const { image, fold, revision } = folded;
  const from = isPartial ? image.opened : undefined;
  const nodes = readNodes(db, session, { from });
  const stored = {
    sessionId: session.id,
    revision,
    head: fold.head({ parentSessionId: session.parent, leaf: lastNodeOf(nodes) ?? null }),
    nodes,
    components: readComponents(db, image.components),
    inputs: countInputs(db, session),
    unannounced: unannounced(db, session),
  };
  return { stored, from };
}

/** Components by name, from their digests. */
export function readComponents(
  db: Connection,
  digests: { readonly [name: string]: string },
): SessionComponents {
  return Object.fromEntries(
    Object.entries(digests).map(([name, digest]) => [name, readComponent(db, digest)]),
  );
}

import type { LoadOptions, SessionComponents, StoredSession } from "../contract.ts";
import { lastNodeOf, type Manifest, readManifests, readNodes } from "./commit-rows.ts";
import { readComponent } from "./component-rows.ts";
import type { Connection } from "./connection.ts";
import type { HeadImages } from "./head-images.ts";
import { HeadFold, patchHead } from "./head-patch.ts";
import { countInputs } from "./input-rows.ts";
import { unannounced } from "./outbox-rows.ts";
import type { CommitPoint, SessionRow } from "./session-rows.ts";

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
  const path = readManifests(db, session);
  const last = path.at(-1);
  if (last === undefined || session.status !== "live") return undefined;
  const opening = path.findLast(({ manifest }) => opensFrame(manifest));
  const from = isPartial && opening !== path[0] ? opening : undefined;
  const nodes = readNodes(db, session, { from });
  const fold = new HeadFold();
  const digests: { [name: string]: string } = {};
  for (const { manifest } of path) {
    // A leaf that a commit does not name is its last node; of commits before the last it does not matter.
    fold.add(manifest.head, manifest === last.manifest ? lastNodeOf(nodes) : undefined);
    Object.assign(digests, manifest.components);
  }
  const head = fold.head(session.parent);
  const { image } = patchHead(undefined, head, { lastNode: undefined });
  images.set(session.no, { head: image, components: digests });
  const stored = {
    sessionId: session.id,
    revision: last.revision,
    head,
    nodes,
    components: readComponents(db, digests),
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

function opensFrame({ head }: Manifest): boolean {
  return head.set.currentFrameId !== undefined;
}

import type { SessionComponents, StoredSession } from "../contract.ts";
import { lastNodeOf, readPath } from "./commit-rows.ts";
import { readComponent } from "./component-rows.ts";
import type { Connection } from "./connection.ts";
import { HeadFold } from "./head-patch.ts";
import { countInputs } from "./input-rows.ts";
import { unannounced } from "./outbox-rows.ts";
import type { SessionRow } from "./session-rows.ts";

/** A session with everything on its path; `undefined` when it has no commit. */
export function loadSession(db: Connection, session: SessionRow): StoredSession | undefined {
  const path = readPath(db, session);
  const last = path.at(-1);
  if (last === undefined || session.status !== "live") return undefined;
  const fold = new HeadFold();
  const digests = new Map<string, string>();
  for (const { manifest, nodes } of path) {
    fold.add(manifest.head, lastNodeOf(nodes));
    for (const [name, digest] of Object.entries(manifest.components ?? {})) digests.set(name, digest);
  }
  const components = [...digests].map(([name, digest]) => [name, readComponent(db, digest)] as const);
  return {
    sessionId: session.id,
    revision: last.revision,
    head: fold.head(session.parent),
    nodes: path.flatMap(({ nodes }) => nodes),
    components: Object.fromEntries(components) satisfies SessionComponents,
    inputs: countInputs(db, session),
    unannounced: unannounced(db, session),
  };
}

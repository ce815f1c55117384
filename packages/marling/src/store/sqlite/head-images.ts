// The newest head of sessions that were used lately, and which components they have, so that the next commit can store what
// it changed and a fork knows what it begins with. A session that is not remembered is read once, without its nodes.
//   HI1  what is remembered is dropped when a write was undone, and when another store has written.
//   HI2  what a session is, is read from its newest commit that stored all of it. A commit does so when so many others have
//        not as the head has items, and at least `WHOLE_EVERY`: what commits store stays in proportion to what they add.

import { type Manifest, type ManifestPoint, manifestsBackwards } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import { countItems, HeadFold, type HeadImage, isSameMember, patchHead } from "./head-patch.ts";
import { keep } from "./row-memory.ts";
import type { CommitPoint, SessionRow } from "./session-rows.ts";

/** All of a head is stored when at least so many commits have not. */
const WHOLE_EVERY = 64;

/** What a session is besides its nodes. */
export interface SessionImage {
  readonly head: HeadImage;
  /** Digests by name. */
  readonly components: { readonly [name: string]: string };
  /** The commit that opened the current frame; absent when that is the first one. */
  readonly opened: CommitPoint | undefined;
  /** How many commits have come since all of the head was stored. */
  readonly patches: number;
}

/** A session as its commits tell it. */
export interface FoldedSession {
  readonly image: SessionImage;
  readonly fold: HeadFold;
  readonly revision: number;
}

export class HeadImages {
  readonly #db: Connection;
  readonly #images = new Map<number, SessionImage>();

  constructor(db: Connection) {
    this.#db = db;
  }

  /** The image of a session at its newest commit; `undefined` when it has none. */
  of(session: SessionRow): SessionImage | undefined {
    const known = this.#images.get(session.no);
    return known !== undefined || session.status !== "live" ? known : this.read(session)?.image;
  }

  /** Reads a session, and remembers it; `undefined` when it has no commit. */
  read(session: SessionRow): FoldedSession | undefined {
    const folded = foldSession(newestManifests(this.#db, session));
    if (folded !== undefined) this.set(session.no, folded.image);
    return folded;
  }

  /** Remembers a session as a commit left it. */
  set(no: number, image: SessionImage): void {
    keep(this.#images, no, image);
  }

  delete(no: number): void {
    this.#images.delete(no);
  }

  /** Drops what is remembered of the rows. */
  reset(): void {
    this.#images.clear();
  }
}

/** Whether the next commit is to store all of the head. */
export function isWholeDue({ patches, head }: SessionImage): boolean {
  return patches >= Math.max(WHOLE_EVERY, countItems(head));
}

/** What a session is with a commit that left this head and changed these components. */
export function nextImage(
  before: SessionImage | undefined,
  {
    head,
    components,
    point,
    isWhole,
  }: {
    readonly head: HeadImage;
    readonly components: Manifest["components"] | undefined;
    readonly point: CommitPoint;
    readonly isWhole: boolean;
  },
): SessionImage {
  if (before === undefined) return { head, components: { ...components }, opened: undefined, patches: 0 };
  return {
    head,
    components: { ...before.components, ...components },
    opened: isSameMember("currentFrameId", before.head, head) ? before.opened : point,
    patches: isWhole ? 0 : before.patches + 1,
  };
}

/** What a commit that stores all of the head stores besides. */
export function wholeOf({ components, opened }: SessionImage): NonNullable<Manifest["whole"]> {
  return { components, ...(opened === undefined ? {} : { opened: [opened.no, opened.revision] }) };
}

/** What commits changed, oldest first, from the newest one on that stored everything; from the first one when none did. */
function newestManifests(db: Connection, session: SessionRow): readonly ManifestPoint[] {
  const found: ManifestPoint[] = [];
  for (const point of manifestsBackwards(db, session)) {
    found.push(point);
    if (point.manifest.whole !== undefined) break;
  }
  return found.reverse();
}

function foldSession(points: readonly ManifestPoint[]): FoldedSession | undefined {
  const [first] = points;
  const last = points.at(-1);
  if (first === undefined || last === undefined) return undefined;
  const { whole } = first.manifest;
  const fold = new HeadFold();
  const components: { [name: string]: string } = { ...whole?.components };
  let opened = whole?.opened === undefined ? undefined : { no: whole.opened[0], revision: whole.opened[1] };
  for (const { no, revision, manifest } of points) {
    fold.add(manifest.head);
    Object.assign(components, manifest.components);
    if (manifest !== first.manifest && manifest.head.set.currentFrameId !== undefined)
      opened = { no, revision };
  }
  const { image: head } = patchHead(undefined, fold.head({ parentSessionId: null, leaf: null }), {
    lastNode: undefined,
  });
  return { image: { head, components, opened, patches: points.length - 1 }, fold, revision: last.revision };
}

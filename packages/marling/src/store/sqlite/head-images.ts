// The newest head of sessions that were written lately, so that the next commit can store what it changed. A session
// that is not remembered is read once, without its nodes.
//   HI1  what is remembered is dropped when a write was undone, and when another store has written.

import { readManifests } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import { HeadFold, type HeadImage, patchHead } from "./head-patch.ts";
import type { SessionRow } from "./session-rows.ts";

const REMEMBERED = 1000;

export class HeadImages {
  readonly #db: Connection;
  readonly #images = new Map<number, HeadImage>();

  constructor(db: Connection) {
    this.#db = db;
  }

  /** The image of a session's newest head; `undefined` when it has no commit. */
  of(session: SessionRow): HeadImage | undefined {
    const known = this.#images.get(session.no);
    if (known !== undefined || session.status !== "live") return known;
    const fold = new HeadFold();
    for (const { manifest } of readManifests(this.#db, session)) fold.add(manifest.head, undefined);
    return patchHead(undefined, fold.head(null), { lastNode: undefined }).image;
  }

  /** Remembers the head that a commit wrote; the one that was written longest ago makes room. */
  set(no: number, image: HeadImage): void {
    this.#images.delete(no);
    this.#images.set(no, image);
    const oldest = this.#images.size > REMEMBERED ? this.#images.keys().next().value : undefined;
    if (oldest !== undefined) this.#images.delete(oldest);
  }

  delete(no: number): void {
    this.#images.delete(no);
  }

  /** Drops what is remembered of the rows. */
  reset(): void {
    this.#images.clear();
  }
}

// The newest head of sessions that were used lately, and which components they have, so that the next commit can store what
// it changed and a fork knows what it begins with. A session that is not remembered is read once, without its nodes.
//   HI1  what is remembered is dropped when a write was undone, and when another store has written.

import { readManifests } from "./commit-rows.ts";
import type { Connection } from "./connection.ts";
import { HeadFold, type HeadImage, patchHead } from "./head-patch.ts";
import { keep } from "./row-memory.ts";
import type { SessionRow } from "./session-rows.ts";

/** What a session is besides its nodes. */
export interface SessionImage {
  readonly head: HeadImage;
  /** Digests by name. */
  readonly components: { readonly [name: string]: string };
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
    if (known !== undefined || session.status !== "live") return known;
    const fold = new HeadFold();
    const components: { [name: string]: string } = {};
    for (const { manifest } of readManifests(this.#db, session)) {
      fold.add(manifest.head, undefined);
      Object.assign(components, manifest.components);
    }
    const { image: head } = patchHead(undefined, fold.head(null), { lastNode: undefined });
    this.set(session.no, { head, components });
    return { head, components };
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

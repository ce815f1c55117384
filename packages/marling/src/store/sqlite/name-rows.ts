// Finds inputs and commits of a session by a name that says nothing of where they are. Names are kept as digests, so
// that a long or odd one costs as little as any other.

import { sha256Bytes } from "../../base/digest.ts";
import type { Connection } from "./connection.ts";
import { sumOf } from "./row-sum.ts";

/** `joined`: the sequence of an input that joined the turn of another. */
export type NameKind = "key" | "operation" | "turn" | "joined";

/** Where something is that has a name: in the inbox, or withdrawn from it, or in a commit. */
export type Place =
  | { readonly kind: "inbox"; readonly sequence: number }
  | { readonly kind: "commit"; readonly revision: number };

export interface Name {
  readonly kind: NameKind;
  readonly name: string;
}

const DIGEST_BYTES = 16;
const BY_DIGEST = "SELECT session, digest, n, sum FROM names WHERE session = ? AND digest = ?";

export function findName(db: Connection, no: number, name: Name): Place | undefined {
  if (!hasNames(db, no)) return undefined;
  const row = db.get(BY_DIGEST, no, digestOf(name));
  if (row === undefined) return undefined;
  const n = db.integer(db.summed("names", row), "n");
  return n < 0 ? { kind: "commit", revision: -n } : { kind: "inbox", sequence: n };
}

export function putName(db: Connection, no: number, name: Name & { readonly place: Place }): void {
  const { place } = name;
  const n = place.kind === "inbox" ? place.sequence : -place.revision;
  const digest = digestOf(name);
  const sum = sumOf("names", { session: no, digest, n });
  db.run("INSERT OR REPLACE INTO names (session, digest, n, sum) VALUES (?, ?, ?, ?)", no, digest, n, sum);
  db.memory.of(no).hasNames = true;
}

export function deleteName(db: Connection, no: number, name: Name): void {
  db.run("DELETE FROM names WHERE session = ? AND digest = ?", no, digestOf(name));
}

export function deleteNames(db: Connection, no: number): void {
  db.run("DELETE FROM names WHERE session = ?", no);
  db.memory.of(no).hasNames = undefined;
}

/** Whether a session has any; one whose inputs came without keys and turn ids has none. */
function hasNames(db: Connection, no: number): boolean {
  const known = db.memory.of(no);
  known.hasNames ??= db.get("SELECT 1 FROM names WHERE session = ? LIMIT 1", no) !== undefined;
  return known.hasNames;
}

/** As JSON: text that is not well-formed keeps its identity. */
function digestOf({ kind, name }: Name): Uint8Array {
  return sha256Bytes(JSON.stringify([kind, name])).subarray(0, DIGEST_BYTES);
}

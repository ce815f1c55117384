// Plugin, tool and execution state by content: what did not change is named, not written.
//   CP1  a large member of a component, or of an object inside it, is a row of its own; a change of one leaves the others.
//   CP3  what is read is compared with its digest, which is its checksum.
//   CP2  a row is there as long as somebody holds it: a commit, or another component.

import { sha256 } from "../../base/digest.ts";
import { isJsonObject, type Json, type JsonObject } from "../../model/json.ts";
import type { Connection } from "./connection.ts";
import { damaged } from "./sqlite-fault.ts";

/** A component with its large members put aside: each is `~` and its digest there. */
export interface PackedComponent {
  readonly digest: string;
  readonly body: string;
  readonly leaves: ReadonlyMap<string, string>;
}

/** The key of a commit, or the digest of another component. */
export type Holder = bigint | Uint8Array;

/** Members with a shorter text than this stay where they are. */
const LARGE = 512;

/** Prepares a component to be stored; touches no database. */
export function packComponent(component: JsonObject): PackedComponent {
  const leaves = new Map<string, string>();
  const packed = mapMembers(component, (member) => packMember(member, leaves));
  const body = JSON.stringify(packed);
  return { digest: digestOf(body, "component"), body, leaves };
}

/** Stores a component for a holder, or adds the holder to the one that is there. */
export function holdComponent(db: Connection, component: PackedComponent, holder: Holder): void {
  const { digest, body, leaves } = component;
  addHolder(db, digest, holder);
  if (!insertBody(db, digest, body)) return;
  for (const [leaf, text] of leaves) {
    addHolder(db, leaf, bytesOf(digest));
    insertBody(db, leaf, text);
  }
}

export function readComponent(db: Connection, digest: string): JsonObject {
  const packed = readBody(db, digest, "component");
  if (!isJsonObject(packed)) throw damaged(db.path, `component ${digest}: expected an object`);
  return mapMembers(packed, (member) => {
    const leaf = leafOf(member);
    if (leaf !== undefined) return readBody(db, leaf, "member");
    return typeof member === "string" && member.startsWith("~~") ? member.slice(1) : member;
  });
}

/** Takes a holder from a component; what nobody holds any longer is removed. */
export function releaseComponent(db: Connection, digest: string, holder: Holder): void {
  db.run("DELETE FROM holders WHERE digest = ? AND holder = ?", bytesOf(digest), holder);
  if (db.get("SELECT 1 FROM holders WHERE digest = ? LIMIT 1", bytesOf(digest)) !== undefined) return;
  const packed = readBody(db, digest, typeof holder === "bigint" ? "component" : "member");
  db.run("DELETE FROM components WHERE digest = ?", bytesOf(digest));
  if (typeof holder !== "bigint" || !isJsonObject(packed)) return;
  mapMembers(packed, (member) => {
    const leaf = leafOf(member);
    if (leaf !== undefined) releaseComponent(db, leaf, bytesOf(digest));
    return member;
  });
}

/** Removes components that nobody holds, and the hold of commits and components that are not there; returns how many. */
export function deleteUnheld(db: Connection): number {
  db.run(
    "DELETE FROM holders WHERE typeof(holder) = 'integer' AND NOT EXISTS (SELECT 1 FROM commits WHERE at = holder)",
  );
  const unheld = "NOT EXISTS (SELECT 1 FROM holders WHERE holders.digest = components.digest)";
  const held = "EXISTS (SELECT 1 FROM components WHERE components.digest = holder)";
  let count = 0;
  let gone: number;
  do {
    db.run(`DELETE FROM holders WHERE typeof(holder) = 'blob' AND NOT ${held}`);
    gone = db.run(`DELETE FROM components WHERE ${unheld}`);
    count += gone;
  } while (gone > 0);
  return count;
}

/** Maps the members of a component; of a member that is an object, its members. */
function mapMembers(component: JsonObject, map: (member: Json) => Json): JsonObject {
  const mapEntry = ([name, member]: [string, Json]): [string, Json] => [name, map(member)];
  return Object.fromEntries(
    Object.entries(component).map(([name, member]): [string, Json] =>
      isJsonObject(member)
        ? [name, Object.fromEntries(Object.entries(member).map(mapEntry))]
        : mapEntry([name, member]),
    ),
  );
}

function packMember(member: Json, leaves: Map<string, string>): Json {
  const text = JSON.stringify(member) ?? "null";
  if (text.length < LARGE)
    return typeof member === "string" && member.startsWith("~") ? `~${member}` : member;
  const digest = digestOf(text, "member");
  leaves.set(digest, text);
  return `~${digest}`;
}

function leafOf(member: Json): string | undefined {
  return typeof member === "string" && /^~[0-9a-f]{64}$/.test(member) ? member.slice(1) : undefined;
}

function addHolder(db: Connection, digest: string, holder: Holder): void {
  db.run("INSERT OR IGNORE INTO holders (digest, holder) VALUES (?, ?)", bytesOf(digest), holder);
}

function insertBody(db: Connection, digest: string, body: string): boolean {
  return db.run("INSERT OR IGNORE INTO components (digest, body) VALUES (?, ?)", bytesOf(digest), body) > 0;
}

function readBody(db: Connection, digest: string, kind: BodyKind): Json {
  const row = db.get("SELECT body FROM components WHERE digest = ?", bytesOf(digest));
  if (row === undefined) throw damaged(db.path, `component ${digest}: expected to find it, found nothing`);
  const body = db.text(row, "body");
  if (digestOf(body, kind) === digest) return db.parsed(body, "body");
  throw damaged(db.path, `component ${digest}: expected the content of this digest, found other content`);
}

type BodyKind = "component" | "member";

/** Of a large member it is never that of a component. */
function digestOf(text: string, kind: BodyKind): string {
  return sha256(kind === "component" ? text : `member ${text}`);
}

function bytesOf(digest: string): Uint8Array {
  return Buffer.from(digest, "hex");
}

// Bytes by digest.
//   BL1  bytes that nothing names stay for a while after they were put: whoever put them is about to name them.
//   BL3  what is read is compared with its digest. Bytes that are not found are looked for under the digests that differ in
//        one bit: bytes under a damaged digest are `store_corrupt`, not missing.
//   BL2  what is put is copied at once; what was put last is known by its bytes, and neither copied nor digested again.

import { sha256Bytes } from "../../base/digest.ts";
import type { Connection } from "./connection.ts";
import { damaged } from "./sqlite-fault.ts";

const PREFIX = "sha256:";
const ADDRESSES = /sha256:([0-9a-f]{64})/g;
const BYTES = "SELECT bytes FROM blobs WHERE digest = ?";
const IS_KNOWN = "SELECT 1 FROM blobs WHERE digest = ?";
/** How exactly it is known when bytes were put again, twice: in the file, and in memory. */
const PUT_AGAIN_MS = 30_000;

/** Stores bytes; those that were put a moment ago cost nothing. */
export function insertBlob(db: Connection, digest: Uint8Array, bytes: Uint8Array): void {
  const [ref, now] = [blobRef(digest), Date.now()];
  const putAt = db.memory.putTime(ref);
  if (putAt !== undefined && putAt <= now && now - putAt < PUT_AGAIN_MS) return;
  db.run("INSERT OR IGNORE INTO blobs (digest, bytes) VALUES (?, ?)", digest, bytes);
  db.run(
    "INSERT INTO blob_puts (digest, put_at) VALUES (?1, ?2) ON CONFLICT (digest) DO UPDATE SET put_at = ?2 WHERE put_at < ?2 - ?3",
    digest,
    now,
    PUT_AGAIN_MS,
  );
  db.memory.setPutTime(ref, now);
}

export function readBlob(db: Connection, ref: string): Uint8Array | undefined {
  if (!/^sha256:[0-9a-f]{64}$/.test(ref)) return undefined;
  const digest = bytesOf(ref.slice(PREFIX.length));
  const row = db.get(BYTES, digest);
  if (row === undefined) {
    requireUnknown(db, digest);
    return undefined;
  }
  const bytes = db.bytes(row, "bytes");
  if (Buffer.compare(blobDigest(bytes), digest) === 0) return bytes;
  throw damaged(db.path, `blob ${ref}: expected the bytes of this digest, found other bytes`);
}

function requireUnknown(db: Connection, digest: Uint8Array): void {
  for (let bit = 0; bit < 8 * digest.length; bit += 1) {
    const similar = Uint8Array.from(digest);
    similar[bit >> 3] = (similar[bit >> 3] as number) ^ (1 << (bit & 7));
    if (db.get(IS_KNOWN, similar) !== undefined)
      throw damaged(db.path, `blob ${blobRef(digest)}: expected its bytes, found a damaged digest`);
  }
}

export function blobDigest(bytes: Uint8Array): Uint8Array {
  return sha256Bytes(bytes);
}

export function blobRef(digest: Uint8Array): string {
  return PREFIX + Buffer.from(digest).toString("hex");
}

/** Longer bytes are not compared with what is put next. */
const LONGEST_COMPARED = 64 * 1024;

/** Bytes that nobody else has, and their digest. */
interface Blob {
  readonly bytes: Uint8Array;
  readonly digest: Uint8Array;
}

/** Copies of what is put. What was put last is often put again: it is compared before it is copied and digested. */
export class BlobPuts {
  #last: Blob | undefined;

  copy(given: Uint8Array): Blob {
    if (this.#last !== undefined && Buffer.compare(this.#last.bytes, given) === 0) return this.#last;
    const bytes = given.slice();
    const blob: Blob = { bytes, digest: blobDigest(bytes) };
    this.#last = bytes.length > LONGEST_COMPARED ? undefined : blob;
    return blob;
  }
}

/** The digests, as hex, of the blobs that a text names. */
export function* blobsNamedIn(text: string): Iterable<string> {
  for (const [, digest] of text.matchAll(ADDRESSES)) if (digest !== undefined) yield digest;
}

/** Forgets when blobs were put that were put until a time. */
export function expirePuts(db: Connection, until: number): void {
  db.run("DELETE FROM blob_puts WHERE put_at <= ?", until);
}

/** Some of the blobs that were not put lately, behind a digest, as hex and in order. */
export function blobsBehind(db: Connection, digest: string, limit: number): readonly string[] {
  const rows = db.all(
    "SELECT digest FROM blobs WHERE digest > ? AND digest NOT IN (SELECT digest FROM blob_puts) ORDER BY digest LIMIT ?",
    bytesOf(digest),
    limit,
  );
  return rows.map((row) => Buffer.from(db.bytes(row, "digest")).toString("hex"));
}

export function deleteBlob(db: Connection, digest: string): void {
  db.run("DELETE FROM blobs WHERE digest = ?", bytesOf(digest));
}

function bytesOf(digest: string): Uint8Array {
  return Buffer.from(digest, "hex");
}

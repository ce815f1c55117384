import { sha256Bytes } from "../../base/digest.ts";
import type { Connection } from "./connection.ts";

const PREFIX = "sha256:";

/** Stores bytes; those that are there already cost nothing. */
export function insertBlob(db: Connection, digest: Uint8Array, bytes: Uint8Array): void {
  db.run("INSERT OR IGNORE INTO blobs (digest, bytes) VALUES (?, ?)", digest, bytes);
}

export function readBlob(db: Connection, ref: string): Uint8Array | undefined {
  if (!/^sha256:[0-9a-f]{64}$/.test(ref)) return undefined;
  const row = db.get(
    "SELECT bytes FROM blobs WHERE digest = ?",
    Buffer.from(ref.slice(PREFIX.length), "hex"),
  );
  return row === undefined ? undefined : db.bytes(row, "bytes");
}

export function blobDigest(bytes: Uint8Array): Uint8Array {
  return sha256Bytes(bytes);
}

export function blobRef(digest: Uint8Array): string {
  return PREFIX + Buffer.from(digest).toString("hex");
}

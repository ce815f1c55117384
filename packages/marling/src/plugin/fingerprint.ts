import { createHash } from "node:crypto";

/** What a fingerprint is made of, one per plugin in build order. */
export interface PluginRevision {
  readonly id: string;
  readonly version: string;
  readonly revision: number;
}

const SEPARATOR = Uint8Array.of(0x00);
const END = Uint8Array.of(0xff);

/**
 * A number that moves with the order, ids, versions and revisions of plugins: the first eight bytes of SHA-256 over
 * id, 0x00, version, 0x00, revision as 64 bits little-endian, 0xFF for each plugin, read as little-endian.
 */
export function revisionFingerprint(plugins: readonly PluginRevision[]): bigint {
  const hash = createHash("sha256");
  for (const { id, version, revision } of plugins) {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(revision)));
    hash.update(id).update(SEPARATOR).update(version).update(SEPARATOR).update(bytes).update(END);
  }
  return hash.digest().readBigUInt64LE(0);
}

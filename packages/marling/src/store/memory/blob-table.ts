// Bytes by content address, in memory.

import { sha256 } from "../../base/digest.ts";

interface Blob {
  readonly bytes: Uint8Array;
  readonly putAt: number;
}

const ADDRESS = /sha256:[0-9a-f]{64}/g;

export function blobAddress(bytes: Uint8Array): string {
  return `sha256:${sha256(bytes)}`;
}

export class BlobTable {
  readonly #blobs = new Map<string, Blob>();

  put(bytes: Uint8Array, putAt: number): string {
    const ref = blobAddress(bytes);
    this.#blobs.set(ref, { bytes: Uint8Array.from(bytes), putAt });
    return ref;
  }

  get(ref: string): Uint8Array | undefined {
    return this.#blobs.get(ref)?.bytes.slice();
  }

  /**
   * Removes blobs that none of these values names. Those that were put after `putBy` stay: whoever put them may not have
   * written yet what names them.
   */
  vacuum(values: Iterable<unknown>, putBy: number): { readonly blobs: number; readonly bytes: number } {
    const isUnnamed = new Set([...this.#blobs].flatMap(([ref, { putAt }]) => (putAt <= putBy ? [ref] : [])));
    for (const value of values) {
      if (isUnnamed.size === 0) break;
      for (const [ref] of JSON.stringify(value).matchAll(ADDRESS)) isUnnamed.delete(ref);
    }
    let bytes = 0;
    for (const ref of isUnnamed) {
      bytes += this.#blobs.get(ref)?.bytes.length ?? 0;
      this.#blobs.delete(ref);
    }
    return { blobs: isUnnamed.size, bytes };
  }
}

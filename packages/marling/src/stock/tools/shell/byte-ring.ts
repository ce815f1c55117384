// The last bytes of a stream, in memory of a fixed size.

export class ByteRing {
  readonly #bytes: Buffer;
  #end = 0;
  #size = 0;
  #dropped = 0;

  constructor(capacity: number) {
    this.#bytes = Buffer.alloc(capacity);
  }

  get size(): number {
    return this.#size;
  }

  /** How many bytes were pushed out since the ring was last empty. */
  get dropped(): number {
    return this.#dropped;
  }

  push(bytes: Uint8Array): void {
    const capacity = this.#bytes.length;
    this.#dropped += Math.max(0, this.#size + bytes.length - capacity);
    const kept = bytes.subarray(Math.max(0, bytes.length - capacity));
    const first = Math.min(kept.length, capacity - this.#end);
    this.#bytes.set(kept.subarray(0, first), this.#end);
    this.#bytes.set(kept.subarray(first), 0);
    this.#end = capacity === 0 ? 0 : (this.#end + kept.length) % capacity;
    this.#size = Math.min(capacity, this.#size + kept.length);
  }

  /** A copy of the last bytes, by default of all that are there. */
  last(count: number = this.#size): Buffer {
    const wanted = Math.min(count, this.#size);
    const start = this.#end - wanted;
    if (start >= 0) return Buffer.from(this.#bytes.subarray(start, this.#end));
    return Buffer.concat([this.#bytes.subarray(start), this.#bytes.subarray(0, this.#end)]);
  }

  clear(): void {
    this.#size = 0;
    this.#end = 0;
    this.#dropped = 0;
  }
}

/** Without the bytes of a character whose beginning was cut off. */
export function withoutCutStart(bytes: Buffer): Buffer {
  let start = 0;
  while (start < 3 && start < bytes.length && isContinuation(bytes[start])) start += 1;
  return bytes.subarray(start);
}

/** Without the bytes of a character whose end is missing. */
export function withoutCutEnd(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back];
    if (isContinuation(byte)) continue;
    return lengthOf(byte) > back ? bytes.subarray(0, bytes.length - back) : bytes;
  }
  return bytes;
}

function isContinuation(byte = 0): boolean {
  return (byte & 0xc0) === 0x80;
}

function lengthOf(byte = 0): number {
  if (byte >= 0xf0) return 4;
  if (byte >= 0xe0) return 3;
  return byte >= 0xc0 ? 2 : 1;
}

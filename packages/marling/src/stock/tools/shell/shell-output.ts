// What a command wrote, in bounded memory.
//   SH3  the model is shown the beginning and the end; when something between them is left out, it is told how much, and
//        in which file the whole is.
//   SH4  a file that cannot be written stops no command: the output is then what was kept in memory.

import { ByteRing, withoutCutEnd, withoutCutStart } from "./byte-ring.ts";
import { messageOf } from "./message-of.ts";
import type { SpillFile, SpillFolder } from "./spill-folder.ts";

/** The output of a command as a result shows it. */
export interface ShownOutput {
  readonly output: string;
  /** Only when something was left out. */
  readonly totalBytes?: number;
  readonly omittedBytes?: number;
  /** Where the whole is, or as much of it as the limit of the file allows. */
  readonly file?: string;
  readonly fileBytes?: number;
}

export class ShellOutput {
  readonly #limitBytes: number;
  readonly #head: Buffer;
  readonly #tail: ByteRing;
  readonly #unread: ByteRing;
  readonly #folder: SpillFolder;
  #headSize = 0;
  #total = 0;
  #spill: SpillFile | undefined;
  #spillFault: string | undefined;

  constructor(limitBytes: number, folder: SpillFolder) {
    this.#limitBytes = limitBytes;
    this.#head = Buffer.alloc(Math.ceil(limitBytes / 2));
    this.#tail = new ByteRing(Math.floor(limitBytes / 2));
    this.#unread = new ByteRing(limitBytes);
    this.#folder = folder;
  }

  /** Resolves when the next bytes may come: a command does not write faster than the disk takes it. */
  async push(bytes: Uint8Array): Promise<void> {
    const overflows = this.#total + bytes.length > this.#limitBytes;
    const before = overflows && this.#total <= this.#limitBytes ? this.#kept() : undefined;
    this.#unread.push(bytes);
    const room = Math.min(this.#head.length - this.#headSize, bytes.length);
    this.#head.set(bytes.subarray(0, room), this.#headSize);
    this.#headSize += room;
    this.#tail.push(bytes.subarray(room));
    this.#total += bytes.length;
    if (overflows) await this.#write(before, bytes);
  }

  /** The last bytes, for those who watch. */
  recent(count: number): string {
    return withoutCutStart(this.#unread.last(count)).toString("utf8");
  }

  shown(): ShownOutput {
    const head = this.#head.subarray(0, this.#headSize);
    const tail = this.#tail.last();
    const omittedBytes = this.#total - head.length - tail.length;
    if (omittedBytes === 0) return { output: Buffer.concat([head, tail]).toString("utf8") };
    const output = [
      withoutCutEnd(head).toString("utf8"),
      `[${omittedBytes} of ${this.#total} bytes are left out here. ${this.#whereabouts()}]`,
      withoutCutStart(tail).toString("utf8"),
    ].join("\n");
    return { output, totalBytes: this.#total, omittedBytes, ...this.#fileFields() };
  }

  /** What came since this was last asked: at most the limit, the newest. A character that is not whole yet stays. */
  takeUnread({ isOver }: { readonly isOver: boolean }): ShownOutput {
    const dropped = this.#unread.dropped;
    const all = dropped === 0 ? this.#unread.last() : withoutCutStart(this.#unread.last());
    const text = isOver ? all : withoutCutEnd(all);
    this.#unread.clear();
    this.#unread.push(all.subarray(text.length));
    const output = text.toString("utf8");
    if (dropped === 0) return { output };
    const note = `[${dropped} bytes are left out here. ${this.#whereabouts()}]`;
    return {
      output: `${note}\n${output}`,
      totalBytes: this.#total,
      omittedBytes: dropped,
      ...this.#fileFields(),
    };
  }

  async end(): Promise<void> {
    // What was written is on disk; closing can only fail for what the next read of the file will say as well.
    await this.#spill?.close().catch(() => undefined);
  }

  #kept(): Buffer {
    return Buffer.concat([this.#head.subarray(0, this.#headSize), this.#tail.last()]);
  }

  async #write(before: Uint8Array | undefined, bytes: Uint8Array): Promise<void> {
    if (this.#spillFault !== undefined) return;
    try {
      if (this.#spill === undefined) {
        this.#spill = await this.#folder.create();
        await this.#spill.write(before ?? new Uint8Array(0));
      }
      await this.#spill.write(bytes);
    } catch (thrown) {
      this.#spillFault = messageOf(thrown);
    }
  }

  #whereabouts(): string {
    if (this.#spillFault !== undefined) return `It could not be kept in a file: ${this.#spillFault}`;
    if (this.#spill === undefined) return "It was not kept.";
    const { path, written } = this.#spill;
    const extent = written < this.#total ? `The first ${written} bytes are` : "The whole output is";
    return `${extent} in ${path}`;
  }

  #fileFields(): Pick<ShownOutput, "file" | "fileBytes"> {
    if (this.#spill === undefined || this.#spillFault !== undefined) return {};
    return { file: this.#spill.path, fileBytes: this.#spill.written };
  }
}

// Where outputs go that are too long for the model.
//   SH5  a spill file is made new, for its owner only, and never through a link.
//   SH6  a file takes at most the limit, the rest is dropped; of the files of one owner the newest are kept.
//   SH7  a folder of our own in the temporary folder goes with its owner; a folder that was given stays, files and all.

import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface SpillLimits {
  /** Absolute; without it a folder of our own in the temporary folder. */
  readonly folder: string | undefined;
  /** Per file. */
  readonly limitBytes: number;
  readonly maxFiles: number;
}

export class SpillFolder {
  readonly #limits: SpillLimits;
  readonly #paths: string[] = [];
  #folder: Promise<string> | undefined;

  constructor(limits: SpillLimits) {
    this.#limits = limits;
  }

  async create(): Promise<SpillFile> {
    this.#folder ??= this.#prepare();
    const path = join(await this.#folder, `output-${randomBytes(8).toString("hex")}.txt`);
    const handle = await open(path, "wx", 0o600);
    this.#paths.push(path);
    if (this.#paths.length > this.#limits.maxFiles) await rm(this.#paths.shift() ?? "", { force: true });
    return new SpillFile(path, { handle, limitBytes: this.#limits.limitBytes });
  }

  async remove(): Promise<void> {
    if (this.#folder === undefined || this.#limits.folder !== undefined) return;
    // A folder that could not be made is not there to be removed.
    const folder = await this.#folder.catch(() => undefined);
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  }

  async #prepare(): Promise<string> {
    const { folder } = this.#limits;
    if (folder === undefined) return mkdtemp(join(tmpdir(), "marling-shell-"));
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  }
}

/** What is needed of a file that is open. */
interface OpenFile {
  writeFile(bytes: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

export class SpillFile {
  readonly path: string;
  readonly #handle: OpenFile;
  #left: number;
  #written = 0;

  constructor(path: string, file: { readonly handle: OpenFile; readonly limitBytes: number }) {
    this.path = path;
    this.#handle = file.handle;
    this.#left = file.limitBytes;
  }

  get written(): number {
    return this.#written;
  }

  async write(bytes: Uint8Array): Promise<void> {
    const kept = bytes.subarray(0, this.#left);
    if (kept.length === 0) return;
    await this.#handle.writeFile(kept);
    this.#left -= kept.length;
    this.#written += kept.length;
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

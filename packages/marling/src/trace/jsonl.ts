// Traces as lines of JSON, in a file or on a stream.
//   TC20  a record costs its text: writing goes on beside the runtime, in pieces as large as what has gathered.
//   TC21  what waits to be written is bounded; what does not fit is dropped and counted.
//   TC22  a failure of the file never reaches the runtime: it is counted, and the last one can be read.
//   TC23  a file that is not a trace is never written to.

import type { FileHandle } from "node:fs/promises";
import { open, rename, rm } from "node:fs/promises";
import { MarlingError } from "../base/errors.ts";
import type { TraceRecord, TraceSink } from "./contract.ts";
import { isTraceHeader, TRACE_HEADER } from "./read-trace.ts";

export interface JsonlTraceOptions {
  /** Whether texts, arguments and results are written as well; they are not by default. */
  readonly content?: boolean;
  /** The size in bytes from which a file is put aside as `<path>.1` and another one begun; never by default. */
  readonly rotateBytes?: number;
  /** How many files that were put aside are kept; 5 by default. */
  readonly keptFiles?: number;
  /** What may wait to be written, in bytes of text; 8 MiB by default. */
  readonly bufferBytes?: number;
}

/** A stream of text, such as `process.stderr`. It is not ended. */
export interface TraceStream {
  write(text: string, done: (error?: Error | null) => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
}

export interface JsonlTrace extends TraceSink, AsyncDisposable {
  /** Records that were written, that did not fit or came too late, and writes that failed. */
  readonly counts: { readonly written: number; readonly dropped: number; readonly failed: number };
  readonly lastFailure: unknown;
  /** Resolves when everything so far is written or given up. Never rejects. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

const BUFFER_BYTES = 8 * 1024 * 1024;
const KEPT_FILES = 5;

/** A sink that writes lines of JSON; a path is appended to, and only its owner may read it. Close it after the runtime. */
export function jsonlTrace(to: string | TraceStream, options: JsonlTraceOptions = {}): JsonlTrace {
  const { content = false, bufferBytes = BUFFER_BYTES } = options;
  checkSizes(options);
  const target = typeof to === "string" ? new TraceFile(to, options) : new StreamTarget(to);
  return new LineWriter(target, { content, bufferBytes });
}

/** Where lines go. */
interface Target {
  write(text: string): Promise<void>;
  close(): Promise<void>;
}

class LineWriter implements JsonlTrace {
  readonly wantsContent: boolean;
  readonly counts: { written: number; dropped: number; failed: number } = {
    written: 0,
    dropped: 0,
    failed: 0,
  };
  lastFailure: unknown;
  readonly #target: Target;
  readonly #limit: number;
  #waiting: string[] = [];
  #waitingBytes = 0;
  #writing: Promise<void> | undefined;
  #isClosed = false;

  constructor(target: Target, options: { readonly content: boolean; readonly bufferBytes: number }) {
    this.#target = target;
    this.#limit = options.bufferBytes;
    this.wantsContent = options.content;
  }

  record(record: TraceRecord): void {
    const line = this.#isClosed ? undefined : this.#lineOf(record);
    if (line === undefined || this.#waitingBytes + line.length > this.#limit) {
      this.counts.dropped += 1;
      return;
    }
    this.#waiting.push(line);
    this.#waitingBytes += line.length;
    this.#writing ??= this.#writeAll();
  }

  async flush(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.flush();
    await this.#target.close().catch((thrown: unknown) => this.#fail(thrown));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #lineOf(record: TraceRecord): string | undefined {
    try {
      return `${JSON.stringify(record)}\n`;
    } catch (thrown) {
      this.#fail(thrown);
      return undefined;
    }
  }

  async #writeAll(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve)); // What comes in this tick is one write.
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      const bytes = this.#waitingBytes;
      this.#waiting = [];
      try {
        await this.#target.write(lines.join(""));
        this.counts.written += lines.length;
      } catch (thrown) {
        this.counts.dropped += lines.length;
        this.#fail(thrown);
      }
      this.#waitingBytes -= bytes;
    }
    this.#writing = undefined;
  }

  #fail(thrown: unknown): void {
    this.counts.failed += 1;
    this.lastFailure = thrown;
  }
}

class StreamTarget implements Target {
  readonly #stream: TraceStream;
  #hasHeader = false;

  constructor(stream: TraceStream) {
    this.#stream = stream;
    stream.on("error", () => undefined); // The write that failed says so.
  }

  async write(text: string): Promise<void> {
    const whole = this.#hasHeader ? text : TRACE_HEADER + text;
    this.#hasHeader = true;
    await new Promise<void>((resolve, reject) => {
      this.#stream.write(whole, (error) => (error ? reject(error) : resolve()));
    });
  }

  async close(): Promise<void> {}
}

class TraceFile implements Target {
  readonly #path: string;
  readonly #rotateBytes: number;
  readonly #keptFiles: number;
  #file: { readonly handle: FileHandle; size: number } | undefined;

  constructor(
    path: string,
    { rotateBytes = Number.POSITIVE_INFINITY, keptFiles = KEPT_FILES }: JsonlTraceOptions,
  ) {
    this.#path = path;
    this.#rotateBytes = rotateBytes;
    this.#keptFiles = keptFiles;
  }

  async write(text: string): Promise<void> {
    this.#file ??= await openTrace(this.#path);
    const bytes = Buffer.from(text);
    if (this.#file.size + bytes.length > this.#rotateBytes && this.#file.size > TRACE_HEADER.length)
      this.#file = await this.#rotate();
    await this.#file.handle.appendFile(bytes);
    this.#file.size += bytes.length;
  }

  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.handle.close();
  }

  async #rotate(): Promise<{ readonly handle: FileHandle; size: number }> {
    await this.close();
    await rm(`${this.#path}.${this.#keptFiles}`, { force: true });
    for (let number = this.#keptFiles - 1; number >= 0; number -= 1)
      await rename(
        number === 0 ? this.#path : `${this.#path}.${number}`,
        `${this.#path}.${number + 1}`,
      ).catch(ignoreMissing);
    if (this.#keptFiles === 0) await rm(this.#path, { force: true });
    return openTrace(this.#path);
  }
}

/** Opens a trace for appending; a new one, and one whose last line a crash has cut, get a header first. */
async function openTrace(path: string): Promise<{ readonly handle: FileHandle; size: number }> {
  const handle = await open(path, "a+", 0o600);
  try {
    await handle.chmod(0o600);
    const { size } = await handle.stat();
    const start = size === 0 ? TRACE_HEADER : await missingStart(handle, path, size);
    await handle.appendFile(start);
    return { handle, size: size + start.length };
  } catch (thrown) {
    await handle.close();
    throw thrown;
  }
}

async function missingStart(handle: FileHandle, path: string, size: number): Promise<string> {
  const head = Buffer.alloc(Math.min(size, 256));
  await handle.read(head, 0, head.length, 0);
  const [first = ""] = head.toString().split("\n", 1);
  if (!isTraceHeader(first))
    throw new MarlingError(
      "invalid_trace",
      `trace ${path}: expected a trace to append to, found another file`,
    );
  const last = Buffer.alloc(1);
  await handle.read(last, 0, 1, size - 1);
  return last.toString() === "\n" ? "" : `\n${TRACE_HEADER}`;
}

function ignoreMissing(thrown: unknown): void {
  if ((thrown as { readonly code?: unknown } | null)?.code !== "ENOENT") throw thrown;
}

function checkSizes(options: JsonlTraceOptions): void {
  for (const name of ["rotateBytes", "bufferBytes", "keptFiles"] as const) {
    const value = options[name];
    const least = name === "keptFiles" ? 0 : 1;
    if (value === undefined || (Number.isInteger(value) && value >= least)) continue;
    const message = `option ${name}: expected a whole number from ${least}, found ${String(value)}`;
    throw new MarlingError("invalid_options", message, { details: { option: name } });
  }
}

// Runs a regular expression of a model where it can be stopped: in a worker, with a deadline.
//   PS1  a worker that does not answer in time is ended, and so is the search.
//   PS2  no worker outlives its search, whatever happened.
// The program of the worker is text, so that it needs no file of its own wherever this package is bundled.

import { Worker } from "node:worker_threads";
import { FileRefusal } from "./file-refusal.ts";

const START_MS = 10_000;
const MEMORY_MB = 256;

const PROGRAM = `
const { parentPort, workerData } = require("node:worker_threads");
const { source, flags, context, lineLength } = workerData;
const LEAD = 100;

function shown(line, at) {
  if (line.length <= lineLength) return line;
  const start = Math.max(0, Math.min(at - LEAD, line.length - lineLength));
  const end = start + lineLength;
  return (start > 0 ? "[...]" : "") + line.slice(start, end) + (end < line.length ? "[...]" : "");
}

function search(expression, bytes, most) {
  const lines = new TextDecoder("utf-8").decode(bytes).split(/\\r?\\n/);
  if (lines[lines.length - 1] === "") lines.pop();
  const places = new Map();
  for (let index = 0; index < lines.length && places.size < most; index += 1) {
    const match = expression.exec(lines[index]);
    if (match !== null) places.set(index, match.index);
  }
  const wanted = new Set();
  for (const index of places.keys())
    for (let at = Math.max(0, index - context); at <= Math.min(lines.length - 1, index + context); at += 1)
      wanted.add(at);
  const found = [...wanted].sort((a, b) => a - b);
  return found.map((index) => ({
    number: index + 1,
    text: shown(lines[index], places.get(index) ?? 0),
    isMatch: places.has(index),
  }));
}

function start() {
  let expression;
  try {
    expression = new RegExp(source, flags);
  } catch (error) {
    parentPort.postMessage({ kind: "invalid", message: String(error.message) });
    return;
  }
  parentPort.on("message", ({ bytes, most }) => {
    parentPort.postMessage({ kind: "found", lines: search(expression, bytes, most) });
  });
  parentPort.postMessage({ kind: "ready" });
}

start();
`;

export interface PatternSearchOptions {
  readonly ignoreCase: boolean;
  /** Lines shown before and after a match. */
  readonly context: number;
  readonly lineLength: number;
  /** How long the expression may take in all. */
  readonly limitMs: number;
  readonly signal: AbortSignal;
}

export interface FoundLine {
  readonly number: number;
  readonly text: string;
  readonly isMatch: boolean;
}

type Reply =
  | { readonly kind: "ready" }
  | { readonly kind: "invalid"; readonly message: string }
  | { readonly kind: "found"; readonly lines: readonly FoundLine[] };

/** One expression, searched for in one text after another. Contract: whoever starts it closes it. */
export class PatternSearch {
  readonly #worker: Worker;
  readonly #options: PatternSearchOptions;
  readonly #pattern: string;
  #leftMs: number;
  #isAlive = true;

  private constructor(pattern: string, options: PatternSearchOptions) {
    const { context, lineLength, ignoreCase } = options;
    this.#pattern = pattern;
    this.#options = options;
    this.#leftMs = options.limitMs;
    this.#worker = new Worker(PROGRAM, {
      eval: true,
      env: {},
      execArgv: [],
      workerData: { source: pattern, flags: ignoreCase ? "i" : "", context, lineLength },
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    });
    this.#worker.on("error", () => undefined); // Whoever waits is told; an error between two questions shows as an exit.
    this.#worker.once("exit", () => {
      this.#isAlive = false;
    });
  }

  /** Starts a worker. Refuses an expression that is none. */
  static async start(pattern: string, options: PatternSearchOptions): Promise<PatternSearch> {
    options.signal.throwIfAborted();
    const search = new PatternSearch(pattern, options);
    try {
      const reply = await search.#reply(START_MS);
      if (reply.kind !== "invalid") return search;
      throw new FileRefusal(
        "invalid_pattern",
        `pattern: expected a regular expression, found: ${reply.message}.`,
      );
    } catch (thrown) {
      await search.close();
      throw thrown;
    }
  }

  /** The lines of a text that fit, with those around them. The bytes are given away. */
  async search(bytes: Uint8Array<ArrayBuffer>, most: number): Promise<readonly FoundLine[]> {
    if (bytes.length === 0) return [];
    const started = performance.now();
    const replied = this.#reply(this.#leftMs);
    this.#worker.postMessage({ bytes, most }, [bytes.buffer]);
    const reply = await replied;
    this.#leftMs = Math.max(1, this.#leftMs - (performance.now() - started));
    return reply.kind === "found" ? reply.lines : [];
  }

  /** Ends the worker and waits until it is gone. */
  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  /** Whether the worker is still there. */
  get isAlive(): boolean {
    return this.#isAlive;
  }

  async #reply(limitMs: number): Promise<Reply> {
    const { signal } = this.#options;
    const worker = this.#worker;
    const { promise, resolve, reject } = deferredReply();
    const onAbort = (): void => reject(signal.reason);
    const onError = (thrown: unknown): void => reject(this.#broken(thrown));
    const onExit = (): void => reject(this.#broken());
    const timer = setTimeout(() => reject(this.#late()), limitMs);
    worker.once("message", resolve).once("error", onError).once("exit", onExit);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      worker.off("message", resolve).off("error", onError).off("exit", onExit);
      signal.removeEventListener("abort", onAbort);
    }
  }

  #late(): FileRefusal {
    return new FileRefusal(
      "search_timeout",
      `pattern ${this.#pattern.slice(0, 200)}: expected an answer within ${this.#options.limitMs} ms, found none. ` +
        "Use a simpler expression without nested repetition, or fewer files.",
    );
  }

  #broken(cause?: unknown): FileRefusal {
    return new FileRefusal("search_failed", "The search stopped: it needed more memory than it may have.", {
      cause,
    });
  }
}

interface DeferredReply {
  readonly promise: Promise<Reply>;
  resolve(reply: Reply): void;
  reject(reason: unknown): void;
}

function deferredReply(): DeferredReply {
  let settle: Pick<DeferredReply, "resolve" | "reject"> | undefined;
  const promise = new Promise<Reply>((resolve, reject) => {
    settle = { resolve, reject };
  });
  return {
    promise,
    resolve: (reply) => settle?.resolve(reply),
    reject: (reason) => settle?.reject(reason),
  };
}

// A server that is a process of this machine.
//   MC10  its environment is PATH, HOME, LANG, TZ and TMPDIR and what its options add: no key of ours is in it.
//   MC11  it has a process group of its own, and the group ends with the connection: asked first, then ended, then killed.
//   MC12  one message is at most as large as the options say; a larger one ends the connection.

import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import type { JSONRPCMessage, ReadBuffer, Transport } from "@modelcontextprotocol/client";
import type { ClientLibrary } from "./client-library.ts";
import type { McpTarget } from "./options.ts";
import { endProcessGroup, killAtExit } from "./process-group.ts";
import type { StderrTail } from "./stderr-tail.ts";

export interface StdioTransportOptions {
  readonly target: McpTarget & { readonly kind: "stdio" };
  readonly maxMessageBytes: number;
  readonly stderr: StderrTail;
  /** How long the process has after its input ended, and again after SIGTERM. */
  readonly graceMs?: number;
}

const GRACE_MS = 1_000;
/** What left the group may hold the output open for ever. */
const DRAIN_LIMIT_MS = 250;
const INHERITED = ["PATH", "HOME", "LANG", "TZ", "TMPDIR"];

export class StdioTransport implements Transport {
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  onmessage?: Transport["onmessage"];
  /** Why the connection is over, when the process is the reason. */
  reason: string | undefined;
  readonly #options: StdioTransportOptions;
  readonly #serialize: (message: JSONRPCMessage) => string;
  readonly #buffer: ReadBuffer;
  #child: ChildProcess | undefined;
  #ended: Promise<void> | undefined;
  #drained: Promise<void> = Promise.resolve();
  #isClosing = false;
  #isDeaf = false;

  constructor({ ReadBuffer: Buffered, serializeMessage }: ClientLibrary, options: StdioTransportOptions) {
    this.#options = options;
    this.#serialize = serializeMessage;
    this.#buffer = new Buffered({ maxBufferSize: options.maxMessageBytes });
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  async start(): Promise<void> {
    const { command, args, env, cwd } = this.#options.target;
    const child = spawn(command, [...args], {
      env: { ...inherited(), ...env },
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
      ...(cwd === undefined ? {} : { cwd }),
    });
    this.#child = child;
    this.#watch(child);
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", () => resolve());
      child.once("error", reject);
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const stdin = this.#child?.stdin;
    if (this.#isClosing || stdin === null || stdin === undefined || !stdin.writable)
      throw new Error("the process does not take messages any more");
    const text = this.#serialize(message);
    await new Promise<void>((resolve, reject) => {
      stdin.write(text, (error) => (error ? reject(error) : resolve()));
    });
  }

  /** Resolves when nothing of the process is left. */
  close(): Promise<void> {
    this.#ended ??= this.#end();
    return this.#ended;
  }

  /** What the process wrote last is read before the connection counts as closed. */
  async #end(): Promise<void> {
    const child = this.#child;
    this.#isClosing = true;
    if (child?.pid !== undefined)
      await endProcessGroup(child, { graceMs: this.#options.graceMs ?? GRACE_MS });
    await Promise.race([this.#drained, delay(DRAIN_LIMIT_MS, undefined, { ref: false })]);
    this.#isDeaf = true;
    for (const stream of [child?.stdin, child?.stdout, child?.stderr]) stream?.destroy();
    this.#buffer.clear();
    this.onclose?.();
  }

  #watch(child: ChildProcess): void {
    const forget = child.pid === undefined ? () => undefined : killAtExit(child.pid);
    this.#drained = new Promise((resolve) => {
      child.once("close", () => resolve());
      child.once("error", () => resolve());
    });
    child.once("exit", (code, signal) => {
      this.reason ??= `the process ended with ${signal === null ? `code ${code}` : `the signal ${signal}`}`;
      void this.close().finally(forget);
    });
    child.on("error", (error) => {
      this.reason ??= `the process cannot be run: ${error.message}`;
      this.onerror?.(error);
    });
    for (const stream of [child.stdin, child.stdout, child.stderr])
      stream?.on("error", (error) => this.onerror?.(error));
    child.stdout?.on("data", (chunk: Buffer) => this.#read(chunk));
    child.stderr?.on("data", (chunk: Buffer) => this.#options.stderr.add(chunk));
  }

  #read(chunk: Buffer): void {
    if (this.#isDeaf) return;
    try {
      this.#buffer.append(chunk);
    } catch {
      this.#isDeaf = true;
      this.reason ??= `it sent a message larger than ${this.#options.maxMessageBytes} bytes`;
      void this.close();
      return;
    }
    for (let isMore = true; isMore; ) isMore = this.#readMessage();
  }

  /** False when no whole message is left. What is no message is passed over. */
  #readMessage(): boolean {
    try {
      const message = this.#buffer.readMessage();
      if (message === null) return false;
      this.onmessage?.(message);
    } catch (thrown) {
      this.onerror?.(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
    return true;
  }
}

function inherited(): Record<string, string> {
  const found = INHERITED.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return Object.fromEntries(found);
}

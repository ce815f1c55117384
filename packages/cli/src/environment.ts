// What a command has of the process it runs in. Nothing below it touches `process`.

import type { Readable } from "node:stream";
import type { ScreenOutput } from "./screen.ts";

export interface OutputStream extends ScreenOutput {
  readonly isTTY?: boolean;
  on(event: "resize", listener: () => void): unknown;
  off(event: "resize", listener: () => void): unknown;
}

export interface InputStream extends Readable {
  readonly isTTY?: boolean;
  setRawMode?(isRaw: boolean): unknown;
}

export interface Environment {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdin: InputStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  /** Calls back on SIGINT and SIGTERM instead of ending the process; the function takes that back. */
  onSignal(listener: (signal: "SIGINT" | "SIGTERM") => void): () => void;
  /** Ends the process at once. */
  exit(code: number): never;
}

// A terminal for tests: a real one underneath (a pty), and a screen that holds what a person would see.

import { setTimeout as sleep } from "node:timers/promises";
import { type IPty, spawn } from "@lydell/node-pty";
import headless from "@xterm/headless";
import { cleanEnv, program } from "./built-cli.ts";

export interface TerminalOptions {
  readonly cwd: string;
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: Readonly<Record<string, string>>;
}

const MOST_MS = 20_000;

export class TestTerminal {
  readonly #pty: IPty;
  readonly #screen: InstanceType<typeof headless.Terminal>;
  /** Everything that was written, escapes included. */
  raw = "";
  exitCode: number | undefined;

  constructor(args: readonly string[], { cwd, columns = 80, rows = 30, env = {} }: TerminalOptions) {
    this.#screen = new headless.Terminal({ cols: columns, rows, scrollback: 1_000, allowProposedApi: true });
    this.#pty = spawn(process.execPath, [program, ...args], {
      cols: columns,
      rows,
      cwd,
      env: cleanEnv(cwd, env),
      name: "xterm-256color",
    });
    this.#pty.onData((data) => {
      this.raw += data;
      this.#screen.write(data);
    });
    this.#pty.onExit(({ exitCode }) => {
      this.exitCode = exitCode;
    });
  }

  get pid(): number {
    return this.#pty.pid;
  }

  type(text: string): void {
    this.#pty.write(text);
  }

  resize(columns: number, rows: number): void {
    this.#screen.resize(columns, rows);
    this.#pty.resize(columns, rows);
  }

  kill(): void {
    process.kill(this.pid, "SIGKILL");
  }

  /** Everything from the first row of the scrollback to the last, without blanks at the ends of rows. */
  text(): string {
    const { buffer } = this.#screen;
    const rows: string[] = [];
    for (let at = 0; at < buffer.active.length; at += 1)
      rows.push(buffer.active.getLine(at)?.translateToString(true) ?? "");
    return rows.join("\n").trimEnd();
  }

  get cursor(): { readonly column: number; readonly row: string } {
    const { active } = this.#screen.buffer;
    const row = active.getLine(active.baseY + active.cursorY)?.translateToString(true) ?? "";
    return { column: active.cursorX, row };
  }

  /** Waits until the screen shows something. */
  async until(shows: string | RegExp | ((text: string) => boolean)): Promise<string> {
    const late = performance.now() + MOST_MS;
    for (;;) {
      const text = this.text();
      if (matches(text, shows)) return text;
      if (performance.now() > late)
        throw new Error(`expected ${String(shows)} on the screen, found:\n${text}`);
      await sleep(20);
    }
  }

  async exited(): Promise<number> {
    const late = performance.now() + MOST_MS;
    while (this.exitCode === undefined) {
      if (performance.now() > late) throw new Error(`expected the process to end, found:\n${this.text()}`);
      await sleep(20);
    }
    return this.exitCode;
  }

  /** Resolves when the process is gone: a pty that tells of it in a thread that has ended takes all others along. */
  async close(): Promise<void> {
    try {
      if (this.exitCode === undefined) this.kill();
    } catch {
      // It is gone, and about to be told so.
    }
    await this.exited();
    this.#screen.dispose();
  }
}

function matches(text: string, shows: string | RegExp | ((text: string) => boolean)): boolean {
  if (typeof shows === "string") return text.includes(shows);
  return typeof shows === "function" ? shows(text) : shows.test(text);
}

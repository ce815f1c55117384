// The commands of one owner: a session, or whoever made the tools.
//   SH10  when the owner ends, all its commands end, and nothing is started any more.
//   SH11  a command in the background is known by a random handle, to its own session only; a handle of a process that
//         is gone is unknown.
//   SH12  commands in the background are limited in number; of those that have ended the latest are kept.

import { randomBytes } from "node:crypto";
import type { ShellLimits } from "./shell-options.ts";
import { ShellProcess } from "./shell-process.ts";
import { SpillFolder } from "./spill-folder.ts";

export interface BackgroundShell {
  readonly id: string;
  readonly sessionId: string;
  readonly command: string;
  readonly process: ShellProcess;
}

export interface ShellCommand {
  readonly command: string;
  readonly cwd: string;
}

/** Told of every command in the background before its handle is. */
export type OnBackground = (shell: BackgroundShell) => Promise<void>;

const ENDED_KEPT = 16;

export class ShellProcesses {
  readonly limits: ShellLimits;
  readonly #spills: SpillFolder;
  readonly #onBackground: OnBackground;
  readonly #live = new Set<ShellProcess>();
  readonly #background = new Map<string, BackgroundShell>();
  #closed: Promise<void> | undefined;

  constructor(limits: ShellLimits, onBackground: OnBackground = async () => undefined) {
    const { spillFolder, spillBytes, spillFiles } = limits;
    this.limits = limits;
    this.#spills = new SpillFolder({ folder: spillFolder, limitBytes: spillBytes, maxFiles: spillFiles });
    this.#onBackground = onBackground;
  }

  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Starts a command. Rejects when it cannot be started. */
  async start({ command, cwd }: ShellCommand): Promise<ShellProcess> {
    const { limits } = this;
    const process = await ShellProcess.start({ command, cwd, limits, spills: this.#spills });
    this.#live.add(process);
    void process.ended.then(() => this.#live.delete(process));
    if (this.isClosed) await process.stop();
    return process;
  }

  async startBackground(sessionId: string, wanted: ShellCommand): Promise<BackgroundShell> {
    const process = await this.start(wanted);
    const id = `sh_${randomBytes(6).toString("hex")}`;
    const shell: BackgroundShell = { id, sessionId, command: wanted.command, process };
    this.#background.set(id, shell);
    try {
      await this.#onBackground(shell);
    } catch (thrown) {
      this.#background.delete(id);
      await process.stop();
      throw thrown;
    }
    this.#forgetEnded(sessionId);
    return shell;
  }

  find(sessionId: string, id: string): BackgroundShell | undefined {
    const shell = this.#background.get(id);
    return shell?.sessionId === sessionId ? shell : undefined;
  }

  running(sessionId: string): readonly BackgroundShell[] {
    return this.#of(sessionId).filter(({ process }) => process.exit === undefined);
  }

  /** Ends all commands and removes their files, those in a folder that was given excepted. */
  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    await Promise.all([...this.#live].map((process) => process.stop()));
    await this.#spills.remove();
  }

  #of(sessionId: string): readonly BackgroundShell[] {
    return [...this.#background.values()].filter((shell) => shell.sessionId === sessionId);
  }

  #forgetEnded(sessionId: string): void {
    const ended = this.#of(sessionId).filter(({ process }) => process.exit !== undefined);
    for (const { id } of ended.slice(0, -ENDED_KEPT)) this.#background.delete(id);
  }
}

// Tells a session that its tools moved, so that a turn that runs sees it in its next round.
//   MC42  of changes that come together the session reads the last; a change of state that moves no tool is none.

import type { ToolProvider } from "../../index.ts";

export interface RefreshOptions {
  listen(moved: () => void): () => void;
  /** Makes the session read its tools again. */
  refresh(): Promise<unknown>;
}

export class ToolsRefresh {
  readonly #tools: Pick<ToolProvider, "manifests">;
  readonly #options: RefreshOptions;
  readonly #unlisten: () => void;
  #shown: unknown;
  #isRunning = false;
  #isStopped = false;

  constructor(tools: Pick<ToolProvider, "manifests">, options: RefreshOptions) {
    this.#tools = tools;
    this.#options = options;
    this.#shown = tools.manifests();
    this.#unlisten = options.listen(() => void this.#run());
  }

  stop(): void {
    this.#isStopped = true;
    this.#unlisten();
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    while (!this.#isStopped && this.#tools.manifests() !== this.#shown) {
      this.#shown = this.#tools.manifests();
      // A session that is closing, or that another process has, reads its tools when it is used again.
      await this.#options.refresh().catch(() => undefined);
    }
    this.#isRunning = false;
  }
}

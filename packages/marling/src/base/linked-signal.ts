/** A signal that is aborted with another one, or on its own account. Most are never looked at: it is made when one is. */
export class LinkedSignal {
  readonly #parent: AbortSignal;
  #controller: AbortController | undefined;
  /** Set when it no longer follows the other one, with whether that was aborted by then. */
  #released: { readonly isAborted: boolean } | undefined;

  constructor(parent: AbortSignal) {
    this.#parent = parent;
  }

  get signal(): AbortSignal {
    return this.#made().signal;
  }

  abort(reason: unknown): void {
    this.#made().abort(reason);
  }

  /** From here on it no longer follows the other one, and nothing of it is left there. */
  release(): void {
    this.#released ??= { isAborted: this.#parent.aborted };
    if (this.#controller !== undefined) this.#parent.removeEventListener("abort", this.#follow);
  }

  #made(): AbortController {
    if (this.#controller !== undefined) return this.#controller;
    this.#controller = new AbortController();
    const { isAborted } = this.#released ?? { isAborted: this.#parent.aborted };
    if (isAborted) this.#follow();
    else if (this.#released === undefined)
      this.#parent.addEventListener("abort", this.#follow, { once: true });
    return this.#controller;
  }

  readonly #follow = (): void => this.#controller?.abort(this.#parent.reason);
}

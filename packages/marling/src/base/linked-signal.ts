/** A signal that is aborted with another one, or on its own account. */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  abort(reason: unknown): void;
  /** From here on it no longer follows the other one, and nothing of it is left there. */
  release(): void;
}

export function linkSignal(parent: AbortSignal): LinkedSignal {
  const controller = new AbortController();
  const follow = (): void => controller.abort(parent.reason);
  if (parent.aborted) follow();
  else parent.addEventListener("abort", follow, { once: true });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    release: () => parent.removeEventListener("abort", follow),
  };
}

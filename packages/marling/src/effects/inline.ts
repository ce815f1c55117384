import type { EffectHost } from "./contract.ts";

/** Performs every effect at once and remembers nothing: for tests, and for stores that do not outlive the process. */
export function inlineEffects(): EffectHost {
  return { run: (_request, perform, options) => perform(options?.plan) };
}

// Model fallback: a call that one model cannot answer is made with the next one.
//   MF1  failures that pass are tried again on the same model first, as the runtime does by itself; then the next model is
//        asked. Failures that do not pass go to the next model at once.
//   MF2  each call begins with the session's model; when all have failed, the last failure stands.

import { definePlugin, type ModelFailureKind, type Plugin } from "../../index.ts";
import type { ModelErrorDecision, ModelErrorHookContext } from "../../plugin/index.ts";
import { aPositiveCount, checkOptions, texts } from "../check-options.ts";

export interface ModelFallbackOptions {
  /** Names of the runtime's models, in the order in which they are asked. */
  readonly models: readonly string[];
  /** How often a model is asked when its failures pass; 2 by default. */
  readonly tries?: number;
  /** The failures that another model may not have. */
  readonly on?: readonly ModelFailureKind[];
}

const ID = "model_fallback";
const KINDS: readonly ModelFailureKind[] = [
  "rate_limit",
  "overloaded",
  "auth",
  "network",
  "timeout",
  "truncated_stream",
  "unknown",
];
const ALL_KINDS: readonly ModelFailureKind[] = [
  ...KINDS,
  "context_overflow",
  "content_filter",
  "invalid_request",
  "answer_limit",
];

/** Goes on with other models when one fails. */
export function modelFallback(options: ModelFallbackOptions): Plugin {
  checkOptions(ID, options, {
    models: (value) =>
      texts(value) === undefined && (value as readonly string[]).length > 0
        ? undefined
        : "names of models, at least one",
    tries: aPositiveCount,
    on: (value) =>
      Array.isArray(value) && value.every((kind) => ALL_KINDS.includes(kind))
        ? undefined
        : `an array of ${ALL_KINDS.join(", ")}`,
  });
  if (options.models === undefined)
    checkOptions<{ models?: unknown }>(ID, { models: null }, { models: texts });
  const { models, tries = 2, on = KINDS } = options;
  return definePlugin({
    id: ID,
    build() {
      let asked = 0;
      const onError = ({
        attempt,
        model,
        failure,
      }: ModelErrorHookContext): ModelErrorDecision | undefined => {
        asked = attempt === 1 ? 1 : asked + 1;
        if (!on.includes(failure.kind)) return undefined;
        if (failure.retryable && asked < tries) return { kind: "retry" };
        const next = models[models.indexOf(model) + 1];
        if (next === undefined || next === model) return { kind: "fail" };
        asked = 0;
        return { kind: "fall_back", model: next };
      };
      return { model: { error: onError } };
    },
  })();
}

// A model of the AI SDK whose requests go through a `fetch` of ours. The provider packages keep their `fetch` under `config`;
// a model that does not is called as it is, and then only what it hands on can be counted.
//   LA24  what a provider holds of one event, or of a refusal, is bounded.
//   LA25  the keys that a request went out with are known, so that no failure repeats them.

import type { AnswerLimits } from "../../model/answer-limits.ts";
import type { ModelFailure } from "../../model/model-response.ts";
import { eventTooLong } from "../answer-bytes.ts";
import { boundedFetch } from "../bounded-fetch.ts";
import { membersOf } from "../members-of.ts";
import type { AiSdkLanguageModel } from "./language-model.ts";

type Fetch = typeof globalThis.fetch;

/** One call's way to its provider. */
export class GuardedCall {
  readonly #limits: AnswerLimits;
  #failure: ModelFailure | undefined;
  /** The headers and addresses that requests went out with. */
  readonly sent: { readonly headers: unknown; readonly url: string }[] = [];

  constructor(limits: AnswerLimits) {
    this.#limits = limits;
  }

  /** There when the provider was sent more than it may hold. */
  get failure(): ModelFailure | undefined {
    return this.#failure;
  }

  doStream(model: AiSdkLanguageModel, call: object): ReturnType<AiSdkLanguageModel["doStream"]> {
    const config = UNGUARDED.has(model) ? undefined : configOf(model);
    if (config === undefined) return model.doStream(call);
    const { fetch = (input, init) => globalThis.fetch(input, init) } = config;
    const guarded = Object.create(model, { config: { value: { ...config, fetch: this.#guard(fetch) } } });
    return Promise.resolve((guarded as AiSdkLanguageModel).doStream(call)).catch((thrown: unknown) => {
      if (!isPrivateAccess(thrown) || this.sent.length > 0) throw thrown;
      UNGUARDED.add(model);
      return model.doStream(call);
    });
  }

  #guard(fetch: Fetch): Fetch {
    const bounded = boundedFetch(fetch, {
      limits: this.#limits,
      onTooLong: () => {
        this.#failure = eventTooLong(this.#limits);
        return new Error(this.#failure.message);
      },
    });
    return (input, init) => {
      this.sent.push({ headers: init?.headers, url: String(input instanceof Request ? input.url : input) });
      return bounded(input, init);
    };
  }
}

interface ProviderConfig {
  readonly fetch?: Fetch;
}

/** Models with fields that only they themselves can read: what is derived from them does not work. */
const UNGUARDED = new WeakSet<AiSdkLanguageModel>();

function isPrivateAccess(thrown: unknown): boolean {
  return thrown instanceof TypeError && /private/.test(thrown.message);
}

/** What a provider package made its model with, where that is as those packages have it. */
function configOf(model: AiSdkLanguageModel): ProviderConfig | undefined {
  const { config } = membersOf(model);
  if (typeof config !== "object" || config === null || Object.getPrototypeOf(config) !== Object.prototype)
    return undefined;
  const { provider, fetch } = membersOf(config);
  const isFetch = fetch === undefined || fetch === null || typeof fetch === "function";
  return typeof provider === "string" && isFetch ? dropNull(config) : undefined;
}

function dropNull(config: object): ProviderConfig {
  const { fetch, ...rest } = config as { readonly fetch?: Fetch | null };
  return fetch === undefined || fetch === null ? rest : { ...rest, fetch };
}

// A model of the AI SDK whose requests go through a `fetch` of ours. The provider packages keep their `fetch` under `config`;
// a model that does not is called as it is, and then only what it hands on can be counted.
//   LA24  what a provider holds of one event, or of a refusal, is bounded.
//   LA25  the keys that a request went out with are known, so that no failure repeats them.

import { secretsInHeaders, secretsInUrl } from "../../base/secrets.ts";
import type { AnswerLimits } from "../../model/answer-limits.ts";
import type { ModelFailure, ModelOutcome } from "../../model/model-response.ts";
import { shownFailure } from "../../model/shown-failure.ts";
import { AnswerLimitReached, eventTooLong } from "../answer-bytes.ts";
import { boundedFetch } from "../bounded-fetch.ts";
import { membersOf } from "../members-of.ts";
import type { AiSdkLanguageModel } from "./language-model.ts";

type Fetch = typeof globalThis.fetch;

/** One call's way to its provider. */
export class GuardedCall {
  readonly #limits: AnswerLimits;
  #failure: ModelFailure | undefined;
  /** The headers and addresses that requests went out with. */
  readonly sent: { readonly headers: RequestInit["headers"]; readonly url: string }[] = [];

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

  /** The outcome without the keys of the request, as far as they are known or in what was thrown. */
  shown(outcome: ModelOutcome, thrown?: unknown): ModelOutcome {
    if (outcome.kind === "response") return outcome;
    const sent = this.sent.flatMap(({ headers, url }) => [
      ...secretsInHeaders(new Headers(headers)),
      ...secretsInUrl(url),
    ]);
    return { kind: "failure", failure: shownFailure(outcome.failure, [...sent, ...secretsInError(thrown)]) };
  }

  #guard(fetch: Fetch): Fetch {
    const bounded = boundedFetch(fetch, {
      limits: this.#limits,
      onTooLong: () => {
        this.#failure = eventTooLong(this.#limits);
        return new AnswerLimitReached(this.#failure.message);
      },
    });
    return (input, init) => {
      this.sent.push({ headers: init?.headers, url: String(input instanceof Request ? input.url : input) });
      return bounded(input, init);
    };
  }
}

/** How deep an error is looked through for what was sent: causes, and requests in them. */
const DEEPEST = 6;

/** Keys that an error has with it: providers keep the request's headers and address there. */
function secretsInError(thrown: unknown, depth = 0): readonly string[] {
  if (typeof thrown !== "object" || thrown === null || depth > DEEPEST) return [];
  const { requestHeaders, headers, url, request, config, options, cause } = membersOf(thrown);
  const own = [requestHeaders, headers].flatMap((given) => secretsInHeaders(headerEntries(given)));
  const below = [request, config, options, cause].flatMap((part) => secretsInError(part, depth + 1));
  return [...own, ...(typeof url === "string" ? secretsInUrl(url) : []), ...below];
}

function headerEntries(headers: unknown): readonly (readonly [string, string])[] {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(membersOf(headers));
  return entries.flatMap(([name, value]) => (typeof value === "string" ? [[name, value] as const] : []));
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

// What the native models are made with, checked where they are made.
//   LN11  a key of the environment goes to the provider's own address only, and only when no key is given.

import { MarlingError } from "../../base/errors.ts";
import { fetchTarget } from "./fetch-post.ts";
import { httpTarget } from "./http-post.ts";
import { lowerCased } from "./native-model.ts";
import type { CallTimeouts, NativeModelOptions } from "./native-model-options.ts";
import { DEFAULT_TIMEOUTS, type PostTarget } from "./post.ts";

/** What is the provider's, beside what is given. */
export interface ProviderDefaults {
  readonly baseUrl: string;
  readonly path: string;
  readonly keyVariable: string;
  /** Headers that hold a key, any of which is enough. */
  keyHeaders(apiKey: string): Readonly<Record<string, string>>;
}

/** Where a model is, and what opens its door. */
export interface ModelAddress {
  readonly isOfficial: boolean;
  readonly target: PostTarget;
  readonly headers: Readonly<Record<string, string>>;
}

const BASE_HEADERS = {
  "content-type": "application/json",
  accept: "text/event-stream",
  "user-agent": "marling",
};

/** A timer that is to wait longer goes off at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** The address that the options describe. Throws where they are wrong, and never with a key in the message. */
export function addressOf(options: NativeModelOptions, provider: ProviderDefaults): ModelAddress {
  checkOptions(options);
  const base = baseUrlOf(options.baseUrl ?? provider.baseUrl);
  const isOfficial = base.origin === new URL(provider.baseUrl).origin;
  const given = lowerCased(options.headers ?? {});
  const apiKey = options.apiKey ?? (isOfficial ? process.env[provider.keyVariable]?.trim() : undefined);
  if (apiKey) checkKey(apiKey);
  else if (isOfficial && !("authorization" in given || "x-api-key" in given)) throw missingKey(provider);
  const headers = { ...BASE_HEADERS, ...(apiKey ? provider.keyHeaders(apiKey) : {}), ...given };
  const url = new URL(base); // A path that begins with two slashes would be another server's if it were resolved.
  url.pathname = `${base.pathname.replace(/\/+$/, "")}${provider.path}`;
  url.hash = "";
  return { isOfficial, target: targetOf(url, options), headers };
}

function targetOf(url: URL, { fetch, timeouts }: NativeModelOptions): PostTarget {
  const limits = timeoutsOf(timeouts);
  const { idleMs } = limits;
  return fetch === undefined ? httpTarget(url, limits) : fetchTarget(url, { fetch, idleMs });
}

/** All time limits, those that are not given included. */
export function timeoutsOf({ connectMs, idleMs }: CallTimeouts = {}): Required<CallTimeouts> {
  checkCounts({ connectMs, idleMs });
  return {
    connectMs: Math.min(connectMs ?? DEFAULT_TIMEOUTS.connectMs, LONGEST_MS),
    idleMs: Math.min(idleMs ?? DEFAULT_TIMEOUTS.idleMs, LONGEST_MS),
  };
}

function checkOptions(options: NativeModelOptions): void {
  const { model, headers = {}, contextWindow, maxOutputTokens, fetch } = options;
  if (typeof model !== "string" || model.trim() === "") throw refuse("model", "the name of a model");
  if (fetch !== undefined && typeof fetch !== "function") throw refuse("fetch", "a function");
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value !== "string") throw refuse(`headers.${name}`, "a text");
  }
  checkCounts({ contextWindow, maxOutputTokens });
}

function checkCounts(counts: { readonly [name: string]: number | undefined }): void {
  for (const [name, value] of Object.entries(counts)) {
    if (value !== undefined && !(Number.isSafeInteger(value) && value > 0)) {
      throw refuse(name, `a whole number from 1, found ${String(value)}`);
    }
  }
}

function baseUrlOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw refuse("baseUrl", "an address that begins with http:// or https://");
  }
  if (url.username !== "" || url.password !== "") {
    throw refuse("baseUrl", "an address without a user and a password; keys belong in `apiKey` or `headers`");
  }
  return url;
}

function checkKey(apiKey: string): void {
  if (typeof apiKey !== "string" || !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw refuse("apiKey", "letters, digits and signs without spaces");
  }
}

function missingKey({ keyVariable }: ProviderDefaults): MarlingError {
  return refuse("apiKey", `a key, here or in the environment as ${keyVariable}; found none`);
}

/** Never with what was found where that may be a key. */
function refuse(option: string, expected: string): MarlingError {
  return new MarlingError("invalid_options", `option ${option}: expected ${expected}`, {
    details: { option },
  });
}

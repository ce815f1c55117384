// What a provider's error is: its kind, whether trying again helps, and when.
//   LA5  the words of a provider for its error come before the status, and the status before the name of the error.
//   LA6  what a provider says of coming back is kept.

import { messageOf } from "../base/errors.ts";
import type { Json } from "../model/json.ts";
import type { ModelFailure, ModelFailureKind } from "../model/model-response.ts";
import { membersOf } from "./members-of.ts";
import { header, retryAfterMs } from "./retry-after.ts";

/** What is known of an error. */
interface Evidence {
  readonly message: string;
  /** The names of the errors from the thrown one to the deepest cause, and their codes. */
  readonly names: readonly string[];
  readonly status: number | undefined;
  /** How the provider calls it: types, codes and statuses of its body. */
  readonly words: readonly string[];
  readonly headers: unknown;
  readonly body: string | undefined;
  readonly isRetryable: boolean | undefined;
}

const RETRYABLE: ReadonlySet<ModelFailureKind> = new Set([
  "rate_limit",
  "overloaded",
  "network",
  "timeout",
  "truncated_stream",
]);

/** What these words mean, whatever the status is. */
const WORDS: { readonly [word: string]: ModelFailureKind } = {
  authentication_error: "auth",
  billing_error: "auth",
  invalid_api_key: "auth",
  permission_denied: "auth",
  permission_error: "auth",
  unauthenticated: "auth",
  content_filter: "content_filter",
  content_policy_violation: "content_filter",
  context_length_exceeded: "context_overflow",
  request_too_large: "context_overflow",
  overloaded: "overloaded",
  overloaded_error: "overloaded",
  unavailable: "overloaded",
  insufficient_quota: "rate_limit",
  rate_limit_error: "rate_limit",
  rate_limit_exceeded: "rate_limit",
  resource_exhausted: "rate_limit",
  deadline_exceeded: "timeout",
  timeout_error: "timeout",
};

/** Words that stand for much; a status that says more comes before them. */
const VAGUE_WORDS: { readonly [word: string]: ModelFailureKind } = {
  api_error: "overloaded",
  internal: "overloaded",
  internal_error: "overloaded",
  server_error: "overloaded",
  invalid_argument: "invalid_request",
  invalid_prompt: "invalid_request",
  invalid_request_error: "invalid_request",
  model_not_found: "invalid_request",
  not_found: "invalid_request",
  not_found_error: "invalid_request",
};

/** Waiting does not help an account without money. */
const FINAL_WORDS: ReadonlySet<string> = new Set(["insufficient_quota", "billing_error"]);

const STATUSES: { readonly [status: number]: ModelFailureKind } = {
  401: "auth",
  402: "auth",
  403: "auth",
  408: "timeout",
  409: "overloaded",
  413: "context_overflow",
  429: "rate_limit",
  504: "timeout",
};

const NAMES: { readonly [name: string]: ModelFailureKind } = {
  AI_EmptyResponseBodyError: "truncated_stream",
  AI_InvalidResponseDataError: "truncated_stream",
  AI_JSONParseError: "truncated_stream",
  AI_NoContentGeneratedError: "truncated_stream",
  AI_InvalidArgumentError: "invalid_request",
  AI_InvalidPromptError: "invalid_request",
  AI_NoSuchModelError: "invalid_request",
  AI_UnsupportedFunctionalityError: "invalid_request",
  AI_LoadAPIKeyError: "auth",
  AI_LoadSettingError: "auth",
  AnswerLimitReached: "answer_limit",
  AbortError: "timeout",
  TimeoutError: "timeout",
  ETIMEDOUT: "timeout",
  UND_ERR_BODY_TIMEOUT: "timeout",
  UND_ERR_CONNECT_TIMEOUT: "timeout",
  UND_ERR_HEADERS_TIMEOUT: "timeout",
  ECONNABORTED: "network",
  ECONNREFUSED: "network",
  ECONNRESET: "network",
  EAI_AGAIN: "network",
  ENETUNREACH: "network",
  EHOSTUNREACH: "network",
  ENOTFOUND: "network",
  EPIPE: "network",
  UND_ERR_SOCKET: "network",
};

const OVERFLOW =
  /context.?(?:length|window|size|limit)|prompt is too long|input is too long|maximum (?:context|prompt)|input token count|reduce the length|exceeds? the (?:model's )?max(?:imum)?(?: number of)? (?:input )?tokens/i;
const KEY_REFUSED = /api.?key (?:is )?(?:not valid|invalid|expired|missing)|(?:invalid|incorrect) api.?key/i;
const FILTERED = /content (?:management )?(?:filter|policy)|safety system|blocked by .*(?:safety|policy)/i;
const CONNECTION = /fetch failed|failed to fetch|cannot connect|socket|terminated|other side closed|network/i;

/** The failure that an error of a provider, or of the way to it, is. */
export function failureOf(thrown: unknown): ModelFailure {
  const evidence = evidenceOf(thrown);
  const kind = kindOf(evidence);
  const waitMs = RETRYABLE.has(kind) ? retryAfterMs(evidence.headers, evidence.body) : undefined;
  const raw = rawOf(evidence);
  return {
    kind,
    message: evidence.message,
    retryable: isRetryable(kind, evidence),
    ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }),
    ...(raw === undefined ? {} : { raw }),
  };
}

/** The failure of a call that was cancelled. */
export function cancelled(): ModelFailure {
  return { kind: "cancelled", message: "the call was cancelled", retryable: false };
}

function kindOf(evidence: Evidence): ModelFailureKind {
  const { names, status, words } = evidence;
  const message = evidence.message.slice(0, LONGEST_READ);
  const named = words.map((word) => WORDS[word]).find((kind) => kind !== undefined);
  const kind = named ?? refusalIn(evidence) ?? (status === undefined ? undefined : STATUSES[status]);
  if (kind !== undefined) return kind;
  const vague = words.map((word) => VAGUE_WORDS[word]).find((found) => found !== undefined);
  if (vague !== undefined) return vague;
  if (status !== undefined && status >= 400) return status >= 500 ? "overloaded" : "invalid_request";
  const known = names.map((name) => NAMES[name]).filter((found) => found !== undefined);
  return known.at(-1) ?? (CONNECTION.test(message) ? "network" : "unknown");
}

/** Providers that have no word for it say in a sentence why they refuse a request. */
function refusalIn(evidence: Evidence): ModelFailureKind | undefined {
  const { status } = evidence;
  const message = evidence.message.slice(0, LONGEST_READ);
  if (status !== undefined && status !== 400 && status !== 413 && status !== 422) return undefined;
  if (OVERFLOW.test(message)) return "context_overflow";
  if (KEY_REFUSED.test(message)) return "auth";
  return FILTERED.test(message) ? "content_filter" : undefined;
}

function isRetryable(kind: ModelFailureKind, { words, headers, isRetryable: said }: Evidence): boolean {
  if (words.some((word) => FINAL_WORDS.has(word))) return false;
  const asked = header(headers, "x-should-retry");
  if (asked === "true" || asked === "false") return asked === "true";
  return RETRYABLE.has(kind) || (kind === "unknown" && said === true);
}

function evidenceOf(thrown: unknown): Evidence {
  const { statusCode, responseHeaders, responseBody, isRetryable: said, data } = membersOf(thrown);
  const body = typeof responseBody === "string" ? responseBody : undefined;
  const causes = causesOf(thrown);
  return {
    message: messageIn(thrown),
    names: causes.flatMap(({ name, code }) => [name, code].filter((word) => typeof word === "string")),
    status: typeof statusCode === "number" ? statusCode : undefined,
    words: [...wordsIn(thrown), ...wordsIn(data), ...wordsIn(parsed(body))],
    headers: responseHeaders,
    body,
    isRetryable: typeof said === "boolean" ? said : undefined,
  };
}

/** An error and what caused it; a cause that comes again ends the list. */
function causesOf(thrown: unknown): readonly { readonly [name: string]: unknown }[] {
  const found = new Set<unknown>();
  let current = thrown;
  while (typeof current === "object" && current !== null && !found.has(current)) {
    found.add(current);
    current = membersOf(current).cause;
  }
  return [...found].map(membersOf);
}

/** How an error body names its error, at the top, in `error`, or in the response that failed. */
function wordsIn(raw: unknown): readonly string[] {
  const body = membersOf(raw);
  const places = [body, membersOf(body.error), membersOf(membersOf(body.response).error)];
  return places
    .flatMap(({ code, type, status }) => [code, type, status])
    .filter((word) => typeof word === "string")
    .map((word) => word.toLowerCase());
}

/** Longer messages are not looked through: they are cut where they are shown. */
const LONGEST_READ = 16_384;

function messageIn(thrown: unknown): string {
  if (thrown instanceof Error || typeof thrown !== "object") return messageOf(thrown);
  const { message, error } = membersOf(thrown);
  const text = [message, membersOf(error).message, error].find((found) => typeof found === "string");
  return typeof text === "string" ? text : "the provider reported an error";
}

function parsed(body: string | undefined): unknown {
  if (body === undefined) return undefined;
  try {
    return JSON.parse(body);
  } catch {
    return undefined; // An error page, of which the status says what there is to know.
  }
}

/** For operators: what the provider said, without what was sent to it. */
function rawOf({ status, words, headers }: Evidence): Json | undefined {
  const requestId = header(headers, "x-request-id") ?? header(headers, "request-id");
  const raw = {
    ...(status === undefined ? {} : { status }),
    ...(words.length === 0 ? {} : { words: [...new Set(words)] }),
    ...(requestId === undefined ? {} : { requestId }),
  };
  return Object.keys(raw).length === 0 ? undefined : raw;
}

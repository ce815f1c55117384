// What the errors of providers come to.

import { describe, expect, test } from "vitest";
import { failureOf } from "../../src/llm/failure.ts";
import { retryAfterMs } from "../../src/llm/retry-after.ts";
import type { ModelFailureKind } from "../../src/model/model-response.ts";

type Row = readonly [title: string, thrown: unknown, kind: ModelFailureKind, retryable: boolean];

const api = (statusCode: number | undefined, body: object, message = "refused"): Error =>
  Object.assign(new Error(message), {
    name: "AI_APICallError",
    statusCode,
    responseBody: JSON.stringify(body),
  });

const named = (name: string, message = "broken"): Error => Object.assign(new Error(message), { name });

const coded = (code: string): Error =>
  new TypeError("fetch failed", { cause: Object.assign(new Error("connect"), { code }) });

const ROWS: readonly Row[] = [
  ["401", api(401, {}), "auth", false],
  ["402", api(402, {}), "auth", false],
  ["403", api(403, {}), "auth", false],
  ["404", api(404, { error: { type: "not_found_error" } }), "invalid_request", false],
  ["408", api(408, {}), "timeout", true],
  ["409", api(409, {}), "overloaded", true],
  ["413", api(413, {}), "context_overflow", false],
  ["422", api(422, {}), "invalid_request", false],
  ["429", api(429, {}), "rate_limit", true],
  ["500", api(500, {}), "overloaded", true],
  ["504", api(504, {}), "timeout", true],
  ["529", api(529, {}), "overloaded", true],
  ["a quota that is used up", api(429, { error: { code: "insufficient_quota" } }), "rate_limit", false],
  ["a limit in a first chunk", api(500, { type: "rate_limit_error" }), "rate_limit", true],
  ["a filter with a code", api(400, { error: { code: "content_filter" } }), "content_filter", false],
  ["a filter in words", api(400, {}, "blocked by our safety system"), "content_filter", false],
  [
    "a window in words",
    api(400, {}, "the request exceeds the available context size"),
    "context_overflow",
    false,
  ],
  ["a limit of tokens per minute", api(429, {}, "maximum context length of your tier"), "rate_limit", true],
  ["a server error in a stream", { type: "server_error", message: "Oh." }, "overloaded", true],
  ["a failed response", { response: { error: { code: "rate_limit_exceeded" } } }, "rate_limit", true],
  ["a key that is missing", named("AI_LoadAPIKeyError"), "auth", false],
  ["a chunk that is no JSON", named("AI_JSONParseError"), "truncated_stream", true],
  ["an empty body", named("AI_EmptyResponseBodyError"), "truncated_stream", true],
  ["a chunk of an unknown shape", named("AI_TypeValidationError"), "unknown", false],
  ["a refused connection", coded("ECONNREFUSED"), "network", true],
  ["a name that is not known", coded("ENOTFOUND"), "network", true],
  ["headers that do not come", coded("UND_ERR_HEADERS_TIMEOUT"), "timeout", true],
  ["a connection that ends", new TypeError("terminated"), "network", true],
  ["a time limit of the host", named("TimeoutError"), "timeout", true],
  ["anything else", new Error("hm"), "unknown", false],
];

describe("kinds", () => {
  test.each(ROWS)("[LA5] %s", (_title, thrown, kind, retryable) => {
    expect(failureOf(thrown)).toMatchObject({ kind, retryable });
  });
});

test("[LA5] a provider that says whether to try again is believed", () => {
  const error = (said: string): object =>
    Object.assign(api(500, {}), { responseHeaders: { "x-should-retry": said } });
  expect(failureOf(error("false")).retryable).toBe(false);
  expect(
    failureOf(Object.assign(api(400, {}), { responseHeaders: { "x-should-retry": "true" } })).retryable,
  ).toBe(true);
});

test("[LA5] causes that go in a circle come to an end", () => {
  const error: Error & { cause?: unknown } = new Error("round");
  error.cause = error;
  expect(failureOf(error).kind).toBe("unknown");
});

test("[LA5] what was sent is not in the failure", () => {
  const error = Object.assign(api(400, { error: { code: "odd", message: "no" } }), {
    requestBodyValues: { prompt: "secret" },
    responseHeaders: { "x-request-id": "req_1", "set-cookie": "secret" },
  });
  const failure = failureOf(error);
  expect(failure).toEqual({
    kind: "invalid_request",
    message: "refused",
    retryable: false,
    raw: { status: 400, words: ["odd"], requestId: "req_1" },
  });
});

test("[LA6] when to come back is read from headers and from Google's details", () => {
  const info =
    '{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay": "34.5s"}]}}';
  expect(retryAfterMs({ "Retry-After": "2" }, undefined)).toBe(2_000);
  expect(retryAfterMs({ "retry-after": "0.5" }, undefined)).toBe(500);
  expect(retryAfterMs({ "retry-after": "9", "retry-after-ms": "120" }, undefined)).toBe(120);
  expect(retryAfterMs({ "retry-after": "Thu, 01 Jan 1970 00:00:00 GMT" }, undefined)).toBe(0);
  expect(retryAfterMs({ "retry-after": "soon" }, undefined)).toBeUndefined();
  expect(retryAfterMs({}, info)).toBe(34_500);
  expect(retryAfterMs(undefined, undefined)).toBeUndefined();
});

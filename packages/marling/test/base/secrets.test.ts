// Keys in texts that servers wrote, known ones and those that look like keys.

import { describe, expect, test } from "vitest";
import { SecretFilter, secretsInHeaders, secretsInUrl } from "../../src/base/secrets.ts";

const KEY = "k3y/With+Signs=";
const filter = new SecretFilter([KEY]);
const base64 = (text: string): string => Buffer.from(text).toString("base64");

describe("a key that is known", () => {
  test.each([
    ["as it is", `Wrong key ${KEY}!`, "Wrong key [key]!"],
    ["in another case", `wrong key ${KEY.toLowerCase()}`, "wrong key [key]"],
    ["encoded for an address", `/v1?a=${encodeURIComponent(KEY)}&b=1`, "/v1?a=[key]&b=1"],
    ["in base64", `got ${base64(KEY)} there`, "got [key] there"],
    ["in base64 behind one byte", `got ${base64(`:${KEY}`)} there`, "got [key] there"],
    ["in base64 behind two bytes", `got ${base64(`a:${KEY}`)} there`, "got [key] there"],
    ["in base64 within more", `got ${base64(`user:${KEY}:more`)} there`, "got [key] there"],
    [
      "in base64 for addresses",
      `got ${Buffer.from(`??${KEY}>>`).toString("base64url")} there`,
      "got [key] there",
    ],
  ])("[SE1] %s is replaced", (_form, text, expected) => {
    expect(filter.text(text)).toBe(expected);
    expect(filter.text(expected)).toBe(expected);
  });
});

describe("a key that nobody knows", () => {
  const unknown = new SecretFilter();
  test.each([
    ["Authorization: Bearer abcdef123456", "Authorization: [key]"],
    ["use Bearer abcdef123456 please", "use Bearer [key] please"],
    ["sent Basic dXNlcjpwYXNz.", "sent Basic [key]"],
    ['{"authorization":"Custom abc def"}', '{"authorization":"[key]"}'],
    ['{"x-api-key":"abcdef123"}', '{"x-api-key":"[key]"}'],
    ["x-goog-api-key: abcdef123", "x-goog-api-key: [key]"],
    ["Incorrect API key provided: abcdef123.", "Incorrect API key provided: [key]"],
    ["no sk-ant-api03-abcdefgh here", "no [key] here"],
    ["AIzaSyA0123456789abcdefghijkl", "[key]"],
    ["GET /v1/models?key=abc123def&alt=sse", "GET /v1/models?key=[key]&alt=sse"],
    ["https://user:hunter22@host/path", "https://[key]@host/path"],
    ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdef", "[key]"],
  ])("[SE2] %s", (text, expected) => {
    expect(unknown.text(text)).toBe(expected);
    expect(unknown.text(expected)).toBe(expected);
  });

  test.each([
    "Bearer token is missing",
    "Bearer authentication is required",
    "This model's maximum context length is 8192 tokens.",
    "invalid x-api-key",
    "Invalid key: temperature",
    "the task-scheduler is overloaded",
    "model default: the port threw: ECONNRESET",
  ])("[SE2] %s stays as it is", (text) => {
    expect(unknown.text(text)).toBe(text);
  });
});

test("[SE1] secrets are found in headers and addresses, and short values are none", () => {
  const basic = `Basic ${base64("me:password1")}`;
  const found = secretsInHeaders(
    Object.entries({ authorization: basic, "x-api-key": "abcdefg", "x-key": "abc", accept: "text/plain" }),
  );
  expect(found).toContain("password1");
  expect(found).toContain("abcdefg");
  expect(found).not.toContain("abc");
  expect(found).not.toContain("text/plain");
  expect(secretsInUrl("https://me:pass%20word@h/?key=abcdefg&alt=something")).toEqual([
    "pass word",
    "abcdefg",
  ]);
});

test("[SE1] a text that is all keys, or all beginnings of keys, takes time that grows with the text alone", () => {
  const texts = ["Bearer ", "key=", "sk-", "Basic a", "//a:", "eyJ", "authorization:", KEY.slice(0, 8)];
  for (const text of texts) expect(filter.text(text.repeat(10_000)).length).toBeLessThanOrEqual(200_000);
});

import { expect, test } from "vitest";
import {
  type AttachmentSource,
  decodeAttachmentSource,
  encodeAttachmentSource,
} from "../../src/model/attachment.ts";
import type { Json } from "../../src/model/json.ts";
import { refusal } from "../base/refusal.ts";

const SOURCES: readonly AttachmentSource[] = [
  { kind: "inline", mediaType: "image/png", base64: "aGk=" },
  { kind: "stored", mediaType: "application/pdf", ref: "sha256:abc", bytes: 0 },
  { kind: "external_url", mediaType: "image/svg+xml", url: "https://a.example/b.svg" },
  { kind: "provider_file", mediaType: "text/plain", provider: "acme", id: "file-1" },
];

test.each(SOURCES)("a source of kind $kind survives storing", (source) => {
  const decoded = decodeAttachmentSource(JSON.parse(JSON.stringify(encodeAttachmentSource(source))), "at");
  expect(decoded).toEqual(source);
  expect(Object.isFrozen(decoded)).toBe(true);
});

test("media types are lower case; members of other kinds are left out", () => {
  const raw = { kind: "inline", mediaType: " Image/PNG ", base64: "", url: "https://a.example" };
  expect(decodeAttachmentSource(raw, "at")).toEqual({ kind: "inline", mediaType: "image/png", base64: "" });
});

test("base64 may be without padding and URL-safe", () => {
  expect(decodeAttachmentSource({ kind: "inline", mediaType: "a/b", base64: "_-8" }, "at")).toMatchObject({
    base64: "_-8",
  });
});

test.each<[string, Json, string]>([
  ["a text", "data", "at: expected an object with a `kind`"],
  [
    "another kind",
    { kind: "file" },
    'at.kind: expected one of inline, stored, external_url, provider_file, found "file"',
  ],
  [
    "a kind of an inherited name",
    { kind: "constructor" },
    'at.kind: expected one of inline, stored, external_url, provider_file, found "constructor"',
  ],
  ["no kind", {}, "at.kind: expected one of inline, stored, external_url, provider_file, found undefined"],
  ["a missing member", { kind: "external_url", mediaType: "a/b" }, "at.url: expected a string"],
  [
    "a negative size",
    { kind: "stored", mediaType: "a/b", ref: "r", bytes: -1 },
    "at.bytes: expected a whole number from 0, found -1",
  ],
  [
    "half a byte",
    { kind: "stored", mediaType: "a/b", ref: "r", bytes: 0.5 },
    "at.bytes: expected a whole number from 0, found 0.5",
  ],
  [
    "a media type without a subtype",
    { kind: "external_url", mediaType: "image", url: "u" },
    'at.mediaType: expected type/subtype, found "image"',
  ],
  [
    "a media type with parameters",
    { kind: "external_url", mediaType: "a/b; c=d", url: "u" },
    'at.mediaType: expected type/subtype, found "a/b; c=d"',
  ],
  [
    "a data URL for base64",
    { kind: "inline", mediaType: "a/b", base64: "data:a/b;base64,aGk=" },
    "at.base64: expected base64 text without a prefix",
  ],
])("%s is refused by its place", (_name, raw, message) => {
  expect(refusal(() => decodeAttachmentSource(raw, "at"))).toEqual({ code: "invalid_attachment", message });
});

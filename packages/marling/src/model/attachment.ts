// Attachments: bytes that belong to a message or a tool value, by reference.
// Inline bytes are stored before anything durable mentions them; external sources are never fetched by the runtime.

import { MarlingError } from "../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "./json.ts";

export type AttachmentSource =
  | { readonly kind: "inline"; readonly mediaType: string; readonly base64: string }
  | { readonly kind: "stored"; readonly mediaType: string; readonly ref: string; readonly bytes: number }
  | { readonly kind: "external_url"; readonly mediaType: string; readonly url: string }
  | {
      readonly kind: "provider_file";
      readonly mediaType: string;
      readonly provider: string;
      readonly id: string;
    };

const FIELDS = {
  inline: { mediaType: "string", base64: "string" },
  stored: { mediaType: "string", ref: "string", bytes: "count" },
  external_url: { mediaType: "string", url: "string" },
  provider_file: { mediaType: "string", provider: "string", id: "string" },
} as const satisfies {
  readonly [K in AttachmentSource["kind"]]: Readonly<Record<string, "string" | "count">>;
};

/** Reads an attachment source; the media type is `type/subtype`, lower case, without parameters. */
export function decodeAttachmentSource(raw: Json | undefined, where: string): AttachmentSource {
  if (!isJsonObject(raw)) throw refuse(where, "an object with a `kind`");
  const kind = raw.kind as AttachmentSource["kind"];
  if (!Object.hasOwn(FIELDS, kind)) {
    throw refuse(`${where}.kind`, `one of ${Object.keys(FIELDS).join(", ")}, found ${JSON.stringify(kind)}`);
  }
  const source: { [key: string]: Json } = { kind };
  for (const [name, type] of Object.entries(FIELDS[kind]))
    source[name] = decodeField(raw[name], type, `${where}.${name}`);
  source.mediaType = decodeMediaType(source.mediaType as string, where);
  if (kind === "inline") checkBase64(source.base64 as string, `${where}.base64`);
  return Object.freeze(source) as unknown as AttachmentSource;
}

export function encodeAttachmentSource(source: AttachmentSource): JsonObject {
  return source as unknown as JsonObject;
}

function decodeField(raw: Json | undefined, type: "string" | "count", where: string): Json {
  if (type === "count") {
    if (!Number.isSafeInteger(raw) || (raw as number) < 0)
      throw refuse(where, `a whole number from 0, found ${JSON.stringify(raw)}`);
    return raw as number;
  }
  if (typeof raw !== "string") throw refuse(where, "a string");
  return raw;
}

/** Refuses what is plainly no base64, such as a data URL; padding and the URL-safe letters are the writer's choice. */
function checkBase64(text: string, where: string): void {
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text)) throw refuse(where, "base64 text without a prefix");
}

function decodeMediaType(raw: string, where: string): string {
  const type = raw.trim().toLowerCase();
  if (!/^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/.test(type))
    throw refuse(`${where}.mediaType`, `type/subtype, found ${JSON.stringify(raw)}`);
  return type;
}

function refuse(where: string, expected: string): MarlingError {
  return new MarlingError("invalid_attachment", `${where}: expected ${expected}`, { details: { where } });
}

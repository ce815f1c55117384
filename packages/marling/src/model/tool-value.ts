// What a tool returns: JSON in which an attachment may stand anywhere.
// On the wire an attachment is an object with the reserved key; a user's own object with that key is escaped.

import { MarlingError } from "../base/errors.ts";
import { type AttachmentSource, decodeAttachmentSource, encodeAttachmentSource } from "./attachment.ts";
import {
  decodeJson,
  isJsonObject,
  isPlainObject,
  type Json,
  type JsonObject,
  MAX_JSON_DEPTH,
} from "./json.ts";

export const TOOL_VALUE_KEY = "$marling";

const ATTACHMENT: symbol = Symbol.for("marling.tool_attachment");

/** An attachment inside a tool value. */
export class ToolAttachment {
  readonly source: AttachmentSource;
  constructor(source: AttachmentSource) {
    this.source = source;
    Object.defineProperty(this, ATTACHMENT, { value: true });
  }
  /** Recognises attachments across duplicate installs, where `instanceof` fails. */
  static is(value: object): value is ToolAttachment {
    return ATTACHMENT in value;
  }
  toJSON(): JsonObject {
    return { [TOOL_VALUE_KEY]: "attachment", source: encodeAttachmentSource(this.source) };
  }
}

/** A value as a tool returns it; stored and compared in its wire form, which is plain JSON. */
export type ToolValue = Json;

/** Marks bytes or a reference as an attachment in the value a tool returns. */
export function attachment(source: AttachmentSource): ToolAttachment {
  return new ToolAttachment(decodeAttachmentSource(decodeJson(source, "attachment"), "attachment"));
}

/** Turns what a tool returned into its wire form: JSON, with attachments tagged and look-alikes escaped. */
export function encodeToolValue(value: unknown): ToolValue {
  return decodeJson(tagged(value, []), "tool value");
}

/** Leaves what is no JSON as it is: `decodeJson` comes next and names the culprit. */
function tagged(value: unknown, ancestors: readonly object[]): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (ancestors.includes(value) || ancestors.length === MAX_JSON_DEPTH) return value;
  if (ToolAttachment.is(value)) return value.toJSON();
  const inside = [...ancestors, value];
  if (Array.isArray(value)) return Array.from(value, (item) => tagged(item, inside));
  const toJson = (value as { toJSON?: unknown }).toJSON;
  if (typeof toJson === "function") return tagged(toJson.call(value), inside);
  if (!isPlainObject(value) || Object.hasOwn(value, "__proto__")) return value;
  const plain = Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, tagged(member, inside)]),
  );
  return Object.hasOwn(plain, TOOL_VALUE_KEY) ? { [TOOL_VALUE_KEY]: "object", entries: plain } : plain;
}

/** One piece of a tool value in reading order: text, or an attachment that stood between two texts. */
export type ToolValuePiece =
  | { readonly kind: "json"; readonly value: Json }
  | { readonly kind: "attachment"; readonly source: AttachmentSource };

/** What an object in wire form stands for: an attachment, or the user's own object. */
export function readTagged(value: JsonObject): ToolValuePiece {
  const tag = value[TOOL_VALUE_KEY];
  if (tag === undefined) return { kind: "json", value };
  if (tag === "attachment")
    return { kind: "attachment", source: decodeAttachmentSource(value.source, "tool value") };
  if (tag !== "object") throw refuse(`the tag attachment or object, found ${JSON.stringify(tag)}`);
  const { entries } = value;
  if (!isJsonObject(entries)) throw refuse("an object in `entries` beside the tag object");
  return { kind: "json", value: entries };
}

/** The wire form back as the user wrote it, with something else in the place of each attachment. */
export function mapAttachments(value: ToolValue, replace: (source: AttachmentSource) => Json): Json {
  if (Array.isArray(value)) return value.map((item) => mapAttachments(item, replace));
  if (!isJsonObject(value)) return value;
  const piece = readTagged(value);
  if (piece.kind === "attachment") return replace(piece.source);
  return Object.fromEntries(
    Object.entries(piece.value as JsonObject).map(([key, member]) => [key, mapAttachments(member, replace)]),
  );
}

function refuse(expected: string): MarlingError {
  return new MarlingError("invalid_tool_value", `tool value: expected ${expected}`);
}

// Messages: who said what, in parts. Plain frozen JSON; the id is given by whoever appends the message.

import { MarlingError } from "../base/errors.ts";
import { type AttachmentSource, decodeAttachmentSource } from "./attachment.ts";
import { type CallId, type MessageId, messageId, type PluginId } from "./ids.ts";
import { decodeJson, isJsonObject, type Json, type JsonObject } from "./json.ts";

/** `tool` holds the results of one batch; `event` is something that happened, told to the model as a note. */
export type Role = "user" | "assistant" | "system" | "tool" | "event";

export type MessagePart =
  | { readonly kind: "text"; readonly text: string }
  | {
      readonly kind: "attachment";
      readonly source: AttachmentSource;
      readonly callId?: CallId;
      readonly name?: string;
    }
  | { readonly kind: "code"; readonly language: string; readonly code: string }
  | { readonly kind: "output"; readonly text: string }
  | { readonly kind: "error"; readonly text: string }
  | { readonly kind: "prose"; readonly text: string; readonly replay?: JsonObject }
  | ToolCallPart
  | ToolResultPart
  | ReasoningPart;

/** A call the model asked for. `args` are parsed; `rawArgs` is what the model wrote when that was not JSON. */
export interface ToolCallPart {
  readonly kind: "tool_call";
  readonly callId: CallId;
  readonly name: string;
  readonly args: Json;
  readonly rawArgs?: string;
  readonly replay?: JsonObject;
}

/** What the model is shown of a call's result. */
export interface ToolResultPart {
  readonly kind: "tool_result";
  readonly callId: CallId;
  readonly name: string;
  readonly text: string;
  readonly isError?: boolean;
}

/** The model's reasoning. `replay` is opaque data of the provider that must be sent back unchanged. */
export interface ReasoningPart {
  readonly kind: "reasoning";
  readonly text: string;
  readonly replay?: JsonObject;
}

/** Where a message came from when neither the user nor the model wrote it. Transient messages are never stored. */
export type Origin =
  | { readonly kind: "plugin"; readonly pluginId: PluginId; readonly transient: boolean }
  | {
      readonly kind: "process";
      readonly processId: string;
      readonly eventType: string;
      readonly sequence: number;
    };

export interface Message {
  readonly id: MessageId;
  readonly role: Role;
  readonly parts: readonly MessagePart[];
  readonly origin?: Origin;
}

/** How hosts and plugins write a message: `content` is short for one text part and ignored when there are parts. */
export interface MessageInput {
  readonly id?: string;
  readonly role: Role;
  readonly content?: string;
  readonly parts?: readonly MessagePart[];
  readonly attachments?: readonly AttachmentSource[];
  /** Shown to the model in this turn and never stored. */
  readonly transient?: boolean;
}

const ROLES: readonly Role[] = ["user", "assistant", "system", "tool", "event"];

type FieldType = "string" | "boolean" | "object" | "json";

/** The members of each part beside `kind`; a question mark says that one may be left out. */
const PART_FIELDS = {
  text: { text: "string" },
  attachment: { "callId?": "string", "name?": "string" },
  code: { language: "string", code: "string" },
  output: { text: "string" },
  error: { text: "string" },
  prose: { text: "string", "replay?": "object" },
  tool_call: { callId: "string", name: "string", args: "json", "rawArgs?": "string", "replay?": "object" },
  tool_result: { callId: "string", name: "string", text: "string", "isError?": "boolean" },
  reasoning: { text: "string", "replay?": "object" },
} as const satisfies { readonly [K in MessagePart["kind"]]: Readonly<Record<string, FieldType>> };

interface PartField {
  readonly name: string;
  readonly type: FieldType;
  readonly isOptional: boolean;
}

const FIELDS_BY_KIND: ReadonlyMap<unknown, readonly PartField[]> = new Map(
  Object.entries(PART_FIELDS).map(([kind, fields]) => [
    kind,
    Object.entries(fields).map(([field, type]): PartField => {
      const name = field.replace("?", "");
      return { name, type, isOptional: name !== field };
    }),
  ]),
);

/** Turns a message as written into one with an id. A blank id counts as absent. */
export function toMessage(raw: unknown, fallbackId: string, origin?: Origin): Message {
  const { id, role, parts, transient } = decodeMessageInput(raw);
  const stamped = origin?.kind === "plugin" && transient === true ? { ...origin, transient: true } : origin;
  return Object.freeze({
    id: (id ?? fallbackId) as MessageId,
    role,
    parts,
    ...(stamped === undefined ? {} : { origin: Object.freeze(stamped) }),
  });
}

/** A message of one text. */
export function textMessage(id: string, role: Role, text: string): Message {
  const part: MessagePart = Object.freeze({ kind: "text", text });
  return Object.freeze({ id: id as MessageId, role, parts: Object.freeze([part]) });
}

/** Reads a message as written; the result always has `parts`, and an `id` only if that is not blank. */
export function decodeMessageInput(
  raw: unknown,
  where = "message",
): MessageInput & { readonly parts: readonly MessagePart[] } {
  const json = decodeJson(raw, where);
  if (!isJsonObject(json) || !WORDS.some((name) => json[name] !== undefined)) {
    throw refuse(where, "an object with `role` and `content` or `parts`");
  }
  const { id, transient } = json;
  if (id !== undefined && typeof id !== "string") throw refuse(`${where}.id`, "a string");
  if (transient !== undefined && typeof transient !== "boolean")
    throw refuse(`${where}.transient`, "a boolean");
  return Object.freeze({
    role: decodeRole(json.role, `${where}.role`),
    parts: decodeWords(json, where),
    ...(id === undefined || id.trim() === "" ? {} : { id: messageId(id) }),
    ...(transient === true ? { transient } : {}),
  });
}

/** Reads a stored message. */
export function decodeMessage(raw: unknown, where = "message"): Message {
  return messageOf(decodeJson(raw, where), where);
}

/** As `decodeMessage`, of JSON that was decoded: it is the message, unless something in it has to be written otherwise. */
export function adoptMessage(json: Json | undefined, where: string): Message {
  if (!isJsonObject(json) || !Array.isArray(json.parts)) return messageOf(json, where);
  const isKept = (part: Json, index: number): boolean =>
    decodePart(part, `${where}.parts[${index}]`) === part;
  if (!json.parts.every(isKept)) return messageOf(json, where);
  messageId(json.id);
  decodeRole(json.role, `${where}.role`);
  if (json.origin !== undefined) decodeOrigin(json.origin, `${where}.origin`);
  return json as unknown as Message; // its members were checked
}

function messageOf(json: Json | undefined, where: string): Message {
  if (!isJsonObject(json)) throw refuse(where, "an object with an `id`");
  const { origin } = json;
  return Object.freeze({
    id: messageId(json.id),
    role: decodeRole(json.role, `${where}.role`),
    parts: decodeParts(json.parts, `${where}.parts`),
    ...(origin === undefined ? {} : { origin: decodeOrigin(origin, `${where}.origin`) }),
  });
}

export function isTransient(message: Message): boolean {
  return message.origin?.kind === "plugin" && message.origin.transient;
}

/** The visible words of a message: its text and prose parts. */
export function textOf(message: Message): string {
  return message.parts
    .map((part) => (part.kind === "text" || part.kind === "prose" ? part.text : ""))
    .filter((text) => text !== "")
    .join("\n\n");
}

/** What a message may say, and in which members. */
const WORDS = ["content", "parts", "attachments"] as const;

function decodeWords(json: JsonObject, where: string): readonly MessagePart[] {
  const { content } = json;
  if (content !== undefined && typeof content !== "string") throw refuse(`${where}.content`, "a string");
  const given = decodeParts(json.parts, `${where}.parts`);
  const text: readonly MessagePart[] = content ? [Object.freeze({ kind: "text", text: content })] : [];
  const attached = decodeList(json.attachments, `${where}.attachments`).map((source, index): MessagePart => {
    const decoded = decodeAttachmentSource(source, `${where}.attachments[${index}]`);
    return Object.freeze({ kind: "attachment", source: decoded });
  });
  return Object.freeze([...(given.length === 0 ? text : given), ...attached]);
}

function decodeRole(raw: Json | undefined, where: string): Role {
  if (ROLES.includes(raw as Role)) return raw as Role;
  throw refuse(where, `one of ${ROLES.join(", ")}, found ${JSON.stringify(raw)}`);
}

function decodeParts(raw: Json | undefined, where: string): readonly MessagePart[] {
  return Object.freeze(decodeList(raw, where).map((part, index) => decodePart(part, `${where}[${index}]`)));
}

function decodePart(raw: Json, where: string): MessagePart {
  const kind = isJsonObject(raw) ? raw.kind : undefined;
  const fields = FIELDS_BY_KIND.get(kind);
  if (!isJsonObject(raw) || fields === undefined) {
    throw refuse(
      `${where}.kind`,
      `one of ${Object.keys(PART_FIELDS).join(", ")}, found ${JSON.stringify(kind)}`,
    );
  }
  for (const field of fields) checkField(raw, field, where);
  if (kind !== "attachment") return raw as unknown as MessagePart;
  const source = decodeAttachmentSource(raw.source, `${where}.source`);
  return Object.freeze({ ...raw, source }) as unknown as MessagePart;
}

function checkField(part: JsonObject, { name, type, isOptional }: PartField, where: string): void {
  const value = part[name];
  if (value === undefined && isOptional) return;
  const fits =
    type === "json" ? value !== undefined : type === "object" ? isJsonObject(value) : typeof value === type;
  if (!fits)
    throw refuse(
      `${where}.${name}`,
      type === "json" ? "a JSON value" : `${type === "object" ? "an" : "a"} ${type}`,
    );
}

function decodeOrigin(raw: Json, where: string): Origin {
  if (isJsonObject(raw)) {
    const { kind, pluginId, transient, processId, eventType, sequence } = raw;
    if (kind === "plugin" && typeof pluginId === "string" && typeof transient === "boolean") {
      return raw as unknown as Origin;
    }
    const isProcess =
      typeof processId === "string" && typeof eventType === "string" && Number.isSafeInteger(sequence);
    if (kind === "process" && isProcess) return raw as unknown as Origin;
  }
  throw refuse(where, "the origin of a plugin or of a process");
}

function decodeList(raw: Json | undefined, where: string): readonly Json[] {
  if (raw === undefined) return [];
  if (!Array.isArray(raw)) throw refuse(where, "an array");
  return raw;
}

function refuse(where: string, expected: string): MarlingError {
  return new MarlingError("invalid_message", `${where}: expected ${expected}`, { details: { where } });
}

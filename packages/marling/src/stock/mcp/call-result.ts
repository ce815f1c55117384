// What a server answers to a call, as the value that a tool returns.
//   MC30  text is text, structured content is kept as it is, images, audio and embedded bytes are attachments; a link is told
//         as a link, and nothing is fetched.
//   MC31  a result is cut to the limits of its server, and says so where it was cut.
//   MC32  an answer that says it is an error is a failed call.

import type { CallToolResult, ReadResourceResult } from "@modelcontextprotocol/client";
import { type ToolContext, type ToolOutput, toolFailure } from "../../index.ts";
import type { McpSettings } from "./options.ts";

export interface ResultOptions {
  readonly limits: Pick<McpSettings, "maxOutputBytes" | "maxAttachmentBytes">;
  readonly attachments: ToolContext["attachments"];
}

type ResultPart = CallToolResult["content"][number];

/** What is left of the limits of one result. */
interface Room {
  readonly options: ResultOptions;
  textBytes: number;
  attachmentBytes: number;
}

export async function valueOfResult(result: CallToolResult, options: ResultOptions): Promise<unknown> {
  const { content = [], structuredContent, isError } = result;
  const room = roomOf(options);
  if (isError === true) return failureOf(content, room);
  const structured = structuredContent === undefined ? undefined : boundedJson(structuredContent, room);
  const rest =
    structuredContent === undefined ? content : content.filter((part) => !repeats(part, structuredContent));
  const pieces: unknown[] = [];
  for (const part of rest) pieces.push(await pieceOf(part, room));
  const plain = pieces.every((piece) => typeof piece === "string") ? pieces.join("\n") : pieces;
  if (structured === undefined) return plain;
  return pieces.length === 0 ? structured : { structuredContent: structured, content: plain };
}

export async function valueOfResource(result: ReadResourceResult, options: ResultOptions): Promise<unknown> {
  const room = roomOf(options);
  const contents: unknown[] = [];
  for (const resource of result.contents) contents.push(await resourcePiece(resource, room));
  return { contents };
}

/** Any JSON, as long as it fits; else the beginning of its text. */
export function boundedValue(value: unknown, options: ResultOptions): unknown {
  return boundedJson(value, roomOf(options));
}

function roomOf(options: ResultOptions): Room {
  const { maxOutputBytes, maxAttachmentBytes } = options.limits;
  return { options, textBytes: maxOutputBytes, attachmentBytes: maxAttachmentBytes };
}

function failureOf(content: readonly ResultPart[], room: Room): ToolOutput {
  const texts = content.flatMap((part) => (part.type === "text" ? [boundedText(part.text, room)] : []));
  const message = texts.join("\n").trim() || "The server says that the call failed, and not why.";
  return toolFailure({ code: "mcp_tool_error", class: "execution", message });
}

async function pieceOf(part: ResultPart, room: Room): Promise<unknown> {
  switch (part.type) {
    case "text":
      return boundedText(part.text, room);
    case "image":
    case "audio":
      return attached(part.data, part.mimeType, room);
    case "resource":
      return resourcePiece(part.resource, room);
    case "resource_link": {
      const { uri, name, mimeType, description } = part;
      return boundedJson({ link: uri, name, mimeType, description }, room);
    }
    default:
      return `[content of the type ${JSON.stringify((part as { readonly type: unknown }).type)} is not supported]`;
  }
}

type ResourceContents = ReadResourceResult["contents"][number];

async function resourcePiece(resource: ResourceContents, room: Room): Promise<unknown> {
  const { uri, mimeType } = resource;
  const head = { uri: uri.slice(0, 2_048), ...(mimeType === undefined ? {} : { mimeType }) };
  if ("text" in resource && typeof resource.text === "string")
    return { ...head, text: boundedText(resource.text, room) };
  const { blob = "" } = resource as { readonly blob?: string };
  return { ...head, file: await attached(blob, mimeType ?? "application/octet-stream", room) };
}

const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/;

async function attached(base64: string, mimeType: string, room: Room): Promise<unknown> {
  const mediaType = (mimeType.split(";")[0] ?? "").trim().toLowerCase();
  if (!MEDIA_TYPE.test(mediaType)) return "[a file without a valid media type was left out]";
  const bytes = Buffer.from(base64, "base64");
  if (bytes.byteLength > room.attachmentBytes)
    return `[a file of ${bytes.byteLength} bytes (${mediaType}) was left out: the limit is ${room.options.limits.maxAttachmentBytes}]`;
  room.attachmentBytes -= bytes.byteLength;
  return room.options.attachments.put(bytes, mediaType);
}

function boundedText(text: string, room: Room): string {
  const bytes = Buffer.byteLength(text);
  if (bytes <= room.textBytes) {
    room.textBytes -= bytes;
    return text;
  }
  const kept = Buffer.from(text)
    .subarray(0, room.textBytes)
    .toString("utf8")
    .replace(/\uFFFD+$/, "");
  room.textBytes = 0;
  return `${kept}\n[cut: ${Buffer.byteLength(kept)} of ${bytes} bytes are shown]`;
}

function boundedJson(value: unknown, room: Room): unknown {
  const text = JSON.stringify(value) ?? "null";
  const cut = boundedText(text, room);
  // What is no plain JSON of ours, such as a member named __proto__, is text.
  return cut === text && !text.includes('"__proto__"') ? (JSON.parse(text) as unknown) : cut;
}

/** Servers repeat structured content as text, whole or one member of it, for clients that know no better. */
function repeats(part: ResultPart, structured: unknown): boolean {
  if (part.type !== "text") return false;
  if (Object.values(structured ?? {}).includes(part.text)) return true;
  try {
    return JSON.stringify(JSON.parse(part.text)) === JSON.stringify(structured);
  } catch {
    return false;
  }
}

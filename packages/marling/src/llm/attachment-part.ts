// Attachments as a model is shown them: a file, text where the bytes are text, or a note that it cannot be shown.

import type { AttachmentSource } from "../model/attachment.ts";
import type { FilePart, TextPart } from "./prompt-message.ts";

/** What decides the form of a file. */
export interface FileTarget {
  readonly specificationVersion: "v3" | "v4";
  readonly provider: string;
}

export interface AttachmentReader {
  readonly model: FileTarget;
  /** Media types that the model has turned out not to take. */
  readonly withheld: ReadonlySet<string>;
  /** Reads stored bytes; nothing when they are gone. */
  readonly blobs: { get(ref: string): Promise<Uint8Array | undefined> } | undefined;
}

const TEXT_TYPE =
  /^text\/|^application\/(?:json|xml|yaml|toml|javascript|x-[a-z-]*(?:yaml|sh|script))$|\+(?:json|xml|yaml)$/;

/** What the model is shown of an attachment. Bytes in the store are read; nothing is ever fetched. */
export async function attachmentPart(
  source: AttachmentSource,
  reader: AttachmentReader,
): Promise<TextPart | FilePart> {
  const { mediaType } = source;
  if (reader.withheld.has(mediaType)) return note(mediaType, "this model does not take such files");
  switch (source.kind) {
    case "inline":
      return bytesPart(Buffer.from(source.base64, "base64"), mediaType, reader.model);
    case "stored": {
      const bytes = await reader.blobs?.get(source.ref);
      return bytes === undefined
        ? note(mediaType, "its bytes are gone")
        : bytesPart(bytes, mediaType, reader.model);
    }
    case "external_url":
      return urlPart(source.url, mediaType, reader.model);
    case "provider_file":
      return providerFilePart(source, reader.model);
  }
}

function bytesPart(bytes: Uint8Array, mediaType: string, model: FileTarget): TextPart | FilePart {
  if (TEXT_TYPE.test(mediaType)) {
    return { type: "text", text: `[attachment ${mediaType}]\n${new TextDecoder().decode(bytes)}` };
  }
  const data = model.specificationVersion === "v3" ? bytes : ({ type: "data", data: bytes } as const);
  return { type: "file", mediaType, data } as FilePart; // The data is of the specification that the model follows.
}

function urlPart(address: string, mediaType: string, model: FileTarget): TextPart | FilePart {
  if (!URL.canParse(address)) return note(mediaType, "its address is no URL");
  const url = new URL(address);
  const data = model.specificationVersion === "v3" ? url : ({ type: "url", url } as const);
  return { type: "file", mediaType, data } as FilePart; // As above.
}

/** A file that was given to a provider is known there by its id, and nowhere else. */
function providerFilePart(
  { mediaType, provider, id }: Extract<AttachmentSource, { kind: "provider_file" }>,
  model: FileTarget,
): TextPart | FilePart {
  if (provider !== model.provider.split(".", 1)[0]) return note(mediaType, `it is a file of ${provider}`);
  if (model.specificationVersion === "v4") {
    return { type: "file", mediaType, data: { type: "reference", reference: { [provider]: id } } };
  }
  return URL.canParse(id) ? urlPart(id, mediaType, model) : { type: "file", mediaType, data: id };
}

function note(mediaType: string, reason: string): TextPart {
  return { type: "text", text: `[attachment ${mediaType} is not shown: ${reason}]` };
}

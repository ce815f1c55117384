// Bytes on their way into the store. Inline bytes become references before anything mentions them.

import { messageOf } from "../base/errors.ts";
import type { AttachmentSource } from "../model/attachment.ts";
import { type ToolFailure, failureOf } from "../model/tool-output.ts";
import { ToolAttachment } from "../model/tool-value.ts";
import type { BlobStore } from "../store/contract.ts";

/** Says whether a source may be used; `producer` is the tool's name, or `host` for an input. */
export type AttachmentPolicy = (source: AttachmentSource, producer: string) => boolean;

export interface AttachmentKeeper {
  readonly blobs: BlobStore;
  readonly policy: AttachmentPolicy | undefined;
}

/** The failure of a source that the policy does not allow. */
export function refuseAttachment({ policy }: AttachmentKeeper, source: AttachmentSource, producer: string): ToolFailure | undefined {
  if (policy?.(source, producer) !== false) return undefined;
  const message = `The attachment of ${producer} is not allowed: ${source.kind}, ${source.mediaType}.`;
  return failureOf({ code: "attachment_source_policy_denied", class: "permission_denied", source: "policy", message });
}

/** Stores inline bytes and returns the reference to them. */
export async function keepAttachment({ blobs }: AttachmentKeeper, source: AttachmentSource & { readonly kind: "inline" }): Promise<AttachmentSource | ToolFailure> {
  try {
    return await store(blobs, Buffer.from(source.base64, "base64"), source.mediaType);
  } catch (thrown) {
    return failureOf({ code: "attachment_store_failed", class: "internal", source: "runtime", message: messageOf(thrown) });
  }
}

/** Stores bytes and returns what a tool puts into its result. */
export async function writeAttachment({ blobs }: AttachmentKeeper, bytes: Uint8Array, mediaType: string): Promise<ToolAttachment> {
  return new ToolAttachment(await store(blobs, bytes, mediaType));
}

async function store(blobs: BlobStore, bytes: Uint8Array, mediaType: string): Promise<AttachmentSource> {
  return { kind: "stored", mediaType, ref: await blobs.put(bytes), bytes: bytes.byteLength };
}

// Bytes on their way into the store. Inline bytes become references before anything mentions them.

import { MarlingError, messageOf } from "../base/errors.ts";
import { type RetryTerms, retryRefused } from "../base/retry-refused.ts";
import type { AttachmentSource } from "../model/attachment.ts";
import type { MessageInput, MessagePart } from "../model/message.ts";
import { failureOf, type ToolFailure, type ToolOutput } from "../model/tool-output.ts";
import { ToolAttachment } from "../model/tool-value.ts";
import type { BlobStore } from "../store/contract.ts";
import { storeAttachments } from "../tool/output.ts";
import type { KernelParts } from "./parts.ts";

/** Says whether a source may be used; `producer` is the tool's name, or `host` for an input. A throw is a no. */
export type AttachmentPolicy = (source: AttachmentSource, producer: string) => boolean;

export interface AttachmentKeeper {
  readonly blobs: BlobStore;
  readonly policy: AttachmentPolicy | undefined;
  /** How long bytes that the store refuses are stored again; by default they are not. */
  readonly retry?: RetryTerms;
}

/** Stores the inline bytes of a tool's output. The first source that may not be used is the failure of the call. */
export function keepAttachments(
  { store, attachmentPolicy, retry }: KernelParts,
  output: ToolOutput,
  toolName: string,
): Promise<ToolOutput> {
  const keeper: AttachmentKeeper = { blobs: store.blobs, policy: attachmentPolicy, retry };
  return storeAttachments(output, (source) => keepAttachment(keeper, source), {
    allow: (source) => refuseAttachment(keeper, source, toolName),
  });
}

/** A message with its inline bytes stored. A source that may not be used is refused by name. */
export async function keepMessageAttachments(
  { store, attachmentPolicy }: KernelParts,
  message: MessageInput,
  producer: string,
): Promise<MessageInput> {
  const keeper: AttachmentKeeper = { blobs: store.blobs, policy: attachmentPolicy };
  const { parts = [] } = message;
  if (!parts.some((part) => part.kind === "attachment")) return message;
  const keep = async (part: MessagePart): Promise<MessagePart> => {
    if (part.kind !== "attachment") return part;
    const { source } = part;
    const kept =
      refuseAttachment(keeper, source, producer) ??
      (source.kind === "inline" ? await keepAttachment(keeper, source) : source);
    if (kept.kind !== "failure") return { ...part, source: kept };
    const code = kept.code === "attachment_store_failed" ? kept.code : "invalid_attachment";
    throw new MarlingError(code, kept.message, { details: { producer } });
  };
  return { ...message, parts: await Promise.all(parts.map(keep)) };
}

/** The failure of a source that the policy does not allow. */
export function refuseAttachment(
  { policy }: AttachmentKeeper,
  source: AttachmentSource,
  producer: string,
): ToolFailure | undefined {
  const reason = denialOf(policy, source, producer);
  if (reason === undefined) return undefined;
  const message = `The attachment of ${producer} is not allowed: ${source.kind}, ${source.mediaType}${reason}.`;
  return failureOf({
    code: "attachment_source_policy_denied",
    class: "permission_denied",
    source: "policy",
    message,
  });
}

/** Stores inline bytes and returns the reference to them. */
export async function keepAttachment(
  keeper: Pick<AttachmentKeeper, "blobs" | "retry">,
  source: AttachmentSource & { readonly kind: "inline" },
): Promise<AttachmentSource | ToolFailure> {
  try {
    return await store(keeper, Buffer.from(source.base64, "base64"), source.mediaType);
  } catch (thrown) {
    const message = `The attachment could not be stored: ${messageOf(thrown)}`;
    return failureOf({ code: "attachment_store_failed", class: "internal", source: "runtime", message });
  }
}

/** Stores bytes and returns what a tool puts into its result. */
export async function writeAttachment(
  { store: { blobs }, retry }: KernelParts,
  bytes: Uint8Array,
  mediaType: string,
): Promise<ToolAttachment> {
  return new ToolAttachment(await store({ blobs, retry }, bytes, mediaType));
}

/** Why the policy does not allow a source, as the end of a sentence. */
function denialOf(
  policy: AttachmentPolicy | undefined,
  source: AttachmentSource,
  producer: string,
): string | undefined {
  try {
    return policy?.(source, producer) === false ? "" : undefined;
  } catch (thrown) {
    return `; the policy failed: ${messageOf(thrown)}`;
  }
}

async function store(
  { blobs, retry }: Pick<AttachmentKeeper, "blobs" | "retry">,
  bytes: Uint8Array,
  mediaType: string,
): Promise<AttachmentSource> {
  const ref = await (retry === undefined ? blobs.put(bytes) : putBlob(blobs, bytes, retry));
  return { kind: "stored", mediaType, ref, bytes: bytes.byteLength };
}

/** Stores bytes; a store that refuses them is asked again. */
export function putBlob(
  blobs: BlobStore,
  bytes: Uint8Array,
  retry: RetryTerms,
): ReturnType<BlobStore["put"]> {
  return blobs.put(bytes).catch((refusal: unknown) => retryRefused(() => blobs.put(bytes), refusal, retry));
}

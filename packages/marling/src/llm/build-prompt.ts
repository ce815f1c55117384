// From messages of ours to a prompt that every provider takes.
//   LA19  a message without attachments is converted once, however many requests it is in.

import type { JsonObject } from "../model/json.ts";
import { type AttachmentReader, attachmentPart } from "./attachment-part.ts";
import type { ModelMessage, ToolSpec } from "./contract.ts";
import { type AttachmentPart, convertMessage, type MessageTarget } from "./convert-message.ts";
import { PromptAssembly } from "./prompt-assembly.ts";
import type { PromptMessage } from "./prompt-message.ts";

/** What a port of a model keeps between calls. */
export interface PromptBuilder {
  readonly model: AttachmentReader["model"];
  /** The port's id. */
  readonly id: string;
  /** Messages without attachments as they were converted before: a request costs what is new in it. */
  readonly converted: WeakMap<ModelMessage, readonly PromptMessage[]>;
}

export interface PromptSite {
  readonly blobs: AttachmentReader["blobs"];
  readonly withheld: ReadonlySet<string>;
}

export async function promptOf(
  builder: PromptBuilder,
  messages: readonly ModelMessage[],
  site: PromptSite,
): Promise<readonly PromptMessage[]> {
  const assembly = new PromptAssembly();
  for (const message of messages) {
    const attachments = message.parts.filter((part) => part.kind === "attachment");
    const converted =
      attachments.length === 0
        ? convertOnce(builder, message)
        : convertMessage(message, targetOf(builder, await showAttachments(builder, attachments, site)));
    for (const one of converted) assembly.add(one);
  }
  return assembly.finish();
}

function convertOnce(builder: PromptBuilder, message: ModelMessage): readonly PromptMessage[] {
  const known = builder.converted.get(message);
  if (known !== undefined) return known;
  const converted = convertMessage(message, targetOf(builder, new Map()));
  builder.converted.set(message, converted);
  return converted;
}

function targetOf({ model, id }: PromptBuilder, shown: MessageTarget["shown"]): MessageTarget {
  return { provider: model.provider, model: id, shown };
}

async function showAttachments(
  { model }: PromptBuilder,
  attachments: readonly AttachmentPart[],
  { blobs, withheld }: PromptSite,
): Promise<MessageTarget["shown"]> {
  const reader = { model, blobs, withheld };
  return new Map(
    await Promise.all(
      attachments.map(async (part) => [part, await attachmentPart(part.source, reader)] as const),
    ),
  );
}

/** The system prompt with a schema of the answer, where the provider takes none beside the prompt. */
export function withSchema(system: string, schema: JsonObject): string {
  const ask = `Give your final answer as JSON that follows this JSON schema, and nothing else:\n${JSON.stringify(schema)}`;
  return system.trim() === "" ? ask : `${system}\n\n${ask}`;
}

/** The schema of a tool's input as providers take it: of an object. */
export function inputSchemaOf({ inputSchema }: ToolSpec): JsonObject {
  return inputSchema.type === undefined ? { type: "object", ...inputSchema } : inputSchema;
}

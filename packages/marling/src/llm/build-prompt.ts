// From messages of ours to a prompt that every provider takes.
//   LA19  a message without attachments is converted once, however many requests it is in.
//   LA21  a request that begins with the messages of the one before goes on from its prompt; what has attachments, and
//         what is behind that, is put together anew.

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
  /** The newest prompt by the message that it begins with. */
  readonly assembled: WeakMap<ModelMessage, AssembledPrompt>;
}

/** Messages that were put together, and what came of them so far. */
interface AssembledPrompt {
  readonly messages: ModelMessage[];
  readonly assembly: PromptAssembly;
}

/** What a port remembers of messages it has seen. */
export function promptMemory(): Pick<PromptBuilder, "converted" | "assembled"> {
  return { converted: new WeakMap(), assembled: new WeakMap() };
}

const NONE_SHOWN: MessageTarget["shown"] = new Map();

export interface PromptSite {
  readonly blobs: AttachmentReader["blobs"];
  readonly withheld: ReadonlySet<string>;
}

export async function promptOf(
  builder: PromptBuilder,
  messages: readonly ModelMessage[],
  site: PromptSite,
): Promise<readonly PromptMessage[]> {
  const known = assembleKnown(builder, messages);
  if (known.messages.length === messages.length) return known.assembly.finish();
  const assembly = known.assembly.copy();
  for (const message of messages.slice(known.messages.length)) {
    const attachments = attachmentsOf(message);
    const converted =
      attachments.length === 0
        ? convertOnce(builder, message)
        : convertMessage(message, targetOf(builder, await showAttachments(builder, attachments, site)));
    for (const one of converted) assembly.add(one);
  }
  return assembly.finish();
}

/** The beginning of a prompt, up to the first message with attachments. Waits for nothing: requests share it. */
function assembleKnown(builder: PromptBuilder, messages: readonly ModelMessage[]): AssembledPrompt {
  const [first] = messages;
  const before = first === undefined ? undefined : builder.assembled.get(first);
  const prompt: AssembledPrompt =
    before !== undefined && beginsWith(messages, before.messages)
      ? before
      : { messages: [], assembly: new PromptAssembly() };
  for (let at = prompt.messages.length; at < messages.length; at += 1) {
    const message = messages[at] as ModelMessage;
    if (message.parts.some(isAttachment)) break;
    for (const one of convertOnce(builder, message)) prompt.assembly.add(one);
    prompt.messages.push(message);
  }
  if (first !== undefined) builder.assembled.set(first, prompt);
  return prompt;
}

function beginsWith(messages: readonly ModelMessage[], known: readonly ModelMessage[]): boolean {
  for (let at = 0; at < known.length; at += 1) if (known[at] !== messages[at]) return false;
  return true;
}

function attachmentsOf({ parts }: ModelMessage): readonly AttachmentPart[] {
  return parts.filter(isAttachment);
}

function isAttachment(part: ModelMessage["parts"][number]): part is AttachmentPart {
  return part.kind === "attachment";
}

function convertOnce(builder: PromptBuilder, message: ModelMessage): readonly PromptMessage[] {
  const known = builder.converted.get(message);
  if (known !== undefined) return known;
  const converted = convertMessage(message, targetOf(builder, NONE_SHOWN));
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

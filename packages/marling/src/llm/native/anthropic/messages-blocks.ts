// Messages of a prompt as Anthropic's Messages have them: blocks, as JSON texts.
//   LA19  a message is written once, however many requests it is in.

import { unreachable } from "../../../base/unreachable.ts";
import type { JsonObject } from "../../../model/json.ts";
import type {
  AssistantMessage,
  FilePart,
  PromptMessage,
  PromptReasoningPart,
  TextPart,
} from "../../prompt-message.ts";
import { base64Of, dataOf, notShown } from "../wire-file.ts";

/** The blocks of messages that were sent before. */
export type WrittenBlocks = WeakMap<PromptMessage, readonly string[]>;

const IMAGES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

/** The texts of the blocks of a message; none when nothing of it can be said. */
export function writeBlocks(message: PromptMessage, written: WrittenBlocks): readonly string[] {
  const known = written.get(message);
  if (known !== undefined) return known;
  const texts = blocksOf(message).map((block) => JSON.stringify(block));
  written.set(message, texts);
  return texts;
}

/** Whether a message refers to a file that the provider keeps. */
export function refersToFile({ role, content }: PromptMessage): boolean {
  return role === "user" && content.some((part) => part.type === "file" && dataOf(part).type === "reference");
}

function blocksOf(message: PromptMessage): readonly JsonObject[] {
  switch (message.role) {
    case "user":
      return message.content.map((part) =>
        part.type === "file" ? (fileBlock(part) ?? textBlock(notShown(part))) : textBlock(part),
      );
    case "assistant":
      return message.content.flatMap(assistantBlocks);
    case "tool":
      return message.content.map(({ toolCallId, output }) => ({
        type: "tool_result",
        tool_use_id: toolCallId,
        content: output.value,
        ...(output.type === "error-text" ? { is_error: true } : {}),
      }));
    default:
      return unreachable(message);
  }
}

function assistantBlocks(part: AssistantMessage["content"][number]): readonly JsonObject[] {
  switch (part.type) {
    case "text":
      return [textBlock(part)];
    case "reasoning":
      return thinkingBlocks(part);
    case "tool-call":
      return [{ type: "tool_use", id: part.toolCallId, name: part.toolName, input: part.input }];
    default:
      return unreachable(part);
  }
}

/** Thinking without its signature is refused. */
function thinkingBlocks({ text, providerOptions }: PromptReasoningPart): readonly JsonObject[] {
  const { signature, redactedData } = providerOptions?.anthropic ?? {};
  if (typeof redactedData === "string") return [{ type: "redacted_thinking", data: redactedData }];
  return typeof signature === "string" ? [{ type: "thinking", thinking: text, signature }] : [];
}

function textBlock({ text }: TextPart): JsonObject {
  return { type: "text", text };
}

function fileBlock(part: FilePart): JsonObject | undefined {
  const { mediaType } = part;
  const type = mediaType.startsWith("image/") ? "image" : "document";
  const data = dataOf(part);
  if (data.type === "reference") {
    const [id] = Object.values(data.reference);
    return id === undefined ? undefined : { type, source: { type: "file", file_id: id } };
  }
  if (!IMAGES.has(mediaType) && mediaType !== "application/pdf") return undefined;
  if (data.type === "url") return { type, source: { type: "url", url: data.url.href } };
  return { type, source: { type: "base64", media_type: mediaType, data: base64Of(data.data) } };
}

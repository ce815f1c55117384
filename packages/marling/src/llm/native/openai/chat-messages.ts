// Messages of a prompt as Chat Completions have them, as JSON texts.
//   LA19  a message is written once, however many requests it is in.

import { unreachable } from "../../../base/unreachable.ts";
import type { Json, JsonObject } from "../../../model/json.ts";
import type {
  AssistantMessage,
  FilePart,
  PromptMessage,
  PromptToolCallPart,
  TextPart,
  UserMessage,
} from "../../prompt-message.ts";
import { base64Of, dataOf, notShown } from "../wire-file.ts";

/** The texts of messages that were sent before. */
export type WrittenMessages = WeakMap<PromptMessage, string>;

/** Where a model's reasoning came from, and goes back to. */
export type ReasoningField = "reasoning_content" | "reasoning";

const AUDIO: { readonly [mediaType: string]: string } = {
  "audio/wav": "wav",
  "audio/x-wav": "wav",
  "audio/mp3": "mp3",
  "audio/mpeg": "mp3",
};

/** The wire's messages for one of ours, separated by commas: results are a message each. */
export function writeMessage(message: PromptMessage, written: WrittenMessages): string {
  const known = written.get(message);
  if (known !== undefined) return known;
  const text = wireText(message);
  written.set(message, text);
  return text;
}

function wireText(message: PromptMessage): string {
  switch (message.role) {
    case "user":
      return `{"role":"user","content":${JSON.stringify(userContent(message.content))}}`;
    case "assistant":
      return JSON.stringify(assistantMessage(message));
    case "tool":
      return message.content
        .map(({ toolCallId, output }) =>
          JSON.stringify({ role: "tool", tool_call_id: toolCallId, content: output.value }),
        )
        .join(",");
    default:
      return unreachable(message);
  }
}

/** Words alone are one text: not every server takes a list of them. */
function userContent(content: UserMessage["content"]): Json {
  const [first] = content;
  if (content.length === 1 && first?.type === "text") return first.text;
  const parts = content.map((part) =>
    part.type === "file" ? (filePart(part) ?? notShown(part)) : textPart(part),
  );
  const texts = parts.flatMap((part) => (part.type === "text" ? [String(part.text)] : []));
  return texts.length === parts.length ? texts.join("\n\n") : parts;
}

function textPart({ text }: TextPart): { readonly type: string; readonly text: string } {
  return { type: "text", text };
}

function filePart(part: FilePart): { readonly type: string; readonly [name: string]: Json } | undefined {
  const { mediaType } = part;
  const data = dataOf(part);
  if (data.type === "reference") {
    const [id] = Object.values(data.reference);
    return id === undefined ? undefined : { type: "file", file: { file_id: id } };
  }
  if (mediaType.startsWith("image/")) {
    const url = data.type === "url" ? data.url.href : `data:${mediaType};base64,${base64Of(data.data)}`;
    return { type: "image_url", image_url: { url } };
  }
  if (data.type === "url") return undefined;
  const base64 = base64Of(data.data);
  const format = AUDIO[mediaType];
  if (format !== undefined) return { type: "input_audio", input_audio: { data: base64, format } };
  if (mediaType !== "application/pdf") return undefined;
  return {
    type: "file",
    file: { filename: "document.pdf", file_data: `data:${mediaType};base64,${base64}` },
  };
}

function assistantMessage({ content }: AssistantMessage): JsonObject {
  const [first] = content;
  if (content.length === 1 && first?.type === "text") return { role: "assistant", content: first.text };
  const text = content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n");
  const calls = content.flatMap((part) => (part.type === "tool-call" ? [toolCall(part)] : []));
  return {
    role: "assistant",
    content: text === "" && calls.length > 0 ? null : text,
    ...reasoningOf(content),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function reasoningOf(content: AssistantMessage["content"]): JsonObject {
  const reasonings = content.filter((part) => part.type === "reasoning");
  const [first] = reasonings;
  if (first === undefined) return {};
  const field: ReasoningField =
    first.providerOptions?.openai?.field === "reasoning" ? "reasoning" : "reasoning_content";
  return { [field]: reasonings.map(({ text }) => text).join("") };
}

/** Servers in front of Gemini put the signature of a call beside it, and want it back there. */
function toolCall({ toolCallId, toolName, input, providerOptions }: PromptToolCallPart): JsonObject {
  const extra = providerOptions?.openai?.extraContent;
  return {
    id: toolCallId,
    type: "function",
    function: { name: toolName, arguments: JSON.stringify(input) },
    ...(extra === undefined ? {} : { extra_content: extra }),
  };
}

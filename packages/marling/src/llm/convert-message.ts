// One message of ours as messages of the AI SDK. What a message becomes depends on it and on the model alone, so that
// callers can keep the result.

import { unreachable } from "../base/unreachable.ts";
import { isJsonObject, type JsonObject } from "../model/json.ts";
import type { MessagePart, ToolCallPart, ToolResultPart } from "../model/message.ts";
import { acceptedCallId } from "./call-id.ts";
import type { ModelMessage } from "./contract.ts";
import type {
  AssistantMessage,
  FilePart,
  PromptMessage,
  PromptToolCallPart,
  PromptToolResultPart,
  TextPart,
} from "./prompt-message.ts";
import { replayTo } from "./replay.ts";
import { acceptedToolName } from "./tool-name.ts";

export type AttachmentPart = Extract<MessagePart, { kind: "attachment" }>;

export interface MessageTarget {
  readonly provider: string;
  /** The name under which the model's own replay data was kept. */
  readonly model: string;
  /** What stands for the attachments of the message. */
  readonly shown: ReadonlyMap<AttachmentPart, TextPart | FilePart>;
}

/** Where a part stands in its message. */
interface PartSite {
  readonly parts: readonly MessagePart[];
  readonly index: number;
  readonly target: MessageTarget;
}

type Replayable = { readonly text: string; readonly replay?: JsonObject };

/** The messages that a message becomes: none when nothing of it can be sent. Results come before other words. */
export function convertMessage(
  { role, parts }: ModelMessage,
  target: MessageTarget,
): readonly PromptMessage[] {
  if (role === "assistant") {
    const content = converted(parts, (part) => assistantPart(part, target));
    return content.length === 0 ? [] : [{ role, content }];
  }
  const results = converted(parts, (part) => (part.kind === "tool_result" ? [toolResult(part, target)] : []));
  const content = converted(parts, (part, index) => userPart(part, { parts, index, target }));
  const words: readonly PromptMessage[] = content.length === 0 ? [] : [{ role: "user", content }];
  return results.length === 0 ? words : [{ role: "tool", content: results }, ...words];
}

/**
 * What parts become, in as much memory as it needs: a list that is put together item by item has room for a dozen more, and
 * what is made here is kept. Most messages have one part.
 */
function converted<T>(
  parts: readonly MessagePart[],
  convert: (part: MessagePart, index: number) => readonly T[],
): readonly T[] {
  const [first] = parts;
  return first !== undefined && parts.length === 1 ? convert(first, 0) : parts.flatMap(convert).slice();
}

function assistantPart(part: MessagePart, target: MessageTarget): AssistantMessage["content"] {
  switch (part.kind) {
    case "tool_call":
      return [toolCall(part, target)];
    case "reasoning": {
      const replayed = replayTo(target.model, part.replay, part.text);
      return replayed === undefined ? [] : [{ type: "reasoning", text: part.text, ...replayed }];
    }
    case "text":
    case "prose": {
      const { replay } = part as Replayable; // A text that was prose keeps its data.
      return textParts(part.text, replayTo(target.model, replay, part.text));
    }
    case "code":
    case "output":
    case "error":
      return textParts(wordsOf(part));
    case "attachment":
    case "tool_result":
      return [];
    default:
      return unreachable(part);
  }
}

function userPart(part: MessagePart, site: PartSite): readonly (TextPart | FilePart)[] {
  switch (part.kind) {
    case "attachment": {
      const shown = site.target.shown.get(part);
      if (shown === undefined) return [];
      return part.callId === undefined ? [shown] : [heading(part, site), shown];
    }
    case "text":
    case "prose":
    case "code":
    case "output":
    case "error":
      return textParts(wordsOf(part));
    case "tool_call":
    case "tool_result":
    case "reasoning":
      return [];
    default:
      return unreachable(part);
  }
}

/** Results are text; their files follow behind the results, numbered as the text of the result numbers them. */
function heading({ callId, name }: AttachmentPart, { parts, index, target }: PartSite): TextPart {
  const isCounted = (part: MessagePart): boolean =>
    part.kind === "attachment" && part.callId === callId && target.shown.has(part);
  const count = parts.slice(0, index).filter(isCounted).length + 1;
  return { type: "text", text: `[attachment ${count}${name === undefined ? "" : ` of ${name}`}]` };
}

/** Providers refuse texts without words, unless they gave data for one. */
function textParts(text: string, replayed: Pick<TextPart, "providerOptions"> = {}): readonly TextPart[] {
  const { providerOptions } = replayed;
  if (providerOptions !== undefined) return [{ type: "text", text, providerOptions }];
  return text.trim() === "" ? [] : [{ type: "text", text }];
}

function wordsOf(part: Extract<MessagePart, { text: string } | { code: string }>): string {
  if (part.kind === "code") return `\`\`\`${part.language}\n${part.code}\n\`\`\``;
  return part.kind === "error" ? `Error: ${part.text}` : part.text;
}

function toolCall(part: ToolCallPart, { provider, model }: MessageTarget): PromptToolCallPart {
  return {
    type: "tool-call",
    toolCallId: acceptedCallId(part.callId, provider),
    toolName: acceptedToolName(part.name, provider),
    input: inputOf(part),
    ...replayTo(model, part.replay),
  };
}

/** Several providers take nothing but an object. */
function inputOf({ args, rawArgs }: ToolCallPart): JsonObject {
  if (rawArgs !== undefined) return { malformed_arguments: rawArgs };
  return isJsonObject(args) ? args : { arguments: args };
}

function toolResult(
  { callId, name, text, isError }: ToolResultPart,
  { provider }: MessageTarget,
): PromptToolResultPart {
  return {
    type: "tool-result",
    toolCallId: acceptedCallId(callId, provider),
    toolName: acceptedToolName(name, provider),
    output: { type: isError === true ? "error-text" : "text", value: text },
  };
}

// A prompt between our messages and the wire: the form of the AI SDK, whose specifications agree on all of it but
// files. The native adapters make their wire formats of it, so that every adapter tells a history in the same way.

import { isJsonObject, type JsonObject } from "../model/json.ts";

/** Provider options and provider metadata: an object for each provider, by the provider's name. */
export type ProviderData = { readonly [provider: string]: JsonObject };

export interface TextPart {
  readonly type: "text";
  readonly text: string;
  readonly providerOptions?: ProviderData;
}

export interface PromptReasoningPart {
  readonly type: "reasoning";
  readonly text: string;
  readonly providerOptions?: ProviderData;
}

/** A file as specification v3 has it. */
export interface FilePartV3 {
  readonly type: "file";
  readonly mediaType: string;
  readonly data: Uint8Array | string | URL;
}

/** A file as specification v4 has it. */
export interface FilePartV4 {
  readonly type: "file";
  readonly mediaType: string;
  readonly data:
    | { readonly type: "data"; readonly data: Uint8Array | string }
    | { readonly type: "url"; readonly url: URL }
    | { readonly type: "reference"; readonly reference: Readonly<Record<string, string>> };
}

export type FilePart = FilePartV3 | FilePartV4;

export interface PromptToolCallPart {
  readonly type: "tool-call";
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: JsonObject;
  readonly providerOptions?: ProviderData;
}

export interface PromptToolResultPart {
  readonly type: "tool-result";
  readonly toolCallId: string;
  readonly toolName: string;
  readonly output: { readonly type: "text" | "error-text"; readonly value: string };
}

export interface UserMessage {
  readonly role: "user";
  readonly content: readonly (TextPart | FilePart)[];
  readonly providerOptions?: ProviderData;
}

export interface AssistantMessage {
  readonly role: "assistant";
  readonly content: readonly (TextPart | PromptReasoningPart | PromptToolCallPart)[];
  readonly providerOptions?: ProviderData;
}

export interface ToolMessage {
  readonly role: "tool";
  readonly content: readonly PromptToolResultPart[];
  readonly providerOptions?: ProviderData;
}

export interface SystemMessage {
  readonly role: "system";
  readonly content: string;
  readonly providerOptions?: ProviderData;
}

export type PromptMessage = UserMessage | AssistantMessage | ToolMessage;

/** The members that are objects: what else stands there is of no provider. */
export function providerData(options: JsonObject): ProviderData {
  const entries = Object.entries(options).filter((entry): entry is [string, JsonObject] =>
    isJsonObject(entry[1]),
  );
  return Object.fromEntries(entries);
}

/** Data of both, member by member for each provider; the later wins. */
export function mergeProviderData(first: ProviderData, later: ProviderData): ProviderData {
  const merged: { [provider: string]: JsonObject } = { ...first };
  for (const [provider, data] of Object.entries(later)) merged[provider] = { ...merged[provider], ...data };
  return merged;
}

// A native model and a server for it, in one line.

import type { ModelPort, ModelRequest } from "marling";
import type { JsonObject } from "../../src/model/json.ts";
import {
  type AnthropicModelOptions,
  anthropicModel,
  type OpenAiModelOptions,
  openaiModel,
} from "../../src/models.ts";
import { anthropicWire } from "./anthropic-wire.ts";
import { openAiChatWire } from "./chat-wire.ts";
import { type Called, call, responseOf } from "./port-calls.ts";
import { event } from "./wire.ts";
import { type SentRequest, type WireReply, wireServer } from "./wire-server.ts";

type Made<Options> = Partial<Options>;

export const viaChat = (url: string, options: Made<OpenAiModelOptions> = {}): ModelPort =>
  openaiModel({ model: "local", baseUrl: `${url}/v1`, ...options });

export const viaMessages = (url: string, options: Made<AnthropicModelOptions> = {}): ModelPort =>
  anthropicModel({ model: "claude-sonnet-4-5", baseUrl: `${url}/v1`, ...options });

/** What a server is sent for a request that it answers with a word. */
export async function sentToChat(
  changes: Partial<ModelRequest>,
  options: Made<OpenAiModelOptions> = {},
): Promise<SentRequest & { readonly warnings: unknown }> {
  const server = await wireServer([{ kind: "stream", events: openAiChatWire.events({ text: ["Hi."] }) }]);
  return sent(await call(viaChat(server.url, options), changes), server.sent[0]);
}

export async function sentToMessages(
  changes: Partial<ModelRequest>,
  options: Made<AnthropicModelOptions> = {},
): Promise<SentRequest & { readonly warnings: unknown }> {
  const server = await wireServer([{ kind: "stream", events: anthropicWire.events({ text: ["Hi."] }) }]);
  return sent(await call(viaMessages(server.url, options), changes), server.sent[0]);
}

/** What a stream of these events comes to. */
export async function streamedByChat(
  events: readonly (JsonObject | string)[],
  reply: Partial<WireReply> = {},
): Promise<Called> {
  const server = await wireServer([
    { kind: "stream", events: events.map((data) => event(data)), ...reply } as WireReply,
  ]);
  return call(viaChat(server.url));
}

export async function streamedByMessages(events: readonly JsonObject[]): Promise<Called> {
  const server = await wireServer([{ kind: "stream", events: events.map((data) => event(data)) }]);
  return call(viaMessages(server.url));
}

/** An event of Chat Completions with one delta. */
export function delta(value: JsonObject, finish: string | null = null): JsonObject {
  return { choices: [{ index: 0, delta: value, finish_reason: finish }] };
}

function sent(
  called: Called,
  request: SentRequest | undefined,
): SentRequest & { readonly warnings: unknown } {
  const { evidence } = responseOf(called);
  if (request === undefined) throw new Error("expected a request");
  return { ...request, warnings: evidence?.warnings };
}

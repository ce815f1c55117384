// OpenAI's Chat Completions, and everything that is compatible with them, as a model port.

import { promptMemory } from "../../build-prompt.ts";
import type { ModelPort } from "../../contract.ts";
import { nativeModel } from "../native-model.ts";
import type { NativeModelOptions } from "../native-model-options.ts";
import { addressOf, type ProviderDefaults } from "../native-options.ts";
import { SPECIFICATION } from "../wire-file.ts";
import { WrittenTools } from "../written-tools.ts";
import { chatEvents } from "./chat-events.ts";
import { type ChatBuilder, chatRequest, chatTools } from "./chat-request.ts";

export interface OpenAiModelOptions extends NativeModelOptions {
  readonly organization?: string;
  readonly project?: string;
}

const OPENAI: ProviderDefaults = {
  baseUrl: "https://api.openai.com/v1",
  path: "/chat/completions",
  keyVariable: "OPENAI_API_KEY",
  keyHeaders: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
};

/**
 * A model that is spoken to in Chat Completions: OpenAI's, or with a `baseUrl` whatever is compatible (Ollama, LM
 * Studio, vLLM and others, which need no key).
 * Contract: that of `ModelPort`. Nothing is retried. Options of a request under `openai` become members of the body, by
 * their names on the wire.
 */
export function openaiModel(options: OpenAiModelOptions): ModelPort {
  const { model, organization, project, contextWindow, maxOutputTokens } = options;
  const { isOfficial, target, headers } = addressOf(options, OPENAI);
  const id = options.id ?? `${isOfficial ? "openai" : "openai-compatible"}/${model}`;
  const builder: ChatBuilder = {
    id,
    model: {
      specificationVersion: SPECIFICATION,
      provider: isMistral(target.url.hostname) ? "mistral" : "openai",
    },
    modelId: model,
    isOfficial,
    maxOutputTokens,
    ...promptMemory(),
    written: new WeakMap(),
    tools: new WrittenTools(chatTools),
  };
  return nativeModel({
    id,
    ...(contextWindow === undefined ? {} : { contextWindow }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    target,
    headers: {
      ...(organization === undefined ? {} : { "openai-organization": organization }),
      ...(project === undefined ? {} : { "openai-project": project }),
      ...headers,
    },
    format: { write: (request, site) => chatRequest(builder, request, site), read: chatEvents },
  });
}

/** Mistral takes ids of calls in a form of its own. */
function isMistral(host: string): boolean {
  return host.endsWith("mistral.ai");
}

// Anthropic's Messages as a model port.

import { promptMemory } from "../../build-prompt.ts";
import type { ModelPort } from "../../contract.ts";
import { nativeModel } from "../native-model.ts";
import type { NativeModelOptions } from "../native-model-options.ts";
import { addressOf, type ProviderDefaults } from "../native-options.ts";
import { SPECIFICATION } from "../wire-file.ts";
import { WrittenTools } from "../written-tools.ts";
import { claudeModel } from "./claude-models.ts";
import { messagesEvents } from "./messages-events.ts";
import { type MessagesBuilder, messagesRequest, messagesTools } from "./messages-request.ts";

export interface AnthropicModelOptions extends NativeModelOptions {
  /** Whether the prompt is marked for the provider's cache; `auto`, the default, marks all that stays the same. */
  readonly promptCache?: "auto" | "off";
}

const ANTHROPIC: ProviderDefaults = {
  baseUrl: "https://api.anthropic.com/v1",
  path: "/messages",
  keyVariable: "ANTHROPIC_API_KEY",
  keyHeaders: (apiKey) => ({ "x-api-key": apiKey }),
};

/**
 * A model that is spoken to in Anthropic's Messages: Anthropic's, or with a `baseUrl` whatever is compatible.
 * Contract: that of `ModelPort`. Nothing is retried. Options of a request under `anthropic` become members of the body,
 * by their names on the wire.
 */
export function anthropicModel(options: AnthropicModelOptions): ModelPort {
  const { model, contextWindow, maxOutputTokens, promptCache = "auto" } = options;
  const { isOfficial, target, headers } = addressOf(options, ANTHROPIC);
  const id = options.id ?? `${isOfficial ? "anthropic" : "anthropic-compatible"}/${model}`;
  const builder: MessagesBuilder = {
    id,
    model: { specificationVersion: SPECIFICATION, provider: "anthropic" },
    modelId: model,
    claude: claudeModel(model),
    maxOutputTokens,
    caches: promptCache === "auto",
    ...promptMemory(),
    written: new WeakMap(),
    tools: new WrittenTools(messagesTools),
  };
  return nativeModel({
    id,
    ...(contextWindow === undefined ? {} : { contextWindow }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    target,
    headers: { "anthropic-version": "2023-06-01", ...headers },
    format: { write: (request, site) => messagesRequest(builder, request, site), read: messagesEvents },
  });
}

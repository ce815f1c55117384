// What the conformance suite runs over: the providers of the AI SDK, both lines of each, and the native models.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createAnthropic as createAnthropicV4 } from "ai-sdk-anthropic-v4";
import { createGoogleGenerativeAI as createGoogleV4 } from "ai-sdk-google-v4";
import { createOpenAICompatible as createCompatibleV4 } from "ai-sdk-openai-compatible-v4";
import { createOpenAI as createOpenAIV4 } from "ai-sdk-openai-v4";
import type { AiSdkLanguageModel, ModelPort } from "marling";
import type { JsonObject } from "../../src/model/json.ts";
import { anthropicModel, modelFetch, openaiModel } from "../../src/models.ts";
import { anthropicWire } from "./anthropic-wire.ts";
import { compatibleWire, openAiChatWire } from "./chat-wire.ts";
import { googleWire } from "./google-wire.ts";
import { responsesWire } from "./responses-wire.ts";
import type { Wire } from "./wire.ts";

export interface Provider {
  readonly name: string;
  readonly wire: Wire;
  /** A model that talks to a server. */
  model(url: string): AiSdkLanguageModel | ModelPort;
  /** What the calls of the suite are made with. */
  readonly providerOptions: JsonObject;
}

/** The providers with another key, which the hostile suite looks for. */
export function hostileProviders(key: string): readonly (Provider & { readonly noKey?: boolean })[] {
  return providersOf(key).map((provider) =>
    provider.name === "native openai-compatible" ? { ...provider, noKey: true } : provider,
  );
}

function providersOf(apiKey: string): readonly Provider[] {
  const compatible = { name: "local", apiKey, includeUsage: true, supportsStructuredOutputs: true };
  const stateless = { openai: { store: false } };

  return [
    {
      name: "anthropic v3",
      wire: anthropicWire,
      providerOptions: {},
      model: (url) => createAnthropic({ baseURL: `${url}/v1`, apiKey })("claude-sonnet-4-5"),
    },
    {
      name: "anthropic v4",
      wire: anthropicWire,
      providerOptions: {},
      model: (url) => createAnthropicV4({ baseURL: `${url}/v1`, apiKey })("claude-sonnet-4-5"),
    },
    {
      name: "openai responses v3",
      wire: responsesWire,
      providerOptions: stateless,
      model: (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey }).responses("gpt-5"),
    },
    {
      name: "openai responses v4",
      wire: responsesWire,
      providerOptions: stateless,
      model: (url) => createOpenAIV4({ baseURL: `${url}/v1`, apiKey }).responses("gpt-5"),
    },
    {
      name: "openai chat v3",
      wire: openAiChatWire,
      providerOptions: {},
      model: (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey }).chat("gpt-4o"),
    },
    {
      name: "openai chat v4",
      wire: openAiChatWire,
      providerOptions: {},
      model: (url) => createOpenAIV4({ baseURL: `${url}/v1`, apiKey }).chat("gpt-4o"),
    },
    {
      name: "google v3",
      wire: googleWire,
      providerOptions: {},
      model: (url) => createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey })("gemini-2.5-flash"),
    },
    {
      name: "google v4",
      wire: googleWire,
      providerOptions: {},
      model: (url) => createGoogleV4({ baseURL: `${url}/v1beta`, apiKey })("gemini-2.5-flash"),
    },
    {
      name: "openai-compatible v3",
      wire: compatibleWire,
      providerOptions: {},
      model: (url) => createOpenAICompatible({ baseURL: `${url}/v1`, ...compatible })("local-model"),
    },
    {
      name: "openai-compatible v4",
      wire: compatibleWire,
      providerOptions: {},
      model: (url) => createCompatibleV4({ baseURL: `${url}/v1`, ...compatible })("local-model"),
    },
    {
      name: "anthropic v4 by modelFetch",
      wire: anthropicWire,
      providerOptions: {},
      model: (url) =>
        createAnthropicV4({ baseURL: `${url}/v1`, apiKey, fetch: modelFetch() })("claude-sonnet-4-5"),
    },
    {
      name: "openai-compatible v3 by modelFetch",
      wire: compatibleWire,
      providerOptions: {},
      model: (url) =>
        createOpenAICompatible({ baseURL: `${url}/v1`, ...compatible, fetch: modelFetch() })("local-model"),
    },
    {
      name: "native anthropic",
      wire: anthropicWire,
      providerOptions: {},
      model: (url) => anthropicModel({ baseUrl: `${url}/v1`, apiKey, model: "claude-sonnet-4-5" }),
    },
    {
      name: "native openai chat",
      wire: openAiChatWire,
      providerOptions: {},
      model: (url) => openaiModel({ baseUrl: `${url}/v1`, apiKey, model: "gpt-4o" }),
    },
    {
      name: "native openai-compatible",
      wire: compatibleWire,
      providerOptions: {},
      model: (url) => openaiModel({ baseUrl: `${url}/v1`, model: "local-model" }),
    },
    {
      name: "native anthropic by fetch",
      wire: anthropicWire,
      providerOptions: {},
      model: (url) => anthropicModel({ baseUrl: `${url}/v1`, apiKey, model: "claude-sonnet-4-5", fetch }),
    },
    {
      name: "native openai chat by fetch",
      wire: openAiChatWire,
      providerOptions: {},
      model: (url) => openaiModel({ baseUrl: `${url}/v1`, apiKey, model: "gpt-4o", fetch }),
    },
    {
      name: "native openai chat by modelFetch",
      wire: openAiChatWire,
      providerOptions: {},
      model: (url) => openaiModel({ baseUrl: `${url}/v1`, apiKey, model: "gpt-4o", fetch: modelFetch() }),
    },
  ];
}

export const PROVIDERS: readonly Provider[] = providersOf("test-key");

// Language models on wires of their own, without a package of a provider: OpenAI-compatible Chat Completions and
// Anthropic Messages.

export type { ModelPort } from "./llm/contract.ts";
export type { AnthropicModelOptions } from "./llm/native/anthropic/anthropic-model.ts";
export { anthropicModel } from "./llm/native/anthropic/anthropic-model.ts";
export type { ModelFetchOptions } from "./llm/native/model-fetch.ts";
export { modelFetch } from "./llm/native/model-fetch.ts";
export type { CallTimeouts, FetchFunction, NativeModelOptions } from "./llm/native/native-model-options.ts";
export type { OpenAiModelOptions } from "./llm/native/openai/openai-model.ts";
export { openaiModel } from "./llm/native/openai/openai-model.ts";

// Language models of the AI SDK. A runtime takes them as they are; this is for whoever wants the port itself.

export type { AiSdkModelOptions } from "./llm/ai-sdk/ai-sdk-model.ts";
export { aiSdkModel } from "./llm/ai-sdk/ai-sdk-model.ts";
export type { AiSdkLanguageModel, AiSdkSpecification, AiSdkStream } from "./llm/ai-sdk/language-model.ts";
export type { ModelPort } from "./llm/contract.ts";

// Compile-time tests: models of the real provider packages are models here, and what they are called with is what both
// specifications ask for. Nothing here runs.

import { anthropic } from "@ai-sdk/anthropic";
import { google } from "@ai-sdk/google";
import { openai } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModelV3, LanguageModelV3CallOptions } from "@ai-sdk/provider";
import { anthropic as anthropicV4 } from "ai-sdk-anthropic-v4";
import { google as googleV4 } from "ai-sdk-google-v4";
import { createOpenAICompatible as createCompatibleV4 } from "ai-sdk-openai-compatible-v4";
import { openai as openaiV4 } from "ai-sdk-openai-v4";
import { type AiSdkLanguageModel, createRuntime } from "marling";
import { aiSdkModel } from "marling/ai-sdk";
import type { CallOptions } from "../../src/llm/ai-sdk/call-options.ts";
import type { FilePartV3, FilePartV4 } from "../../src/llm/prompt-message.ts";

/** Types that are the same but for `readonly`. */
type Mutable<T> = T extends Uint8Array | URL | AbortSignal
  ? T
  : T extends readonly (infer Item)[]
    ? Mutable<Item>[]
    : T extends object
      ? { -readonly [K in keyof T]: Mutable<T[K]> }
      : T;

type CallOptionsV4 = Parameters<ReturnType<typeof anthropicV4>["doStream"]>[0];
/** A call as it is made for one specification: with its files, and with the one parameter that is v4's. */
type CallFor<File> = Omit<Mutable<CallOptions>, "prompt" | "reasoning" | "tools" | "responseFormat"> & {
  prompt: PromptFor<File>;
};
type PromptFor<File> = Mutable<Exclude<CallOptions["prompt"][number], { role: "user" }>>[] | UserFor<File>[];
type UserFor<File> = { role: "user"; content: ({ type: "text"; text: string } | Mutable<File>)[] };

export const v3: (call: CallFor<FilePartV3>) => LanguageModelV3CallOptions = (call) => call;
export const v4: (call: CallFor<FilePartV4>) => CallOptionsV4 = (call) => call;

export function models(any: LanguageModelV3): readonly AiSdkLanguageModel[] {
  const settings = { name: "local", baseURL: "http://127.0.0.1" };
  return [
    any,
    anthropic("a"),
    openai("a"),
    openai.chat("a"),
    google("a"),
    createOpenAICompatible(settings)("a"),
    anthropicV4("a"),
    openaiV4("a"),
    openaiV4.chat("a"),
    googleV4("a"),
    createCompatibleV4(settings)("a"),
  ];
}

export function options(): void {
  createRuntime({ model: anthropic("a") });
  createRuntime({
    model: { model: openaiV4("a"), contextWindow: 1, providerOptions: { openai: { store: false } } },
  });
  createRuntime({ models: { fast: google("a"), slow: { model: anthropicV4("a"), maxOutputTokens: 5 } } });
  aiSdkModel(googleV4("a"), { promptCache: "off" });
  // @ts-expect-error an embedding model is no language model
  createRuntime({ model: openai.embedding("a") });
  // @ts-expect-error the id of a model is no model
  aiSdkModel("openai/gpt-5");
}

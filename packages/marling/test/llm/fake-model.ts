// A language model of the AI SDK that streams what a test says, for what no provider of the suite can be made to do.

import type { AiSdkLanguageModel } from "marling";
import type { CallOptions } from "../../src/llm/ai-sdk/call-options.ts";
import type { AiSdkSpecification } from "../../src/llm/ai-sdk/language-model.ts";

export interface FakeModel extends AiSdkLanguageModel {
  /** What it was called with, oldest first. */
  readonly calls: readonly CallOptions[];
}

export interface FakeModelOptions {
  readonly specification?: AiSdkSpecification;
  readonly provider?: string;
  readonly modelId?: string;
  /** Asked before anything is streamed; what it throws is what `doStream` throws. */
  readonly before?: (call: CallOptions) => Promise<void> | void;
  /** Leaves the stream open behind the last part. */
  readonly hangs?: boolean;
}

const USAGE = {
  inputTokens: { total: 10, noCache: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 2, text: 2, reasoning: undefined },
};

export const STOP = { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage: USAGE };

export function finish(unified: string, raw?: string): object {
  return { type: "finish", finishReason: { unified, raw }, usage: USAGE };
}

export function text(delta: string): readonly object[] {
  return [
    { type: "text-start", id: "t" },
    { type: "text-delta", id: "t", delta },
    { type: "text-end", id: "t" },
  ];
}

/** A model that streams the same parts in every call. */
export function fakeModel(parts: readonly unknown[], options: FakeModelOptions = {}): FakeModel {
  const calls: CallOptions[] = [];
  return {
    specificationVersion: options.specification ?? "v3",
    provider: options.provider ?? "fake.chat",
    modelId: options.modelId ?? "fake-1",
    calls,
    doStream: async (call) => {
      calls.push(call as CallOptions);
      await options.before?.(call as CallOptions);
      return { stream: streamOf(parts, options.hangs === true) };
    },
  };
}

function streamOf(parts: readonly unknown[], hangs: boolean): ReadableStream<unknown> {
  let next = 0;
  return new ReadableStream({
    pull: (controller) => {
      if (next < parts.length) controller.enqueue(parts[next++]);
      else if (hangs) return new Promise<void>(() => {});
      else controller.close();
      return undefined;
    },
  });
}

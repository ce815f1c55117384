// What is used of a language model of the AI SDK, as a structure: models of every provider package fit it, and nothing
// of those packages is needed to read these declarations.

/** Which specification of the AI SDK a model follows. */
export type AiSdkSpecification = "v3" | "v4";

/** A stream as it is read here; a web `ReadableStream` is one. */
export interface AiSdkStream {
  getReader(): {
    read(): Promise<{ readonly done: boolean; readonly value?: unknown }>;
    cancel(reason?: unknown): Promise<void>;
  };
}

/**
 * A language model of the AI SDK, such as `anthropic("...")` or `openai("...")`, of specification v3 or v4.
 * Only `doStream` is called.
 */
export interface AiSdkLanguageModel {
  readonly specificationVersion: AiSdkSpecification;
  readonly provider: string;
  readonly modelId: string;
  doStream(options: object): PromiseLike<{ readonly stream: AiSdkStream }>;
}

const SPECIFICATIONS: ReadonlySet<unknown> = new Set<AiSdkSpecification>(["v3", "v4"]);

export function isAiSdkModel(value: unknown): value is AiSdkLanguageModel {
  if (typeof value !== "object" || value === null || !("doStream" in value)) return false;
  if (!("specificationVersion" in value && "provider" in value && "modelId" in value)) return false;
  const { specificationVersion, provider, modelId, doStream } = value;
  return (
    SPECIFICATIONS.has(specificationVersion) &&
    typeof provider === "string" &&
    typeof modelId === "string" &&
    typeof doStream === "function"
  );
}

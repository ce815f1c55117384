// From a request of ours to a call of the AI SDK.
//   LA22  schemas are not frozen, and copied once: V8 begins the JSON of a request anew when it comes to a frozen list.

import type { JsonObject } from "../../model/json.ts";
import { inputSchemaOf, type PromptBuilder, type PromptSite, promptOf, withSchema } from "../build-prompt.ts";
import { knownParameters } from "../call-parameters.ts";
import type { ModelRequest, ToolSpec } from "../contract.ts";
import {
  mergeProviderData,
  type PromptMessage,
  type ProviderData,
  providerData,
  type SystemMessage,
} from "../prompt-message.ts";
import type { CallOptions } from "./call-options.ts";
import type { AiSdkLanguageModel } from "./language-model.ts";

/** What a port of a model keeps between calls. */
export interface CallBuilder extends PromptBuilder {
  readonly model: AiSdkLanguageModel;
  readonly caches: boolean;
}

export interface CallSite extends PromptSite {
  readonly signal: AbortSignal;
}

const CACHE_HERE: ProviderData = { anthropic: { cacheControl: { type: "ephemeral" } } };

export async function buildCall(
  builder: CallBuilder,
  request: ModelRequest,
  site: CallSite,
): Promise<CallOptions> {
  const { tools, outputSchema, headers } = request;
  const asksInWords = outputSchema !== undefined && !canFollowSchema(builder.model, request);
  const system = asksInWords ? withSchema(request.system, outputSchema) : request.system;
  const prompt = await promptOf(builder, request.messages, site);
  const options = providerData(request.providerOptions);
  return {
    ...knownParameters(request.parameters),
    prompt: builder.caches ? markedForCache(system, prompt) : [...systemMessages(system), ...prompt],
    ...(tools.length === 0
      ? {}
      : { tools: tools.map(functionTool), toolChoice: { type: request.toolChoice } }),
    ...(outputSchema === undefined || asksInWords
      ? {}
      : { responseFormat: { type: "json", schema: thawed(outputSchema), name: "answer" } }),
    ...(Object.keys(options).length === 0 ? {} : { providerOptions: options }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    abortSignal: site.signal,
  };
}

/** Whether the provider takes a schema of the answer, beside these tools. */
function canFollowSchema(model: AiSdkLanguageModel, { tools }: ModelRequest): boolean {
  if ("supportsStructuredOutputs" in model && model.supportsStructuredOutputs === false) return false;
  return tools.length === 0 || !model.provider.startsWith("google");
}

function systemMessages(content: string): readonly SystemMessage[] {
  return content.trim() === "" ? [] : [{ role: "system", content }];
}

/** What is before a mark is read from the provider's cache next time: the system prompt, and all of it so far. */
function markedForCache(system: string, prompt: readonly PromptMessage[]): CallOptions["prompt"] {
  const last = prompt.at(-1);
  return [
    ...systemMessages(system).map((message) => ({ ...message, providerOptions: CACHE_HERE })),
    ...prompt.slice(0, -1),
    ...(last === undefined
      ? []
      : [{ ...last, providerOptions: mergeProviderData(last.providerOptions ?? {}, CACHE_HERE) }]),
  ];
}

function functionTool(tool: ToolSpec): NonNullable<CallOptions["tools"]>[number] {
  const { name, description } = tool;
  const inputSchema = inputSchemaOf({ ...tool, inputSchema: thawed(tool.inputSchema) });
  return { type: "function", name, description, inputSchema };
}

const THAWED = new WeakMap<JsonObject, JsonObject>();

/** A schema that is not frozen: see LA22. */
function thawed(schema: JsonObject): JsonObject {
  const known = THAWED.get(schema);
  if (known !== undefined) return known;
  const copy = structuredClone(schema);
  THAWED.set(schema, copy);
  return copy;
}

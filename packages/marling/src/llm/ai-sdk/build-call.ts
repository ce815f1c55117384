// From a request of ours to a call of the AI SDK.

import type { Json, JsonObject } from "../../model/json.ts";
import type { ModelMessage, ModelRequest, ToolSpec } from "../contract.ts";
import { type AttachmentReader, attachmentPart } from "./attachment-part.ts";
import {
  type CallOptions,
  type CallParameters,
  mergeProviderData,
  type PromptMessage,
  type ProviderData,
  providerData,
  type SystemMessage,
} from "./call-options.ts";
import { type AttachmentPart, convertMessage, type MessageTarget } from "./convert-message.ts";
import type { AiSdkLanguageModel } from "./language-model.ts";
import { PromptAssembly } from "./prompt-assembly.ts";

/** What a port of a model keeps between calls. */
export interface CallBuilder {
  readonly model: AiSdkLanguageModel;
  /** The port's id. */
  readonly id: string;
  readonly caches: boolean;
  /** Messages without attachments as they were converted before: a request costs what is new in it. */
  readonly converted: WeakMap<ModelMessage, readonly PromptMessage[]>;
}

export interface CallSite {
  readonly signal: AbortSignal;
  readonly blobs: AttachmentReader["blobs"];
  readonly withheld: ReadonlySet<string>;
}

const CACHE_HERE: ProviderData = { anthropic: { cacheControl: { type: "ephemeral" } } };

/** The names that parameters may have, and what each must be. */
const PARAMETERS: { readonly [K in keyof Required<CallParameters>]: (value: Json) => boolean } = {
  maxOutputTokens: isNumber,
  temperature: isNumber,
  topP: isNumber,
  topK: isNumber,
  presencePenalty: isNumber,
  frequencyPenalty: isNumber,
  seed: isNumber,
  stopSequences: (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
  reasoning: (value) => typeof value === "string",
};

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
      : { responseFormat: { type: "json", schema: outputSchema, name: "answer" } }),
    ...(Object.keys(options).length === 0 ? {} : { providerOptions: options }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    abortSignal: site.signal,
  };
}

/** The parameters that no model of the AI SDK knows, or that are of the wrong type. */
export function unknownParameters(parameters: JsonObject): readonly string[] {
  return Object.keys(parameters).filter((name) => !isKnown(name, parameters[name] as Json));
}

async function promptOf(
  builder: CallBuilder,
  messages: readonly ModelMessage[],
  site: CallSite,
): Promise<readonly PromptMessage[]> {
  const assembly = new PromptAssembly();
  for (const message of messages) {
    const attachments = message.parts.filter((part) => part.kind === "attachment");
    const converted =
      attachments.length === 0
        ? convertOnce(builder, message)
        : convertMessage(message, targetOf(builder, await showAttachments(builder, attachments, site)));
    for (const one of converted) assembly.add(one);
  }
  return assembly.finish();
}

function convertOnce(builder: CallBuilder, message: ModelMessage): readonly PromptMessage[] {
  const known = builder.converted.get(message);
  if (known !== undefined) return known;
  const converted = convertMessage(message, targetOf(builder, new Map()));
  builder.converted.set(message, converted);
  return converted;
}

function targetOf({ model, id }: CallBuilder, shown: MessageTarget["shown"]): MessageTarget {
  return { provider: model.provider, model: id, shown };
}

async function showAttachments(
  { model }: CallBuilder,
  attachments: readonly AttachmentPart[],
  { blobs, withheld }: CallSite,
): Promise<MessageTarget["shown"]> {
  const reader = { model, blobs, withheld };
  return new Map(
    await Promise.all(
      attachments.map(async (part) => [part, await attachmentPart(part.source, reader)] as const),
    ),
  );
}

/** Whether the provider takes a schema of the answer, beside these tools. */
function canFollowSchema(model: AiSdkLanguageModel, { tools }: ModelRequest): boolean {
  if ("supportsStructuredOutputs" in model && model.supportsStructuredOutputs === false) return false;
  return tools.length === 0 || !model.provider.startsWith("google");
}

function withSchema(system: string, schema: JsonObject): string {
  const ask = `Give your final answer as JSON that follows this JSON schema, and nothing else:\n${JSON.stringify(schema)}`;
  return system.trim() === "" ? ask : `${system}\n\n${ask}`;
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

function functionTool({
  name,
  description,
  inputSchema,
}: ToolSpec): NonNullable<CallOptions["tools"]>[number] {
  const schema = inputSchema.type === undefined ? { type: "object", ...inputSchema } : inputSchema;
  return { type: "function", name, description, inputSchema: schema };
}

function knownParameters(parameters: JsonObject): CallParameters {
  return Object.fromEntries(Object.entries(parameters).filter(([name, value]) => isKnown(name, value)));
}

function isKnown(name: string, value: Json): boolean {
  return Object.hasOwn(PARAMETERS, name) && PARAMETERS[name as keyof CallParameters](value);
}

function isNumber(value: Json): boolean {
  return typeof value === "number";
}

// A request as Chat Completions have it.

import { isJsonObject, type Json, type JsonObject } from "../../../model/json.ts";
import { inputSchemaOf, type PromptBuilder, type PromptSite, promptOf } from "../../build-prompt.ts";
import { type CallParameters, knownParameters } from "../../call-parameters.ts";
import type { ModelRequest } from "../../contract.ts";
import type { WireMessage } from "../native-model.ts";
import { isStrict, type SchemaLimits } from "../strict-schema.ts";
import type { WrittenTools } from "../written-tools.ts";
import { type WrittenMessages, writeMessage } from "./chat-messages.ts";

export interface ChatBuilder extends PromptBuilder {
  readonly modelId: string;
  /** Whether it is OpenAI itself, which refuses what its servers of old and others take. */
  readonly isOfficial: boolean;
  readonly maxOutputTokens: number | undefined;
  readonly written: WrittenMessages;
  readonly tools: WrittenTools;
}

/** The names of parameters on the wire. */
const NAMES = {
  temperature: "temperature",
  topP: "top_p",
  presencePenalty: "presence_penalty",
  frequencyPenalty: "frequency_penalty",
  seed: "seed",
  stopSequences: "stop",
  reasoning: "reasoning_effort",
} as const satisfies { readonly [K in keyof CallParameters]: string };

/** What models that always reason refuse. */
const SAMPLING = ["temperature", "topP", "presencePenalty", "frequencyPenalty"] as const;
const REASONING_MODEL = /^(?:o\d|gpt-(?:[5-9]|\d\d)(?!-chat))/;

/** Members of the body that are not for options to set. */
const OURS: ReadonlySet<string> = new Set(["messages", "stream"]);

const STRICT: SchemaLimits = {
  allRequired: true,
  refused: new Set(["allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "patternProperties"]),
};

export async function chatRequest(
  builder: ChatBuilder,
  request: ModelRequest,
  site: PromptSite,
): Promise<WireMessage> {
  const prompt = await promptOf(builder, request.messages, site);
  const { parameters, warnings } = parametersOf(builder, knownParameters(request.parameters));
  const { tools, toolChoice, outputSchema, system } = request;
  const options = isJsonObject(request.providerOptions.openai) ? request.providerOptions.openai : {};
  const head = {
    model: builder.modelId,
    stream: true,
    stream_options: { include_usage: true },
    ...parameters,
    ...(tools.length === 0 ? {} : { tool_choice: toolChoice }),
    ...(outputSchema === undefined ? {} : { response_format: formatOf(outputSchema) }),
    ...Object.fromEntries(Object.entries(options).filter(([name]) => !OURS.has(name))),
  };
  const messages = prompt.map((message) => writeMessage(message, builder.written));
  if (system.trim() !== "") messages.unshift(JSON.stringify({ role: "system", content: system }));
  const toolText = tools.length === 0 || "tools" in head ? "" : `,"tools":${builder.tools.textOf(tools)}`;
  const body = `${JSON.stringify(head).slice(0, -1)}${toolText},"messages":[${messages.join(",")}]}`;
  return { body, warnings };
}

function parametersOf(
  { modelId, isOfficial, maxOutputTokens }: ChatBuilder,
  given: CallParameters,
): { readonly parameters: JsonObject; readonly warnings: readonly Json[] } {
  const limit = given.maxOutputTokens ?? maxOutputTokens;
  const limitName = isOfficial ? "max_completion_tokens" : "max_tokens";
  const parameters: { [name: string]: Json } = limit === undefined ? {} : { [limitName]: limit };
  if (Object.keys(given).length === 0) return { parameters, warnings: [] };
  const refusesSampling = isOfficial && REASONING_MODEL.test(modelId) && given.reasoning !== "none";
  const refused: ReadonlySet<string> = new Set(["topK", ...(refusesSampling ? SAMPLING : [])]);
  for (const [name, wireName] of Object.entries(NAMES)) {
    const value = given[name as keyof typeof NAMES];
    if (value !== undefined && !refused.has(name)) parameters[wireName] = value;
  }
  const warnings = Object.keys(given)
    .filter((name) => refused.has(name))
    .map((feature) => ({ type: "unsupported", feature }));
  return { parameters, warnings };
}

export function chatTools(tools: ModelRequest["tools"]): Json {
  return tools.map((tool) => ({
    type: "function",
    function: { name: tool.name, description: tool.description, parameters: inputSchemaOf(tool) },
  }));
}

/** Strict where the provider can be: a schema that it cannot follow to the letter is followed as well as it goes. */
function formatOf(schema: JsonObject): JsonObject {
  return { type: "json_schema", json_schema: { name: "answer", schema, strict: isStrict(schema, STRICT) } };
}

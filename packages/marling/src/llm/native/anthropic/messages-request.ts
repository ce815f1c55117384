// A request as Anthropic's Messages have it.
//   LN12  what stays the same from call to call is marked for the cache: the tools, the system prompt, the user's message
//         before the last and the last one. Four marks are the most that the provider takes.

import { isJsonObject, type Json, type JsonObject } from "../../../model/json.ts";
import {
  inputSchemaOf,
  type PromptBuilder,
  type PromptSite,
  promptOf,
  withSchema,
} from "../../build-prompt.ts";
import { type CallParameters, knownParameters } from "../../call-parameters.ts";
import type { ModelRequest, ToolChoice } from "../../contract.ts";
import type { PromptMessage } from "../../prompt-message.ts";
import type { WireMessage } from "../native-model.ts";
import { isStrict, type SchemaLimits } from "../strict-schema.ts";
import type { WrittenTools } from "../written-tools.ts";
import type { ClaudeModel } from "./claude-models.ts";
import { refersToFile, type WrittenBlocks, writeBlocks } from "./messages-blocks.ts";
import { thinkingOf } from "./thinking.ts";

export interface MessagesBuilder extends PromptBuilder {
  readonly modelId: string;
  readonly claude: ClaudeModel;
  readonly maxOutputTokens: number | undefined;
  readonly caches: boolean;
  readonly written: WrittenBlocks;
  readonly tools: WrittenTools;
}

interface Group {
  readonly role: "user" | "assistant";
  readonly blocks: string[];
}

const MARK = { cache_control: { type: "ephemeral" } } as const;
const MARK_TEXT = ',"cache_control":{"type":"ephemeral"}}';
const FILES_BETA = { "anthropic-beta": "files-api-2025-04-14" };

/** Members of the body that are not for options to set. */
const OURS: ReadonlySet<string> = new Set(["messages", "stream"]);
const CHOICES: { readonly [K in ToolChoice]: string } = { auto: "auto", none: "none", required: "any" };
const UNSUPPORTED = ["presencePenalty", "frequencyPenalty", "seed"] as const;
const SAMPLING = ["temperature", "topP", "topK"] as const;

const STRICT: SchemaLimits = {
  allRequired: false,
  refused: new Set([
    ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"],
    ...[
      "minItems",
      "maxItems",
      "uniqueItems",
      "contains",
      "minProperties",
      "maxProperties",
      "patternProperties",
    ],
    ...[
      "propertyNames",
      "oneOf",
      "not",
      "if",
      "then",
      "else",
      "dependentRequired",
      "dependentSchemas",
      "$ref",
    ],
  ]),
};

export async function messagesRequest(
  builder: MessagesBuilder,
  request: ModelRequest,
  site: PromptSite,
): Promise<WireMessage> {
  const prompt = await promptOf(builder, request.messages, site);
  const options = isJsonObject(request.providerOptions.anthropic) ? request.providerOptions.anthropic : {};
  const marks = builder.caches && options.cache_control === undefined;
  const { members, warnings } = parametersOf(builder, request, options);
  const schema = request.outputSchema;
  const asksInWords = schema !== undefined && !followsSchema(builder, schema);
  const system = asksInWords ? withSchema(request.system, schema) : request.system;
  const { output_config: configured, ...rest } = options;
  const config = {
    ...(isJsonObject(members.output_config) ? members.output_config : {}),
    ...(schema === undefined || asksInWords ? {} : { format: { type: "json_schema", schema } }),
    ...(isJsonObject(configured) ? configured : {}),
  };
  const head = {
    ...members,
    ...(system.trim() === "" ? {} : { system: [{ type: "text", text: system, ...(marks ? MARK : {}) }] }),
    ...Object.fromEntries(Object.entries(rest).filter(([name]) => !OURS.has(name))),
    output_config: Object.keys(config).length === 0 ? undefined : config,
  };
  const toolText = "tools" in head ? "" : toolsOf(builder, request, marks);
  const body = `${JSON.stringify(head).slice(0, -1)}${toolText},"messages":[${messagesOf(builder, prompt, marks)}]}`;
  return { body, warnings, ...(prompt.some(refersToFile) ? { headers: FILES_BETA } : {}) };
}

/** What the parameters and the choice of tools come to. */
function parametersOf(
  { modelId, claude, maxOutputTokens }: MessagesBuilder,
  request: ModelRequest,
  options: JsonObject,
): { readonly members: JsonObject; readonly warnings: readonly Json[] } {
  const given = knownParameters(request.parameters);
  const limit = given.maxOutputTokens ?? maxOutputTokens ?? claude.maxOutputTokens;
  const asked = thinkingOf(given.reasoning, claude, limit);
  const thinking = options.thinking ?? asked?.thinking;
  const isThinking = isJsonObject(thinking) && thinking.type !== "disabled";
  const isForced = request.toolChoice === "required" && isThinking; // Refused: thinking models choose themselves.
  const refused: readonly string[] = [
    ...UNSUPPORTED,
    ...(claude.isSampled && !isThinking ? [] : SAMPLING),
    ...(asked === undefined ? ["reasoning"] : []),
  ];
  const choice = isForced ? "auto" : request.toolChoice;
  const features = [
    ...Object.keys(given).filter((name) => refused.includes(name)),
    ...(isForced ? ["toolChoice"] : []),
  ];
  return {
    members: {
      model: modelId,
      stream: true,
      max_tokens: limit,
      ...(refused.includes("temperature") ? {} : samplingOf(given)),
      ...(given.stopSequences === undefined ? {} : { stop_sequences: given.stopSequences }),
      ...(thinking === undefined ? {} : { thinking }),
      ...(asked?.effort === undefined ? {} : { output_config: { effort: asked.effort } }),
      ...(request.tools.length === 0 ? {} : { tool_choice: { type: CHOICES[choice] } }),
    },
    warnings: features.map((feature) => ({ type: "unsupported", feature })),
  };
}

function samplingOf({ temperature, topP, topK }: CallParameters): JsonObject {
  return {
    ...(temperature === undefined ? {} : { temperature: Math.min(1, Math.max(0, temperature)) }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(topK === undefined ? {} : { top_k: topK }),
  };
}

export function messagesTools(tools: ModelRequest["tools"]): Json {
  return tools.map((tool) => ({
    name: tool.name,
    description: tool.description,
    input_schema: inputSchemaOf(tool),
  }));
}

/** The member of the body that the tools are, with the mark in the last one. */
function toolsOf({ tools: written }: MessagesBuilder, { tools }: ModelRequest, marks: boolean): string {
  if (tools.length === 0) return "";
  const text = written.textOf(tools);
  return `,"tools":${marks ? `${text.slice(0, -2)}${MARK_TEXT}]` : text}`;
}

function followsSchema({ claude }: MessagesBuilder, schema: JsonObject): boolean {
  return claude.followsSchema && isStrict(schema, STRICT);
}

/** Messages as texts. Results are the user's on this wire, and stand first in what the user says. */
function messagesOf({ written }: MessagesBuilder, prompt: readonly PromptMessage[], marks: boolean): string {
  const groups: Group[] = [];
  for (const message of prompt) {
    const role = message.role === "assistant" ? "assistant" : "user";
    const blocks = writeBlocks(message === prompt.at(-1) ? trimmed(message) : message, written);
    const last = groups.at(-1);
    if (blocks.length === 0) continue;
    if (last?.role === role) last.blocks.push(...blocks);
    else groups.push({ role, blocks: [...blocks] });
  }
  if (marks) for (const group of groups.filter(({ role }) => role === "user").slice(-2)) markLast(group);
  return groups.map(({ role, blocks }) => `{"role":"${role}","content":[${blocks.join(",")}]}`).join(",");
}

/** An answer to go on from must not end in blanks. */
function trimmed(message: PromptMessage): PromptMessage {
  const last = message.role === "assistant" ? message.content.at(-1) : undefined;
  if (message.role !== "assistant" || last?.type !== "text") return message;
  return { ...message, content: [...message.content.slice(0, -1), { ...last, text: last.text.trimEnd() }] };
}

function markLast({ blocks }: Group): void {
  const last = blocks.pop() ?? "";
  blocks.push(`${last.slice(0, -1)}${MARK_TEXT}`);
}

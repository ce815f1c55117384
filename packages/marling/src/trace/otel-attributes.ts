// Records in the words of the GenAI semantic conventions.

import type { Attributes } from "@opentelemetry/api";
import { isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import type { TokenUsage } from "../model/usage.ts";
import type { TracePayloads } from "./contract.ts";

/** Providers whose name in the conventions is another one than in the port's id, whatever comes behind it. */
const PROVIDERS: Readonly<Record<string, string>> = {
  "amazon-bedrock": "aws.bedrock",
  azure: "azure.ai.openai",
  google: "gcp.gen_ai",
  "google.vertex": "gcp.vertex_ai",
  mistral: "mistral_ai",
  vertex: "gcp.vertex_ai",
  xai: "x_ai",
};

type Attempt = TracePayloads["model_attempt"];

export function attemptAttributes(payload: Attempt): Attributes {
  const { finish, usage, firstTokenMs, responseId, responseModel, attempt, model } = payload;
  return {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": providerName(payload.port),
    "gen_ai.request.model": modelName(payload),
    ...(finish === undefined ? {} : { "gen_ai.response.finish_reasons": [finish] }),
    ...(responseId === undefined ? {} : { "gen_ai.response.id": responseId }),
    ...(responseModel === undefined ? {} : { "gen_ai.response.model": responseModel }),
    ...(firstTokenMs === undefined ? {} : { "gen_ai.response.time_to_first_chunk": firstTokenMs / 1_000 }),
    ...usageAttributes(usage),
    "marling.model": model,
    "marling.attempt": attempt,
    "marling.request.messages": payload.request.messages,
    "marling.request.bytes": payload.request.bytes,
  };
}

/** In the conventions, what was read from a cache or written to it is part of the input. */
export function usageAttributes({ input, output, cacheRead, cacheWrite, reasoning }: TokenUsage): Attributes {
  return {
    "gen_ai.usage.input_tokens": input + cacheRead + cacheWrite,
    "gen_ai.usage.output_tokens": output,
    ...(cacheRead === 0 ? {} : { "gen_ai.usage.cache_read.input_tokens": cacheRead }),
    ...(cacheWrite === 0 ? {} : { "gen_ai.usage.cache_creation.input_tokens": cacheWrite }),
    ...(reasoning === 0 ? {} : { "gen_ai.usage.reasoning.output_tokens": reasoning }),
  };
}

/** The model as its provider knows it; as the runtime does where the port does not tell. */
export function modelName({ port, model }: Pick<Attempt, "port" | "model">): string {
  const slash = port.indexOf("/");
  return slash < 0 ? model : port.slice(slash + 1);
}

function providerName(port: string): string {
  const [provider = port] = port.split("/");
  const known = Object.keys(PROVIDERS)
    .filter((name) => provider === name || provider.startsWith(`${name}.`))
    .sort((a, b) => b.length - a.length)[0];
  if (known !== undefined) return PROVIDERS[known] as string;
  return provider.split(".")[0] ?? provider;
}

export function attemptContent(content: JsonObject | undefined, finish: string | undefined): Attributes {
  if (content === undefined) return {};
  const { system, messages, response } = content;
  const said = {
    role: "assistant",
    parts: partsOf(response),
    ...(finish === undefined ? {} : { finish_reason: finish }),
  };
  return {
    ...(typeof system === "string" && system !== ""
      ? { "gen_ai.system_instructions": JSON.stringify([{ type: "text", content: system }]) }
      : {}),
    "gen_ai.input.messages": JSON.stringify(listOf(messages).map(messageOf)),
    ...(response === undefined ? {} : { "gen_ai.output.messages": JSON.stringify([said]) }),
  };
}

export function toolContent(content: JsonObject | undefined): Attributes {
  if (content === undefined) return {};
  const { args = null, output = null } = content;
  return {
    "gen_ai.tool.call.arguments": JSON.stringify(args),
    "gen_ai.tool.call.result": JSON.stringify(isJsonObject(output) ? (output.outcome ?? null) : output),
  };
}

/** The input or the answer of a turn, as one message. */
export function turnContent(
  name: "gen_ai.input.messages" | "gen_ai.output.messages",
  content: JsonObject | undefined,
): Attributes {
  if (content === undefined) return {};
  const said = content.text ?? content.input ?? "";
  const text = isJsonObject(said) && typeof said.text === "string" ? said.text : said;
  const role = name === "gen_ai.input.messages" ? "user" : "assistant";
  const words = typeof text === "string" ? text : JSON.stringify(text);
  return { [name]: JSON.stringify([{ role, parts: [{ type: "text", content: words }] }]) };
}

function messageOf(message: Json): Json {
  if (!isJsonObject(message)) return message;
  return { role: message.role ?? "user", parts: partsOf(message.parts) };
}

function partsOf(parts: Json | undefined): readonly Json[] {
  return listOf(parts).map((part) => {
    if (!isJsonObject(part)) return part;
    const { kind = "unknown", text = "", callId = "", name = "", args = null } = part;
    if (kind === "tool_call") return { type: "tool_call", id: callId, name, arguments: args };
    if (kind === "tool_result") return { type: "tool_call_response", id: callId, response: text };
    if (kind === "attachment") return { type: "attachment" };
    return { type: kind === "reasoning" ? "reasoning" : "text", content: text };
  });
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

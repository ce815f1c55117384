// Gemini's streamGenerateContent as server-sent events.

import type { Json, JsonObject } from "../../src/model/json.ts";
import { at, event, type Wire, type WireAnswer, type WireCall } from "./wire.ts";

const FINISH = { stop: "STOP", calls: "STOP", length: "MAX_TOKENS", filter: "SAFETY" } as const;

const STATUS = {
  rate_limit: [429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."],
  overloaded: [503, "UNAVAILABLE", "The model is overloaded. Please try again later."],
  auth: [400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."],
  context_overflow: [
    400,
    "INVALID_ARGUMENT",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
  ],
} as const;

export const googleWire: Wire = {
  events: (answer, { cutOff = false } = {}) => [...partsOf(answer), ...(cutOff ? [] : [endOf(answer)])],
  brokenCall: [
    parts({ functionCall: { id: "call_1", name: "add", willContinue: true } }),
    parts({
      functionCall: { partialArgs: [{ jsonPath: "$.a", numberValue: 1 }], willContinue: true },
    }),
  ],
  errorEvents: [
    parts({ text: "begun" }),
    event({ error: { code: 503, status: "UNAVAILABLE", message: "The model is overloaded." } }),
  ],
  refusal: (kind) => {
    const [status, word, message] = STATUS[kind];
    return { status, body: { error: { code: status, message, status: word } } };
  },
  usage: { input: 100, output: 30, cacheRead: 20, cacheWrite: 0, reasoning: 12 },
  roundTrip: (body) => ({
    call: at(body, "contents", -2, "parts", -1, "functionCall") ?? null,
    result: at(body, "contents", -1, "parts", 0, "functionResponse") ?? null,
  }),
  reasoning: (body) => at(body, "contents", 1, "parts", 0),
  image: (body) => at(body, "contents", 0, "parts", 1, "inlineData", "data") as string | undefined,
  schema: (body) =>
    at(body, "generationConfig", "responseSchema") ?? at(body, "generationConfig", "responseJsonSchema"),
  tools: (body) =>
    at(body, "tools", 0, "functionDeclarations", 0, "name") ??
    at(body, "tools", "functionDeclarations", 0, "name"),
  skips: { malformed: "Gemini's arguments are JSON values, never text" },
};

function partsOf({ reasoning = [], text = [], calls = [] }: WireAnswer): readonly string[] {
  return [
    ...reasoning.map((piece) => parts({ text: piece, thought: true, thoughtSignature: "SIGNED" })),
    ...text.map((piece) => parts({ text: piece })),
    ...calls.flatMap(functionCall),
  ];
}

/** In pieces, a call's arguments come as values by path; the pieces here are of the one string argument `a`. */
function functionCall({ id, name, args }: WireCall): readonly string[] {
  if (args.length === 1) return [parts({ functionCall: { id, name, args: JSON.parse(args.join("")) } })];
  const values = Object.entries(JSON.parse(args.join("")) as JsonObject);
  return [
    parts({ functionCall: { id, name, willContinue: true } }),
    ...values.map(([key, value]) =>
      parts({
        functionCall: { partialArgs: [{ jsonPath: `$.${key}`, numberValue: value }], willContinue: true },
      }),
    ),
    parts({ functionCall: {} }),
  ];
}

function parts(part: JsonObject): string {
  return chunk([{ content: { role: "model", parts: [part] }, index: 0 }]);
}

function endOf({ finish = "stop" }: WireAnswer): string {
  const usage = {
    promptTokenCount: 120,
    cachedContentTokenCount: 20,
    candidatesTokenCount: 18,
    thoughtsTokenCount: 12,
    totalTokenCount: 150,
  };
  return chunk([{ content: { role: "model", parts: [] }, finishReason: FINISH[finish], index: 0 }], usage);
}

function chunk(candidates: Json, usageMetadata?: JsonObject): string {
  return event({
    candidates,
    ...(usageMetadata === undefined ? {} : { usageMetadata }),
    modelVersion: "gemini-test",
    responseId: "resp_1",
  });
}

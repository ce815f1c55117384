// Short ways to call a port and to look at what came of it.

import type { ModelPort, ModelRequest, ModelStreamPart } from "marling";
import { expect } from "vitest";
import type { JsonObject } from "../../src/model/json.ts";
import type { MessagePart } from "../../src/model/message.ts";
import type {
  ModelFailure,
  ModelOutcome,
  ModelResponse,
  ResponsePart,
} from "../../src/model/model-response.ts";

export interface Called {
  readonly outcome: ModelOutcome;
  readonly parts: readonly ModelStreamPart[];
}

export function request(changes: Partial<ModelRequest> = {}): ModelRequest {
  return {
    model: "default",
    system: "",
    messages: [user("Hello")],
    tools: [],
    toolChoice: "auto",
    parameters: {},
    providerOptions: {},
    headers: {},
    scope: { sessionId: "s", frameId: "f", requestId: "r" },
    ...changes,
  };
}

export function user(text: string): ModelRequest["messages"][number] {
  return { role: "user", parts: [{ kind: "text", text }] };
}

export async function call(
  port: ModelPort,
  changes: Partial<ModelRequest> = {},
  signal: AbortSignal = new AbortController().signal,
): Promise<Called> {
  const parts: ModelStreamPart[] = [];
  const outcome = await port.call(request(changes), { signal, sink: (part) => parts.push(part) });
  return { outcome, parts };
}

export function responseOf({ outcome }: Called): ModelResponse {
  expect(outcome).toMatchObject({ kind: "response" });
  if (outcome.kind !== "response") throw new Error("expected a response");
  return outcome.response;
}

export function failureOf({ outcome }: Called): ModelFailure {
  expect(outcome).toMatchObject({ kind: "failure" });
  if (outcome.kind !== "failure") throw new Error("expected a failure");
  return outcome.failure;
}

export function textsOf({ parts }: Called): readonly string[] {
  return parts.flatMap((part) => (part.kind === "text_delta" ? [part.text] : []));
}

/** The parts of a response as the assistant's message of the next request, as the standard protocol has them. */
export function said(parts: readonly ResponsePart[]): ModelRequest["messages"][number] {
  return { role: "assistant", parts: parts.map(messagePart) };
}

function messagePart(part: ResponsePart): MessagePart {
  const replay: { replay?: JsonObject } = part.replay === undefined ? {} : { replay: part.replay };
  if (part.kind === "text") return { kind: "prose", text: part.text, ...replay };
  if (part.kind === "reasoning") return { kind: "reasoning", text: part.text, ...replay };
  const { callId, name, args } = part;
  return { kind: "tool_call", callId: callId as never, name, args: JSON.parse(args), ...replay };
}

export function result(callId: string, text: string, isError?: true): ModelRequest["messages"][number] {
  const part = { kind: "tool_result", callId: callId as never, name: "add", text } as const;
  return { role: "tool", parts: [isError === undefined ? part : { ...part, isError }] };
}

export const ADD = {
  name: "add",
  description: "Adds two numbers.",
  inputSchema: {
    type: "object",
    properties: { a: { type: "number" }, b: { type: "number" } },
    required: ["a", "b"],
    additionalProperties: false,
  },
};

/** The tool `add`, and how often it was written down. */
export function watchedAdd(): { readonly tool: typeof ADD; writes(): number } {
  let writes = 0;
  const tool = new Proxy(ADD, {
    get: (target, name, self) => {
      if (name === "description") writes += 1;
      return Reflect.get(target, name, self);
    },
  });
  return { tool, writes: () => writes };
}

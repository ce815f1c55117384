// What a wire format must be able to say and to show for the conformance suite.

import type { Json, JsonObject } from "../../src/model/json.ts";
import type { TokenUsage } from "../../src/model/usage.ts";

export interface WireCall {
  readonly id: string;
  readonly name: string;
  /** The text of the arguments, in the pieces they come in. */
  readonly args: readonly string[];
}

/** An answer of a model. Its events are those of the format, the last of which say how it ended. */
export interface WireAnswer {
  readonly reasoning?: readonly string[];
  readonly text?: readonly string[];
  readonly calls?: readonly WireCall[];
  readonly finish?: "stop" | "calls" | "length" | "filter";
}

export type WireRefusal = "rate_limit" | "overloaded" | "auth" | "context_overflow";

export interface Wire {
  /** The answer as events; without its end when it is cut off. */
  events(answer: WireAnswer, options?: { readonly cutOff?: boolean }): readonly string[];
  /** Events that begin an answer and break off in the middle of a call's arguments. */
  readonly brokenCall: readonly string[];
  /** Events that begin an answer with the text `begun` and then say that the provider is overloaded. */
  readonly errorEvents: readonly string[];
  refusal(kind: WireRefusal): { readonly status: number; readonly body: JsonObject };
  /** The buckets of an answer with usage. */
  readonly usage: TokenUsage;
  /** Where the second request of a tool round trip has the call and its result. */
  roundTrip(body: JsonObject): { readonly call: Json; readonly result: Json };
  /** What a request has of the reasoning of the answer before it. */
  reasoning?(body: JsonObject): Json | undefined;
  /** The first image of a request, as base64. */
  image(body: JsonObject): string | undefined;
  schema(body: JsonObject): Json | undefined;
  tools(body: JsonObject): Json | undefined;
  /** Why a case cannot be said in this format. */
  readonly skips: Readonly<Record<string, string>>;
}

/** One server-sent event. */
export function event(data: Json | string, name?: string): string {
  const text = typeof data === "string" ? data : JSON.stringify(data);
  return `${name === undefined ? "" : `event: ${name}\n`}data: ${text}\n\n`;
}

/** A member far down: names of members, and numbers of items, from the end when negative. */
export function at(value: Json | undefined, ...path: readonly (string | number)[]): Json | undefined {
  let current: Json | undefined = value;
  for (const step of path) {
    if (typeof step === "number") current = Array.isArray(current) ? current.at(step) : undefined;
    else
      current =
        typeof current === "object" && current !== null && !Array.isArray(current)
          ? (current as JsonObject)[step]
          : undefined;
  }
  return current;
}

// Tools that say what they were called with.

import { defineTool, type JsonObject } from "marling";
import type { Tool } from "./durable-support.ts";

export interface Echo {
  readonly tools: readonly Tool[];
  /** What they were called with, oldest first. */
  readonly ran: string[];
}

export function echo(...names: readonly string[]): Echo {
  const ran: string[] = [];
  return { ran, tools: (names.length === 0 ? ["echo"] : names).map((name) => echoTool(name, ran)) };
}

export function echoTool(name: string, ran: string[], properties: JsonObject = {}): Tool {
  return defineTool({
    name,
    description: "Says what it is told.",
    input: {
      type: "object",
      required: ["text"],
      properties: { text: { type: "string" }, ...properties },
    } as JsonObject,
    replay: "safe",
    execute: (input: unknown) => {
      const { text } = input as { readonly text: string };
      ran.push(text);
      return `${name} ${text}`;
    },
  }) as Tool;
}

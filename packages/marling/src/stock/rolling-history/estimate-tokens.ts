// How many tokens a message is about. An estimate: providers count for themselves, and none says how beforehand.

import type { Message, MessagePart } from "../../index.ts";

/** About how many tokens a text is. */
export type TokenEstimate = (text: string) => number;

const CHARS_PER_TOKEN = 4;
const MESSAGE_TOKENS = 4;
const ATTACHMENT_TOKENS = 1_000;

/** Four characters of ASCII are about a token; of other scripts nearly every character is one. */
export function estimateTokens(text: string): number {
  let wide = 0;
  for (let index = 0; index < text.length; index += 1) if (text.charCodeAt(index) > 0x7f) wide += 1;
  return Math.ceil((text.length - wide) / CHARS_PER_TOKEN) + wide;
}

export function messagesTokens(messages: readonly Pick<Message, "parts">[], estimate: TokenEstimate): number {
  let total = 0;
  for (const { parts } of messages) {
    total += MESSAGE_TOKENS;
    for (const part of parts) total += partTokens(part, estimate);
  }
  return total;
}

function partTokens(part: MessagePart, estimate: TokenEstimate): number {
  switch (part.kind) {
    case "attachment":
      return ATTACHMENT_TOKENS;
    case "code":
      return estimate(part.code);
    case "tool_call":
      return estimate(part.name) + estimate(part.rawArgs ?? JSON.stringify(part.args));
    default:
      return estimate(part.text);
  }
}

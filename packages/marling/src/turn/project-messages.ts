// The history as a model is sent it. What a message becomes depends on that message alone, so that callers can keep
// the result for each message and a turn pays only for what it added.
//   T35  parts that need no change are the same objects.
//   T36  data that a provider wants back is never dropped, except with parts the model may not be sent.

import { unreachable } from "../base/unreachable.ts";
import type { JsonObject } from "../model/json.ts";
import type { Message, MessagePart, Role } from "../model/message.ts";

/** A message as a model is sent it. */
export interface ProjectedMessage {
  readonly role: Exclude<Role, "event">;
  readonly parts: readonly MessagePart[];
}

/** The model's words among others: a text that carries the provider's data. */
type ReplayedText = { readonly kind: "text"; readonly text: string; readonly replay?: JsonObject };

const PREFIXES: { readonly [R in Role]: string } = {
  user: "",
  assistant: "",
  tool: "",
  system: "Runtime note: ",
  event: "Runtime event: ",
};

/** The messages that a model is sent, in order; those with nothing to say are left out. */
export function projectMessages(messages: Iterable<Message>): readonly ProjectedMessage[] {
  const projected: ProjectedMessage[] = [];
  for (const message of messages) {
    const one = projectMessage(message);
    if (one !== undefined) projected.push(one);
  }
  return projected;
}

/** One message as a model is sent it; `undefined` when nothing of it is. A pure function of the message. */
export function projectMessage(message: Message): ProjectedMessage | undefined {
  const projected = message.parts.map((part) => projectPart(part, message.role));
  // Hardly ever is something left out, and what is made by `map` takes no more memory than it needs.
  const parts = (
    projected.includes(undefined) ? projected.filter((part) => part !== undefined) : projected
  ) as readonly MessagePart[];
  if (parts.length === 0) return undefined;
  const role = message.role === "event" ? "user" : message.role;
  return { role, parts: withPrefix(parts, PREFIXES[message.role]) };
}

/**
 * Whether a model could be called with these messages as they are: every call is the model's own and has an id that
 * no other call has, every result answers an earlier call, and every call has its one result.
 */
export function isPromptResumeSafe(messages: Iterable<Message>): boolean {
  const seen = new Set<string>();
  const open = new Set<string>();
  for (const { role, parts } of messages) {
    for (const part of parts) {
      if (part.kind === "tool_call") {
        if (role !== "assistant" || part.callId.trim() === "" || seen.has(part.callId)) return false;
        seen.add(part.callId);
        open.add(part.callId);
      }
      if (part.kind !== "tool_result") continue;
      if (!RESULT_ROLES.has(role) || !open.delete(part.callId)) return false;
    }
  }
  return open.size === 0;
}

const RESULT_ROLES: ReadonlySet<Role> = new Set(["tool", "user"]);

function projectPart(part: MessagePart, role: Role): MessagePart | undefined {
  switch (part.kind) {
    case "text":
      return part.text.trim() === "" ? undefined : part;
    case "prose":
      return replayedText(part);
    case "code":
      return nonBlankText(part.code, `\`\`\`${part.language}\n${part.code}\n\`\`\``);
    case "output":
      return nonBlankText(part.text, part.text);
    case "error":
      return nonBlankText(part.text, `Error: ${part.text}`);
    case "reasoning":
      return role === "assistant" && part.replay !== undefined ? part : undefined;
    case "attachment":
      return role === "user" || role === "tool" || role === "event" ? part : undefined;
    case "tool_call":
    case "tool_result":
      return part;
    default:
      return unreachable(part);
  }
}

function replayedText({ text, replay }: Extract<MessagePart, { kind: "prose" }>): ReplayedText | undefined {
  if (replay !== undefined) return { kind: "text", text, replay };
  return nonBlankText(text, text);
}

function nonBlankText(
  content: string,
  text: string,
): { readonly kind: "text"; readonly text: string } | undefined {
  return content.trim() === "" ? undefined : { kind: "text", text };
}

/** The first text says that it is the runtime that speaks. */
function withPrefix(parts: readonly MessagePart[], prefix: string): readonly MessagePart[] {
  if (prefix === "") return parts;
  const index = parts.findIndex((part) => part.kind === "text");
  const first = parts[index];
  if (first?.kind !== "text") return parts;
  return parts.with(index, { ...first, text: `${prefix}${first.text}` });
}

// What a model said, as the parts of a message in the order the provider sent them.
//   T24  data that the provider wants back stays on its part.
//   T14  reasoning whose continuation is left out loses that data: providers refuse reasoning that leads nowhere.

import type { MessagePart, ToolCallPart } from "../model/message.ts";
import type { ModelResponse, ResponsePart } from "../model/model-response.ts";

/**
 * The parts of an assistant message. `calls` are its tool calls, one for each in the response and in their order;
 * without them the answer counts as cut off, and its calls are left out.
 */
export function assistantParts(
  response: ModelResponse,
  calls?: readonly ToolCallPart[],
): readonly MessagePart[] {
  const hasFinalAnswer = response.parts.some((part) => part.kind === "text" && part.phase === "final_answer");
  const remaining = [...(calls ?? [])];
  const reversed: MessagePart[] = [];
  let leadsSomewhere = calls !== undefined;
  for (const part of response.parts.toReversed()) {
    if (isEmpty(part)) continue;
    if (part.kind === "reasoning") {
      reversed.push(reasoningPart(part, leadsSomewhere));
      continue;
    }
    const kept = part.kind === "tool_call" ? remaining.pop() : prosePart(part, hasFinalAnswer);
    if (kept !== undefined) reversed.push(kept);
    leadsSomewhere = kept !== undefined;
  }
  return reversed.reverse();
}

/** Nothing to read and nothing to send back. */
function isEmpty(part: ResponsePart): boolean {
  return part.kind !== "tool_call" && part.replay === undefined && part.text.trim() === "";
}

function reasoningPart(
  part: Extract<ResponsePart, { kind: "reasoning" }>,
  leadsSomewhere: boolean,
): MessagePart {
  return leadsSomewhere ? part : { kind: "reasoning", text: part.text };
}

/** Commentary is not shown beside a final answer. */
function prosePart(
  { text, phase, replay }: Extract<ResponsePart, { kind: "text" }>,
  hasFinalAnswer: boolean,
): MessagePart | undefined {
  if (hasFinalAnswer && phase === "commentary") return undefined;
  return { kind: "prose", text, ...(replay === undefined ? {} : { replay }) };
}

// Results and the calls they answer. Providers refuse a history in which a call has no result or two, so the machine
// sees to it that each call has exactly one, whatever arrived.

import type { CallId } from "../model/ids.ts";
import type { MessagePart, ToolResultPart } from "../model/message.ts";
import type { CompletedCall, ModelToolReturnPart, PendingCall } from "../model/tool-call.ts";
import { toolFailure } from "../model/tool-output.ts";
import type { TurnRecord } from "./effect.ts";

const UNANSWERED = "The turn ended before this call had a result. It may have taken effect.";
const MISSING = "The call has no result. It may have taken effect.";

/** One completed call for each pending one, in their order; what is missing is a failure, what is extra is left out. */
export function alignResults(
  pending: readonly PendingCall[],
  completed: readonly CompletedCall[],
): readonly CompletedCall[] {
  const inOrder = pending.every((call, index) => completed[index]?.callId === call.callId);
  if (inOrder && pending.length === completed.length) return completed;
  const byId = new Map(completed.toReversed().map((call) => [call.callId, call]));
  return pending.map((call) => byId.get(call.callId) ?? missingResult(call));
}

/**
 * What a message shows of one call: exactly one result, then its attachments. An attachment stands in the text of the
 * result as `[attachment n]`, where it was in the tool's value.
 */
export function toolResultParts(call: CompletedCall): readonly MessagePart[] {
  const { callId, name } = call;
  const attachments = call.modelReturn.parts
    .filter((part) => part.kind === "attachment")
    .map(({ source }): MessagePart => ({ kind: "attachment", source, callId, name }));
  const isError = call.output.outcome.kind === "success" ? {} : { isError: true };
  const text = joinedText(call.modelReturn.parts);
  return [{ kind: "tool_result", callId, name, text, ...isError }, ...attachments];
}

/** Error results for the calls in these records that have none. */
export function unansweredCallResults(records: readonly TurnRecord[]): readonly ToolResultPart[] {
  const open = new Map<CallId, string>();
  for (const record of records) {
    for (const part of record.kind === "message" ? record.message.parts : []) {
      if (part.kind === "tool_call") open.set(part.callId, part.name);
      if (part.kind === "tool_result") open.delete(part.callId);
    }
  }
  return Array.from(open, ([callId, name]) => ({
    kind: "tool_result",
    callId,
    name,
    text: UNANSWERED,
    isError: true,
  }));
}

/** The ids of the calls in these records. */
export function callIdsIn(records: readonly TurnRecord[]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const record of records) {
    for (const part of record.kind === "message" ? record.message.parts : [])
      if (part.kind === "tool_call") ids.add(part.callId);
  }
  return ids;
}

/** Texts on both sides of an attachment are pieces of one value; two texts in a row are lines of their own. */
function joinedText(parts: readonly ModelToolReturnPart[]): string {
  let text = "";
  let attachments = 0;
  for (const [index, part] of parts.entries()) {
    if (part.kind === "attachment") {
      attachments += 1;
      text += `[attachment ${attachments}]`;
      continue;
    }
    text += parts[index - 1]?.kind === "text" ? `\n${part.text}` : part.text;
  }
  return text;
}

function missingResult({ callId, name, args }: PendingCall): CompletedCall {
  const output = toolFailure({
    code: "missing_result",
    message: MISSING,
    class: "internal",
    source: "runtime",
  });
  const modelReturn = { callId, toolName: name, parts: [{ kind: "text", text: MISSING }] } as const;
  return { callId, name, args, output, modelReturn, durationMs: 0 };
}

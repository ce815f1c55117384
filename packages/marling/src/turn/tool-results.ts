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

/** Where the calls of a turn are in the longest list of its records that was looked at. */
interface CallIndex {
  readonly places: Map<string, number>;
  records: readonly TurnRecord[];
}

/** By the first record of a turn, which all lists of its records begin with. */
const INDEXES = new WeakMap<TurnRecord, CallIndex>();

/** Whether one of these records has a call of this id. Costs what the list has behind the one that was looked at last. */
export function hasCallIn(records: readonly TurnRecord[], callId: string): boolean {
  const [first] = records;
  if (first === undefined) return false;
  const place = indexOf(records, first).places.get(callId);
  return place !== undefined && place < records.length;
}

function indexOf(records: readonly TurnRecord[], first: TurnRecord): CallIndex {
  const known = INDEXES.get(first);
  const index = known !== undefined && isSameTurn(known.records, records) ? known : newIndex(first);
  for (let place = index.records.length; place < records.length; place += 1) {
    const record = records[place];
    for (const part of record?.kind === "message" ? record.message.parts : [])
      if (part.kind === "tool_call" && !index.places.has(part.callId)) index.places.set(part.callId, place);
  }
  if (records.length > index.records.length) index.records = records;
  return index;
}

/** Lists of one turn only grow, so that the last record of the shorter one tells. */
function isSameTurn(one: readonly TurnRecord[], other: readonly TurnRecord[]): boolean {
  const last = Math.min(one.length, other.length) - 1;
  return one[last] === other[last];
}

function newIndex(first: TurnRecord): CallIndex {
  const index: CallIndex = { places: new Map(), records: [] };
  INDEXES.set(first, index);
  return index;
}

/** Texts on both sides of an attachment are pieces of one value; two texts in a row are lines of their own. */
function joinedText(parts: readonly ModelToolReturnPart[]): string {
  let text = "";
  let attachments = 0;
  let before: ModelToolReturnPart["kind"] | undefined;
  for (const part of parts) {
    if (part.kind === "attachment") {
      attachments += 1;
      text += `[attachment ${attachments}]`;
    } else text += before === "text" ? `\n${part.text}` : part.text;
    before = part.kind;
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

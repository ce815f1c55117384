// Two ends are the same but for calls that a crash cut, and that must not run twice: of those, the end after the crash
// says that their outcome is unknown, or what it is if it was written in time.

import { isDeepStrictEqual } from "node:util";
import type { Json } from "../../model/json.ts";
import type { CutCall } from "./crash-ledger.ts";

/** What is wrong with an end; undefined when nothing is. */
export function compareEnds(found: Json, whole: Json, cut: readonly CutCall[]): string | undefined {
  const wrong = cut.find((call) => !isExplained(call, found, whole));
  if (wrong !== undefined)
    return `call ${wrong.callId} was cut, and the end says otherwise: ${shown(partsOf(found, wrong.callId))}`;
  const ids = new Set(cut.map(({ callId }) => callId));
  if (isDeepStrictEqual(without(found, ids), without(whole, ids))) return undefined;
  return `it came to another end: ${firstDifference(found, whole, "end")}`;
}

/** An end that does not speak of the results of calls cannot be wrong about them. */
function isExplained({ callId, mayBeKnown }: CutCall, found: Json, whole: Json): boolean {
  const results = partsOf(found, callId).filter((part) => !isRequest(part));
  if (results.length === 0 || results.every(isUnknown)) return true;
  return mayBeKnown && isDeepStrictEqual(partsOf(found, callId), partsOf(whole, callId));
}

function isUnknown(part: Json): boolean {
  const text = JSON.stringify(part);
  return text.includes("unknown_outcome") || text.includes("may have taken effect");
}

/** The call itself, as the model asked for it: it is the same whatever it came to. */
function isRequest(part: Json): boolean {
  return typeof part === "object" && part !== null && "kind" in part && part.kind === "tool_call";
}

/** Everything in an end that names a call. */
function partsOf(end: Json, callId: string): readonly Json[] {
  if (typeof end !== "object" || end === null) return [];
  if (isOf(end, callId)) return [end];
  return Object.values(end as Record<string, Json>).flatMap((member) => partsOf(member, callId));
}

/** An end with what names these calls left open. */
function without(end: Json, ids: ReadonlySet<string>): Json {
  if (typeof end !== "object" || end === null) return end;
  if (Array.isArray(end)) return end.map((member: Json) => without(member, ids));
  for (const callId of ids) if (isOf(end, callId)) return { callId };
  const members = Object.entries(end as Record<string, Json>);
  return Object.fromEntries(members.map(([name, member]) => [name, without(member, ids)]));
}

function isOf(value: object, callId: string): boolean {
  return "callId" in value && value.callId === callId;
}

function firstDifference(found: Json, whole: Json, path: string): string {
  if (typeof found !== "object" || typeof whole !== "object" || found === null || whole === null)
    return `${path} is ${shown(found)}, and was ${shown(whole)} without a crash`;
  const left = found as Readonly<Record<string, Json>>;
  const right = whole as Readonly<Record<string, Json>>;
  for (const name of new Set([...Object.keys(right), ...Object.keys(left)])) {
    const [mine = null, other = null] = [left[name], right[name]];
    if (!isDeepStrictEqual(mine, other)) return firstDifference(mine, other, `${path}.${name}`);
  }
  return `${path} is ${shown(found)}, and was ${shown(whole)} without a crash`;
}

function shown(value: Json): string {
  const text = JSON.stringify(value);
  return text.length > 300 ? `${text.slice(0, 300)}...` : text;
}

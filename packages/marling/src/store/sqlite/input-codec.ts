// Inputs as they are stored: names that say more than the sequence, and what they ended with.

import type { InputId, SessionId, TurnId } from "../../model/ids.ts";
import { isJsonObject, type Json } from "../../model/json.ts";
import type { TurnReport } from "../../model/turn.ts";
import type { InboxRow } from "../contract.ts";
import { parseRepeated, stringifyRepeated } from "./repeated-text.ts";

/** The names of an input that cannot be derived from its sequence. */
export interface InputNames {
  readonly key?: string;
  readonly turnId?: TurnId;
}

export interface InputParts {
  readonly names: Json;
  readonly submitted: Json;
  readonly input: Json;
  readonly progress?: Json;
}

export function inboxRow(sessionId: SessionId, sequence: number, { names, ...parts }: InputParts): InboxRow {
  const { key, turnId } = (isJsonObject(names) ? names : {}) as InputNames; // as `namesOf` made them
  return {
    sessionId,
    ...(key === undefined ? {} : { key }),
    ...parts,
    turnId: turnId ?? derivedTurnId(sessionId, sequence),
    inputId: inputIdOf(sessionId, sequence),
    sequence,
  };
}

export function namesOf({ sessionId, sequence, key, turnId }: InboxRow): InputNames {
  const isDerived = turnId === derivedTurnId(sessionId, sequence);
  return { ...(key === undefined ? {} : { key }), ...(isDerived ? {} : { turnId }) };
}

export function inputIdOf(sessionId: SessionId, sequence: number): InputId {
  return `${sessionId}:input:${sequence}` as InputId; // the one place that makes them
}

export function derivedTurnId(sessionId: SessionId, sequence: number): TurnId {
  return `${derivedTurnPrefix(sessionId)}${sequence}` as TurnId; // the one place that makes them
}

export function derivedTurnPrefix(sessionId: SessionId): string {
  return `${sessionId}:turn:`;
}

/** The text of a settled input with its report; strings that the nodes of the commit have are not repeated. */
export function encodeSettled(row: InboxRow, report: TurnReport, strings: readonly string[]): string {
  const names = namesOf(row);
  const isAsSubmitted = JSON.stringify(row.input) === JSON.stringify(row.submitted);
  const settled = {
    ...(Object.keys(names).length === 0 ? {} : { names }),
    submitted: row.submitted,
    ...(isAsSubmitted ? {} : { input: row.input }),
    report,
  };
  return stringifyRepeated(settled, strings);
}

/** Throws a SyntaxError for text that `encodeSettled` did not write. */
export function decodeSettled(
  sessionId: SessionId,
  text: string,
  { sequence, strings }: { readonly sequence: number; readonly strings: readonly string[] },
): InboxRow {
  const settled = parseRepeated(text, strings);
  if (!isJsonObject(settled)) throw new SyntaxError("expected an object");
  const { names = {}, submitted, input = submitted, report } = settled;
  if (submitted === undefined || input === undefined) throw new SyntaxError("expected what was submitted");
  const row = inboxRow(sessionId, sequence, { names, submitted, input });
  return { ...row, report: report as unknown as TurnReport }; // as it was committed
}

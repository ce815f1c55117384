// Inputs as they are stored: names that say more than the sequence, what was asked of them while they were pending, and
// what they ended with.

import type { InputId, SessionId, TurnId } from "../../model/ids.ts";
import { isJsonObject, type Json, type JsonObject } from "../../model/json.ts";
import type { TurnReport } from "../../model/turn.ts";
import type { InboxRow } from "../contract.ts";
import { parseRepeated, stringifyRepeated } from "./repeated-text.ts";

/** The names of an input that cannot be derived from its sequence. */
export interface InputNames {
  readonly key?: string;
  readonly turnId?: TurnId;
}

/** What a pending input has beside its content. Most have nothing, and no text for it. */
export interface InputState extends Pick<InboxRow, "deliver" | "claimed" | "cancel"> {
  readonly parked?: ParkedTurn;
}

/** A turn that sleeps, and the turn or the part of it that has the waits. */
export interface ParkedTurn extends NonNullable<InboxRow["parked"]> {
  readonly turnId: TurnId;
}

export interface InputParts {
  readonly names: Json;
  readonly submitted: Json;
  readonly input: Json;
  readonly progress?: Json;
  readonly plan?: Json;
  readonly state?: InputState;
}

/** An input with those that joined its turn. */
export interface SettledInputs {
  readonly row: InboxRow;
  readonly joined: readonly InboxRow[];
}

export function inboxRow(
  sessionId: SessionId,
  sequence: number,
  { names, state = {}, ...parts }: InputParts,
): InboxRow {
  const { key, turnId } = (isJsonObject(names) ? names : {}) as InputNames; // as `namesOf` made them
  const { parked, ...asked } = state;
  return {
    sessionId,
    ...(key === undefined ? {} : { key }),
    ...parts,
    ...asked,
    ...(parked === undefined ? {} : { parked: { names: parked.names, due: parked.due } }),
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

/** Whether a turn id is that of a turn, or of a part of it. */
export function isOfTurn(turnId: string, turn: string): boolean {
  return turnId === turn || turnId.startsWith(`${turn}:`);
}

/** The text of a state; none for a state that says nothing. */
export function encodeState(state: InputState): string | undefined {
  const text = JSON.stringify(state);
  return text === "{}" ? undefined : text;
}

export function decodeState(state: Json): InputState {
  return (isJsonObject(state) ? state : {}) as InputState; // as `encodeState` wrote it
}

/** The text of settled inputs with their report; strings that the nodes of the commit have are not repeated. */
export function encodeSettled(
  { row, joined }: SettledInputs,
  report: TurnReport,
  strings: readonly string[],
): string {
  const others = joined.map((other) => ({
    sequence: other.sequence,
    ...contentOf(other),
    claimed: other.claimed,
  }));
  const settled = { ...contentOf(row), report, ...(others.length === 0 ? {} : { joined: others }) };
  return stringifyRepeated(settled, strings);
}

/**
 * The input that a commit settled, and behind it those that joined its turn. Throws a SyntaxError for text that
 * `encodeSettled` did not write.
 */
export function decodeSettled(
  sessionId: SessionId,
  text: string,
  { sequence, strings }: { readonly sequence: number; readonly strings: readonly string[] },
): readonly InboxRow[] {
  const settled = parseRepeated(text, strings);
  if (!isJsonObject(settled)) throw new SyntaxError("expected an object");
  const { report: raw, joined = [], ...content } = settled;
  const report = raw as unknown as TurnReport; // as it was committed
  const others = (Array.isArray(joined) ? joined : []).map((other: Json) => {
    if (!isJsonObject(other)) throw new SyntaxError("expected an input that joined the turn");
    return { ...settledRow(sessionId, Number(other.sequence), other), report };
  });
  return [{ ...settledRow(sessionId, sequence, content), report }, ...others];
}

function contentOf(row: InboxRow): object {
  const names = namesOf(row);
  const isAsSubmitted =
    row.input === row.submitted || JSON.stringify(row.input) === JSON.stringify(row.submitted);
  return {
    ...(Object.keys(names).length === 0 ? {} : { names }),
    submitted: row.submitted,
    ...(isAsSubmitted ? {} : { input: row.input }),
    ...(row.deliver === undefined ? {} : { deliver: row.deliver }),
  };
}

function settledRow(sessionId: SessionId, sequence: number, content: JsonObject): InboxRow {
  const { names = {}, submitted, input = submitted, deliver, claimed } = content;
  if (submitted === undefined || input === undefined) throw new SyntaxError("expected what was submitted");
  const state = decodeState({
    ...(deliver === undefined ? {} : { deliver }),
    ...(claimed === undefined ? {} : { claimed }),
  });
  return inboxRow(sessionId, sequence, { names, submitted, input, state });
}

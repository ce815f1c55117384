// Checksums of stored rows: a row that was damaged in the file is refused, never served.
//   RS1  the sum of a row is the CRC-32 of its table, its key and its values. It finds every single flipped bit, and a row
//        that is found under another key.
//   RS2  texts of commits begin with their sum, because each is read without the others. Other rows have it in a column.
//   RS3  rows without a sum are of an older version. A file that may have such rows says so in table `meta`.

import { crc32 } from "node:zlib";
import type { SqlRow, SqlValue } from "./driver.ts";

/** The values that the sum of a row is made of, by table. */
export interface SummedColumns {
  readonly sessions: "no" | "id" | "status" | "parent" | "base" | "base_revision";
  readonly inbox: "no" | "n" | "names" | "submitted" | "input" | "progress" | "plan" | "state";
  readonly withdrawn: "no" | "n" | "settled" | "over_at";
  readonly journal: "no" | "n" | "entry" | "outcome";
  readonly outbox: "no" | "n" | "turn";
  readonly names: "session" | "digest" | "n";
  readonly leases: "session" | "generation" | "owner" | "incarnation" | "instance" | "expires_at";
  readonly waits: "no" | "session" | "turn" | "name" | "kind" | "resolution" | "over_at";
  readonly wait_keys: "hash" | "wait";
  readonly works: "session";
  readonly subscriptions:
    | "id"
    | "session"
    | "source"
    | "topic"
    | "definition"
    | "enabled"
    | "created_at"
    | "due"
    | "carried";
  readonly occurrences: "id" | "source" | "topic" | "digest" | "payload" | "at" | "accepted_at";
  readonly deliveries: "no" | "occurrence" | "subscription" | "session" | "definition";
}

export type SummedTable = keyof SummedColumns;

export type SummedRow<Table extends SummedTable> = Readonly<Record<SummedColumns[Table], SqlValue>>;

/** In the order in which they are summed; the key comes first. */
export const SUMMED: { readonly [Table in SummedTable]: readonly SummedColumns[Table][] } = {
  sessions: ["no", "id", "status", "parent", "base", "base_revision"],
  inbox: ["no", "n", "names", "submitted", "input", "progress", "plan", "state"],
  withdrawn: ["no", "n", "settled", "over_at"],
  journal: ["no", "n", "entry", "outcome"],
  outbox: ["no", "n", "turn"],
  names: ["session", "digest", "n"],
  leases: ["session", "generation", "owner", "incarnation", "instance", "expires_at"],
  waits: ["no", "session", "turn", "name", "kind", "resolution", "over_at"],
  wait_keys: ["hash", "wait"],
  works: ["session"],
  subscriptions: [
    "id",
    "session",
    "source",
    "topic",
    "definition",
    "enabled",
    "created_at",
    "due",
    "carried",
  ],
  occurrences: ["id", "source", "topic", "digest", "payload", "at", "accepted_at"],
  deliveries: ["no", "occurrence", "subscription", "session", "definition"],
};

/** Longer texts are not copied to be summed. */
const LONG = 2048;
/** How a sum is written before a text: so many digits of base 36. */
export const SUM_SIGNS = 7;
const HAS_SUM = /^[0-9a-z]{7}/;

/** The sum of a row that is written. */
export function sumOf<Table extends SummedTable>(table: Table, row: SummedRow<Table>): number {
  return sumOfRow(table, row as unknown as SqlRow); // by the names of its columns
}

/** The sum that a row should have, from all its values. */
export function sumOfRow(table: SummedTable, row: SqlRow): number {
  return sumOfValues(
    table,
    SUMMED[table].map((column) => row[column]),
  );
}

/** A text of a commit with its sum. */
export function withSum(text: string, place: TextPlace): string {
  return signsOf(text, place) + text;
}

/** Where a text of a commit is. `settles` belongs to the text of a settled input. */
export interface TextPlace {
  readonly column: "manifest" | "settled" | "nodes";
  readonly no: number;
  readonly revision: number;
  readonly settles?: number | null;
}

/** A stored text without its sum, and whether it has the right one; `undefined` when it has none. */
export function withoutSum(
  stored: string,
  place: TextPlace,
): { readonly text: string; readonly isRight: boolean | undefined } {
  if (!HAS_SUM.test(stored)) return { text: stored, isRight: undefined };
  const text = stored.slice(SUM_SIGNS);
  return { text, isRight: stored.startsWith(signsOf(text, place)) };
}

function signsOf(text: string, { column, no, revision, settles }: TextPlace): string {
  const sum = sumOfValues(`commits.${column}`, [no, revision, settles ?? null, text]);
  return (sum >>> 0).toString(36).padStart(SUM_SIGNS, "0");
}

/** As a signed number, which SQLite keeps in four bytes. */
function sumOfValues(name: string, values: readonly (SqlValue | undefined)[]): number {
  let sum = 0;
  let short = name;
  for (const value of values) {
    if (value instanceof Uint8Array || (typeof value === "string" && value.length > LONG)) {
      sum = crc32(value, crc32(`${short}\0`, sum));
      short = "";
    } else if (value === undefined) throw new Error(`a value of ${name} was not read`);
    else short += value === null ? "\0" : typeof value === "string" ? `\0"${value}` : `\0${value}`;
  }
  return crc32(short, sum) | 0;
}

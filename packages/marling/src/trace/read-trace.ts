// Reading traces that were written as lines of JSON.
//   TC30  a line that a crash has cut is no error: it is the last one, or the next line begins the trace anew.
//   TC31  any other line that is not a record is foreign: it ends the reading with its number, or is handed to `onForeign`.

import { createReadStream } from "node:fs";
import { MarlingError, messageOf } from "../base/errors.ts";
import { decodeJson, isJsonObject, type Json } from "../model/json.ts";
import type { TraceKind, TraceRecord } from "./contract.ts";

const FORMAT = "marling.trace";
const VERSION = 1;
export const TRACE_HEADER: string = `${JSON.stringify({ format: FORMAT, version: VERSION })}\n`;

/** A new kind of record does not compile without its line here. */
const KINDS: { readonly [K in TraceKind]: true } = {
  turn_started: true,
  turn: true,
  round: true,
  model_call: true,
  model_attempt: true,
  tool_started: true,
  tool_call: true,
  tool_attempt: true,
  hook: true,
  effect: true,
  commit: true,
  recovery: true,
  session_created: true,
  child_turn: true,
  custom: true,
};

export interface ReadTraceOptions {
  /** Told of a line that is no record; without it such a line is an `invalid_trace`. */
  onForeign?(error: MarlingError): void;
}

/** The records of a trace, in the order they were written. Throws `invalid_trace` or `unsupported_version`. */
export async function* readTrace(path: string, options: ReadTraceOptions = {}): AsyncGenerator<TraceRecord> {
  const foreign = options.onForeign ?? raise;
  let number = 0;
  let doubtful: MarlingError | undefined;
  for await (const line of linesOf(path)) {
    number += 1;
    const read = readLine(line, `trace ${path}: line ${number}`);
    if (number === 1 && read.kind !== "header") throw notATrace(path);
    if (doubtful !== undefined && read.kind !== "header") foreign(doubtful);
    doubtful = read.kind === "foreign" ? read.error : undefined;
    if (read.kind === "record") yield read.record;
  }
  if (number === 0) throw notATrace(path);
  if (doubtful !== undefined) foreign(doubtful);
}

/** Whether a line begins a trace of this version. */
export function isTraceHeader(line: string): boolean {
  return `${line}\n` === TRACE_HEADER;
}

type ReadLine =
  | { readonly kind: "header" | "blank" }
  | { readonly kind: "record"; readonly record: TraceRecord }
  | { readonly kind: "foreign"; readonly error: MarlingError };

function readLine(line: string, where: string): ReadLine {
  if (isTraceHeader(line)) return { kind: "header" };
  if (line.trim() === "") return { kind: "blank" };
  try {
    const json = decodeJson(JSON.parse(line), where);
    refuseOtherVersion(json, where);
    return { kind: "record", record: decodeRecord(json, where) };
  } catch (thrown) {
    if (MarlingError.is(thrown) && thrown.code === "unsupported_version") throw thrown;
    const message = MarlingError.is(thrown)
      ? thrown.message
      : `${where}: expected a record, found no JSON: ${messageOf(thrown)}`;
    return { kind: "foreign", error: new MarlingError("invalid_trace", message, { cause: thrown }) };
  }
}

function refuseOtherVersion(json: Json, where: string): void {
  if (!isJsonObject(json) || json.format !== FORMAT || json.version === VERSION) return;
  const message = `${where}: expected version ${VERSION}, found version ${JSON.stringify(json.version)}`;
  throw new MarlingError("unsupported_version", message);
}

function decodeRecord(json: Json, where: string): TraceRecord {
  if (!isJsonObject(json)) throw foreignLine(where, "an object", json);
  if (typeof json.kind !== "string" || !Object.hasOwn(KINDS, json.kind))
    throw foreignLine(`${where}.kind`, "a kind of record", json.kind);
  for (const name of ["sessionId", "owner", "spanId"])
    if (typeof json[name] !== "string") throw foreignLine(`${where}.${name}`, "a string", json[name]);
  for (const name of ["parentId", "turnId", "tenant"])
    if (json[name] !== undefined && typeof json[name] !== "string")
      throw foreignLine(`${where}.${name}`, "a string or nothing", json[name]);
  for (const name of ["at", "durationMs"])
    if (typeof json[name] !== "number") throw foreignLine(`${where}.${name}`, "a number", json[name]);
  if (!isJsonObject(json.payload)) throw foreignLine(`${where}.payload`, "an object", json.payload);
  return json as unknown as TraceRecord; // A payload is read as the sink wrote it.
}

/** The lines of a file that have ended: the piece behind the last one is what a crash has cut. */
async function* linesOf(path: string): AsyncGenerator<string> {
  let rest = "";
  try {
    for await (const piece of createReadStream(path, { encoding: "utf8" })) {
      const lines = `${rest}${String(piece)}`.split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
  } catch (thrown) {
    if (MarlingError.is(thrown)) throw thrown;
    const message = `trace ${path}: expected a file that can be read, found ${messageOf(thrown)}`;
    throw new MarlingError("invalid_trace", message, { cause: thrown });
  }
}

function raise(error: MarlingError): never {
  throw error;
}

function notATrace(path: string): MarlingError {
  const message = `trace ${path}: expected the line ${TRACE_HEADER.trim()} first, found another one or none`;
  return new MarlingError("invalid_trace", message, { details: { path } });
}

function foreignLine(where: string, expected: string, found: Json | undefined): MarlingError {
  const text = JSON.stringify(found) ?? "nothing";
  return new MarlingError("invalid_trace", `${where}: expected ${expected}, found ${text.slice(0, 80)}`);
}

// What plugins and the kernel trace in their own words, for tests that look at nothing else of a trace.

import type { Json, JsonObject, TraceRecord, TraceSink } from "marling";

/** A custom record without what it has in common with all others. */
export interface CustomTrace {
  readonly name: string;
  readonly sessionId: string;
  readonly owner: string;
  readonly at: number;
  readonly turnId?: string;
  readonly context: JsonObject;
  readonly payload: Json;
}

/** The custom record in a record, if it is one. */
export function customOf(record: TraceRecord): readonly CustomTrace[] {
  if (record.kind !== "custom") return [];
  const { sessionId, owner, at, turnId, payload } = record;
  return [{ ...payload, sessionId, owner, at, ...(turnId === undefined ? {} : { turnId }) }];
}

/** A sink that keeps custom records. */
export function customTraces(into: CustomTrace[]): TraceSink {
  return { record: (record) => void into.push(...customOf(record)) };
}

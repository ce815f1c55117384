// The seam to traces: records leave, nothing comes back.

import type { Json, JsonObject } from "../model/json.ts";

export interface TraceRecord {
  readonly name: string;
  readonly sessionId: string;
  /** The worker that wrote it. */
  readonly owner: string;
  readonly at: number;
  readonly turnId?: string;
  readonly context: JsonObject;
  readonly payload: Json;
}

/** Receives records. Contract: synchronous and quick; a throw is ignored. */
export interface TraceSink {
  record(record: TraceRecord): void;
}

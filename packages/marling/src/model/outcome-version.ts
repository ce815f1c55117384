// The version of what is recorded of an effect.
//   OV1  every recorded outcome of a turn says its version; one that says none is of version 1.
//   OV2  older versions are read. A turn with an outcome of a newer one is left as it is, for a process that can read it.
// Version 2 differs from version 1 in what is kept of a request: always the text itself where that is short, and of a model
// call the messages since the call before it. An outcome inside another effect has `within` (model/journal.ts), which releases
// before it ignore and outcomes of theirs lack.
// Version 3 is a model call whose answer waits for its hooks: an older release would take the answer without them. Outcomes
// say the oldest version that reads them right.

import { MarlingError } from "../base/errors.ts";
import type { JournalRecord } from "./journal.ts";
import { isJsonObject, type Json } from "./json.ts";

/** The newest version that is read here. */
export const OUTCOME_VERSION = 3;

/** The version of most outcomes. */
export const RECORDED_VERSION = 2;

/** The version of a model call whose answer waits for its hooks. */
export const RAW_ANSWER_VERSION = 3;

/** The version of an outcome. */
export function versionOf(outcome: Json | undefined): number {
  const version = isJsonObject(outcome) ? outcome.version : undefined;
  return typeof version === "number" ? version : 1;
}

/** Throws `unsupported_version` where an outcome is of a version that is not known here. */
export function refuseNewer(records: readonly JournalRecord[]): void {
  for (const { turnId, key, status, outcome } of records) {
    const version = status === "done" ? versionOf(outcome) : 1;
    if (version <= OUTCOME_VERSION) continue;
    const message = `turn ${turnId}: effect ${key}: expected an outcome of version ${OUTCOME_VERSION} or older, found version ${version}; a newer release of marling has to finish this turn`;
    throw new MarlingError("unsupported_version", message, { details: { turnId, key, version } });
  }
}

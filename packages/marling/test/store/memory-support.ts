// Commits and inputs as a kernel would make them, with nothing in them that a test does not care about.

import type { NodeId, SessionId, TurnId } from "../../src/model/ids.ts";
import type { Json, JsonObject } from "../../src/model/json.ts";
import type { TurnReport } from "../../src/model/turn.ts";
import { NO_USAGE } from "../../src/model/usage.ts";
import type { NewInput, SessionCommit, SessionHead } from "../../src/store/contract.ts";

export const S = "s" as SessionId;

export function head(change: Partial<SessionHead> = {}): SessionHead {
  return {
    version: 1,
    turnIndex: 0,
    leaf: null,
    currentFrameId: "f",
    frames: [],
    ledger: [],
    lastPromptUsage: null,
    parentSessionId: null,
    operations: 0,
    ...change,
  };
}

/** A commit that appends nodes with these ids. */
export function commitOf(ids: readonly string[], change: Partial<SessionCommit> = {}): SessionCommit {
  const leaf = (ids.at(-1) ?? null) as NodeId | null;
  const nodes: readonly JsonObject[] = ids.map((id) => ({ id }));
  return {
    sessionId: S,
    expectedRevision: 0,
    operation: `op:${ids.join()}`,
    head: head({ leaf }),
    nodes,
    components: {},
    ...change,
  };
}

export function inputOf(
  submitted: Json,
  change: { readonly key?: string; readonly turnId?: string; readonly sessionId?: SessionId } = {},
): NewInput {
  const { turnId, ...rest } = change;
  return {
    sessionId: S,
    submitted,
    input: submitted,
    ...rest,
    ...(turnId === undefined ? {} : { turnId: turnId as TurnId }),
  };
}

export function reportOf(turnId: string): TurnReport {
  return {
    outcome: { kind: "finished", by: "message", text: "Done." },
    text: "Done.",
    turnId,
    revision: 1,
    usage: NO_USAGE,
    childUsage: [],
    toolCalls: [],
    modelCalls: [],
    issues: [],
  };
}

export async function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => "no error",
    (thrown: { readonly code?: string }) => thrown.code ?? String(thrown),
  );
}

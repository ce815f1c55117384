// What one commit adds to a session, as plain data: the difference of two versions of its graph.
//   C1  it has the nodes that were appended and the frames that changed, and nothing of the history before.
//   C2  the same operations give the same bytes, in every run.

import { MarlingError } from "../base/errors.ts";
import type { FrameId, NodeId, SessionId } from "../model/ids.ts";
import { canonicalJson, decodeJsonObject, type Json, type JsonObject } from "../model/json.ts";
import type { UsageEntry } from "../model/usage.ts";
import type { Frame } from "./frame.ts";
import type { SessionGraph } from "./graph.ts";
import type { SessionNode } from "./node.ts";

export interface CommitDraft {
  readonly version: 1;
  readonly sessionId: SessionId;
  /** The turn, append, command or compaction that the commit makes true. */
  readonly operation: string;
  /** The leaf that the nodes were put behind; absent in the first commit. */
  readonly base?: NodeId;
  readonly nodes: readonly SessionNode[];
  /** Frames that are new or changed; absent when none is. */
  readonly frames?: readonly Frame[];
  readonly currentFrameId: FrameId;
  readonly leaf: NodeId;
  readonly turnIndex: number;
  /** What the operation spent, by source and model. */
  readonly usage: readonly UsageEntry[];
  /** What else belongs to the commit: the outcome of the turn, settled inputs, marks of components. */
  readonly facts?: JsonObject;
}

export interface CommitExtras {
  readonly operation: string;
  readonly turnIndex: number;
  readonly usage?: readonly UsageEntry[];
  readonly facts?: JsonObject;
}

/** What leads from one version to a later one of the same graph; `before` is absent for the first commit. */
export function commitDraft(
  before: SessionGraph | undefined,
  after: SessionGraph,
  extras: CommitExtras,
): CommitDraft {
  checkSuccession(before, after);
  const { operation, turnIndex, usage = [], facts } = extras;
  const frames = changedFrames(before, after);
  return Object.freeze({
    version: 1,
    sessionId: after.sessionId,
    operation,
    ...(before === undefined ? {} : { base: before.leaf }),
    nodes: Object.freeze(after.path.tail(after.path.length - (before?.path.length ?? 0))),
    ...(frames.length === 0 ? {} : { frames }),
    currentFrameId: after.currentFrameId,
    leaf: after.leaf,
    turnIndex,
    usage,
    ...(facts === undefined ? {} : { facts: decodeJsonObject(facts, "facts") }),
  });
}

/** The bytes of a draft: canonical JSON. */
export function encodeCommitDraft(draft: CommitDraft): string {
  return canonicalJson(asJson(draft));
}

function checkSuccession(before: SessionGraph | undefined, after: SessionGraph): void {
  if (before === undefined) return;
  const isSuccessor =
    before.sessionId === after.sessionId && after.path.at(before.path.length - 1)?.id === before.leaf;
  if (isSuccessor) return;
  const message = `session ${after.sessionId}: expected a path that goes on from node ${before.leaf}, found ${after.leaf} on another`;
  throw new MarlingError("corrupt_graph", message, { details: { base: before.leaf, leaf: after.leaf } });
}

function changedFrames(before: SessionGraph | undefined, after: SessionGraph): readonly Frame[] {
  const known = before?.frames ?? [];
  if (known === after.frames) return [];
  return Object.freeze(after.frames.filter((frame, index) => !isSameFrame(known[index], frame)));
}

function isSameFrame(before: Frame | undefined, after: Frame): boolean {
  if (before === after) return true;
  return before !== undefined && canonicalJson(asJson(before)) === canonicalJson(asJson(after));
}

/** Drafts and frames consist of decoded JSON and have no member that is `undefined`. */
function asJson(value: CommitDraft | Frame): Json {
  return value as unknown as Json;
}

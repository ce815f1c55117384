// One commit of a session, inside a transaction that somebody else ends.
//   CM1  a commit that is refused half-way is undone by whoever ends its transaction or savepoint.
//   CM2  a commit that happens once is found by its operation, that of a turn through its input. Asked for again with the
//        same content it returns its first result; with other content it is refused.
//   CM3  the row of a commit holds what the commit added; its size does not depend on the history.
//   CM4  nothing is written before the lease, the revision and what was asked of the turn allow it.

import { MarlingError } from "../../base/errors.ts";
import type { JsonObject } from "../../model/json.ts";
import type { CommitResult, InboxRow, SessionCommit } from "../contract.ts";
import { contentDigest, isSameContent } from "./commit-content.ts";
import {
  type CommitTexts,
  commitKey,
  insertCommit,
  lastNodeOf,
  lastRevision,
  type Manifest,
  readManifest,
} from "./commit-rows.ts";
import { holdComponent, type PackedComponent, packComponent } from "./component-rows.ts";
import type { Connection } from "./connection.ts";
import { type HeadImages, isWholeDue, nextImage, wholeOf } from "./head-images.ts";
import { type HeadImage, type HeadPatch, headText, patchHead } from "./head-patch.ts";
import { admitInput, advanceInput, settleInput } from "./inbox-rows.ts";
import { derivedTurnPrefix, encodeSettled, type SettledInputs } from "./input-codec.ts";
import { countInputs, findTurnCommit, inputBySequence, type PendingInput, readInput } from "./input-rows.ts";
import type { JournalRows } from "./journal-rows.ts";
import { checkLease, releaseLease } from "./lease-rows.ts";
import { findName, putName } from "./name-rows.ts";
import { announceCommit, announcedCommit } from "./outbox-rows.ts";
import { textOf } from "./repeated-text.ts";
import { ensureSession, reviseSession, type SessionRow, sessionByNumber } from "./session-rows.ts";
import { endWaitsOf } from "./wait-rows.ts";
import { setWork } from "./work-rows.ts";

export interface CommitParts {
  readonly images: HeadImages;
  readonly journal: JournalRows;
}

interface NamedCommit {
  readonly commit: SessionCommit;
  readonly revision: number;
  readonly settled: SettledInputs | undefined;
}

/** What can be prepared before the transaction: texts and digests. */
export interface PreparedCommit {
  readonly commit: SessionCommit;
  readonly nodes: string;
  /** Long strings of the nodes. */
  readonly strings: readonly string[];
  readonly components: readonly (readonly [string, PackedComponent])[];
  /** Wall time, for what the commit ends. */
  readonly now: number;
  /** Its text was long to make, and will be long to write. */
  readonly isLarge: boolean;
}

const LARGE = 1024 * 1024;

export function prepareCommit(commit: SessionCommit, now: number = Date.now()): PreparedCommit {
  const { text: nodes, strings } = textOf(commit.nodes);
  const components = Object.entries(commit.components)
    .filter((entry): entry is [string, JsonObject] => entry[1] !== undefined)
    .map(([name, component]): [string, PackedComponent] => [name, packComponent(component)]);
  return { commit, nodes, strings, components, now, isLarge: nodes.length > LARGE };
}

export function commitSession(db: Connection, prepared: PreparedCommit, parts: CommitParts): CommitResult {
  const { commit } = prepared;
  const session = ensureSession(db, commit.sessionId);
  const known = findOnce(db, session, prepared);
  if (known?.isSame === true) return known.result;
  checkLease(db, session, commit.lease);
  const found = lastRevision(db, session);
  if (known !== undefined || found !== commit.expectedRevision) throw revisionConflict(commit, found);
  const settling = commit.settles === undefined ? undefined : readInput(db, session, commit.settles.inputId);
  refuseCancelled(session, commit, settling);
  const point = { no: session.no, id: session.id, revision: found + 1 };
  const enqueued = (commit.enqueues ?? []).map((input) => admitInput(db, input).row);
  const inputs = countInputs(db, session);
  const settled = moveInput(db, session, { commit, settling, revision: point.revision });
  forgetTurns(db, session, { prepared, journal: parts.journal });
  const before = parts.images.of(session);
  const isWhole = before !== undefined && isWholeDue(before);
  const { patch, image } = patchHead(before?.head, commit.head, {
    lastNode: lastNodeOf(commit.nodes),
    isWhole,
  });
  const changed = manifestOf(prepared, { patch, image, inputs, settled });
  const next = nextImage(before, { head: image, components: changed.components, point, isWhole });
  const manifest = isWhole ? { ...changed, whole: wholeOf(next) } : changed;
  insertCommit(db, point, {
    manifest: { ...manifest, ...enqueuedPoints(db, enqueued) },
    nodes: prepared.nodes,
    settled: settledText(prepared, settled),
  });
  for (const [, component] of prepared.components) holdComponent(db, component, commitKey(point));
  if (commit.once === true) nameOnce(db, session, { commit, revision: point.revision, settled });
  reviseSession(db, session, commit.head.parentSessionId);
  updateOutbox(db, session, { commit, revision: point.revision });
  if (commit.hasWork !== undefined) setWork(db, session, commit.hasWork);
  if (commit.releases === true && commit.lease !== undefined) releaseLease(db, session, commit.lease);
  parts.images.set(session.no, next);
  return { revision: point.revision, enqueued };
}

/** The commit with this operation that happens once. A turn's is found through its input. */
function findOnce(
  db: Connection,
  session: SessionRow,
  { commit }: PreparedCommit,
): { readonly isSame: boolean; readonly result: CommitResult } | undefined {
  const { operation } = commit;
  if (commit.once !== true) return undefined;
  const named = findName(db, session.no, { kind: "operation", name: operation });
  const revision =
    named?.kind === "commit" ? named.revision : findTurnCommit(db, session, turnNamedBy(session, operation));
  if (revision === undefined) return undefined;
  const manifest = readManifest(db, session, revision);
  if (manifest?.once?.operation !== operation) return undefined;
  const enqueued = (manifest.enqueued ?? []).flatMap(([no, sequence]) => enqueuedRow(db, no, sequence));
  const isSame = isSameContent(db, commit, { session, revision, digest: manifest.once.digest });
  return { isSame, result: { revision, enqueued } };
}

/** An input as it was when it was put into the inbox; none when its session was deleted since. */
function enqueuedRow(db: Connection, no: number, sequence: number): readonly InboxRow[] {
  const session = sessionByNumber(db, no);
  const row = session === undefined ? undefined : inputBySequence(db, session, sequence);
  if (row === undefined) return [];
  const {
    progress: _progress,
    report: _report,
    claimed: _claimed,
    cancel: _cancel,
    parked: _parked,
    ...admitted
  } = row;
  return [admitted];
}

/** A turn that was asked to end can be settled as cancelled only. */
function refuseCancelled(
  session: SessionRow,
  { settles }: SessionCommit,
  settling: PendingInput | undefined,
): void {
  if (settles === undefined) return;
  const { outcome } = settles.report;
  if (outcome.kind === "stopped" && outcome.reason === "cancelled") return;
  const cancel = settling?.state.cancel;
  if (cancel === undefined) return;
  throw new MarlingError(
    "turn_cancelled",
    `session ${session.id}, input ${settles.inputId}: expected the report of a cancelled turn, because it was asked to end (${cancel.reason}), found ${outcome.kind}`,
    { details: { sessionId: session.id, inputId: settles.inputId, reason: cancel.reason } },
  );
}

/** Moves the inputs that a commit is about; returns those that it settles. */
function moveInput(
  db: Connection,
  session: SessionRow,
  {
    commit,
    settling,
    revision,
  }: {
    readonly commit: SessionCommit;
    readonly settling: PendingInput | undefined;
    readonly revision: number;
  },
): SettledInputs | undefined {
  const { joins = [], advances } = commit;
  if (settling !== undefined) return settleInput(db, session, { row: settling.row, joins, revision });
  if (advances !== undefined) advanceInput(db, session, advances);
  return undefined;
}

/** Removes the journals of turns that are done with, and ends their waits. Before the commit, which takes the room. */
function forgetTurns(
  db: Connection,
  session: SessionRow,
  { prepared, journal }: { readonly prepared: PreparedCommit; readonly journal: JournalRows },
): void {
  const { commit, now } = prepared;
  if (commit.forgets === undefined) return;
  journal.forget(session, commit.forgets);
  endWaitsOf(db, session, commit.forgets, now);
}

function updateOutbox(
  db: Connection,
  session: SessionRow,
  { commit, revision }: { readonly commit: SessionCommit; readonly revision: number },
): void {
  for (const done of commit.announced ?? []) announcedCommit(db, session, done);
  if (commit.announces !== undefined) announceCommit(db, session, { revision, turnId: commit.announces });
}

function manifestOf(
  { commit, components }: PreparedCommit,
  {
    patch,
    image,
    inputs,
    settled,
  }: {
    readonly patch: HeadPatch;
    readonly image: HeadImage;
    readonly inputs: number;
    readonly settled: SettledInputs | undefined;
  },
): Manifest {
  const { operation } = commit;
  const hasReport = settled !== undefined;
  const digests = Object.fromEntries(components.map(([name, { digest }]) => [name, digest]));
  return {
    ...(commit.once === true
      ? {
          once: {
            operation,
            digest: contentDigest(commit, { hasReport, head: headText(commit.head, image) }),
          },
        }
      : {}),
    head: patch,
    inputs,
    ...(components.length === 0 ? {} : { components: digests }),
  };
}

function enqueuedPoints(db: Connection, rows: readonly InboxRow[]): Pick<Manifest, "enqueued"> {
  if (rows.length === 0) return {};
  return { enqueued: rows.map((row) => [ensureSession(db, row.sessionId).no, row.sequence]) };
}

function settledText(
  { commit, strings }: PreparedCommit,
  settled: SettledInputs | undefined,
): CommitTexts["settled"] {
  if (settled === undefined || commit.settles === undefined) return undefined;
  return { sequence: settled.row.sequence, text: encodeSettled(settled, commit.settles.report, strings) };
}

/** The turn id that an operation ends with, if it was derived; else the operation may be a turn id itself. */
function turnNamedBy({ id }: SessionRow, operation: string): string {
  const start = operation.lastIndexOf(derivedTurnPrefix(id));
  return start < 0 ? operation : operation.slice(start);
}

/** Makes a commit that happens once known by its operation, unless that leads to the input that it settled. */
function nameOnce(db: Connection, session: SessionRow, { commit, revision, settled }: NamedCommit): void {
  const { operation } = commit;
  if (turnNamedBy(session, operation) === settled?.row.turnId) return;
  putName(db, session.no, { kind: "operation", name: operation, place: { kind: "commit", revision } });
}

function revisionConflict(commit: SessionCommit, found: number): MarlingError {
  return new MarlingError(
    "revision_conflict",
    `session ${commit.sessionId}: expected revision ${commit.expectedRevision}, found ${found}`,
    { details: { expected: commit.expectedRevision, found } },
  );
}

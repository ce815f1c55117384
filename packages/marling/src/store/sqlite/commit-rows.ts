// Commits as rows, and the path of a session: the commits of its ancestors up to where each fork left, then its own.

import type { NodeId } from "../../model/ids.ts";
import { isJsonObject, type Json, type JsonObject } from "../../model/json.ts";
import type { TurnReport } from "../../model/turn.ts";
import type { InboxRow } from "../contract.ts";
import { releaseComponent } from "./component-rows.ts";
import type { Connection } from "./connection.ts";
import type { SqlRow } from "./driver.ts";
import type { HeadPatch } from "./head-patch.ts";
import { decodeSettled } from "./input-codec.ts";
import { textOf } from "./repeated-text.ts";
import { withSum } from "./row-sum.ts";
import { type CommitPoint, type SessionKey, type SessionRow, sessionByNumber } from "./session-rows.ts";
import { restoreText, shortenTexts } from "./session-text.ts";
import { damaged } from "./sqlite-fault.ts";

/** What a commit changed beside its nodes. */
export interface Manifest {
  /** Of a commit that happens once: its operation, and a digest of what was asked for (commit-content.ts). */
  readonly once?: { readonly operation: string; readonly digest: string };
  readonly head: HeadPatch;
  /** Components that changed, by name, as digests. */
  readonly components?: { readonly [name: string]: string };
  /** With a head that is all of it: all components, and which commit opened the current frame, unless it is the first. */
  readonly whole?: {
    readonly components: { readonly [name: string]: string };
    readonly opened?: readonly [session: number, revision: number];
  };
  /** How many inputs the session had taken. */
  readonly inputs: number;
  /** Inputs that the commit put into inboxes: number of the session and sequence. */
  readonly enqueued?: readonly (readonly [number, number])[];
}

export interface CommitTexts {
  readonly manifest: Manifest;
  readonly nodes: string;
  /** The input that the commit settles, as a text with its report and the inputs that joined its turn. */
  readonly settled?: { readonly sequence: number; readonly text: string } | undefined;
}

export interface ManifestPoint extends CommitPoint {
  readonly manifest: Manifest;
}

export interface PathCommit extends ManifestPoint {
  readonly nodes: readonly JsonObject[];
}

/** A part of a path: from one of its commits on, and up to the one before another. */
export interface PathPart {
  readonly from?: CommitPoint | undefined;
  readonly before?: CommitPoint | undefined;
}

const OF_SESSION = "at BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295";
const LAST = `SELECT at & 4294967295 AS n, manifest FROM commits WHERE ${OF_SESSION} ORDER BY at DESC LIMIT 1`;
const NEWEST = `SELECT max(at) & 4294967295 AS n FROM commits WHERE ${OF_SESSION}`;
const UP_TO = "FROM commits WHERE at BETWEEN ?1 << 32 AND ?1 << 32 | ?2 ORDER BY at";
const NEWEST_UP_TO = `SELECT at & 4294967295 AS n, manifest, nodes ${UP_TO} DESC LIMIT 1`;
const NO_LIMIT = 4294967295;
/** So many commits are read as one text, unless one of them has a longer one than this. */
const TOGETHER = 64;
const LONGEST_JOINED = 256 * 1024;

export function lastCommit(
  db: Connection,
  session: SessionKey,
): { readonly revision: number; readonly manifest: Manifest } | undefined {
  const row = db.get(LAST, session.no);
  return row === undefined
    ? undefined
    : { revision: db.integer(row, "n"), manifest: decodeManifest(db, row, pointOf(db, row, session)) };
}

/** The revision of the newest commit; 0 when there is none. */
export function lastRevision(db: Connection, { no }: SessionKey): number {
  const known = db.memory.of(no);
  if (known.revision !== undefined) return known.revision;
  const row = db.get(NEWEST, no);
  const revision = row === undefined || row.n === null ? 0 : db.integer(row, "n");
  known.revision = revision;
  return revision;
}

export function readManifest(db: Connection, session: SessionKey, revision: number): Manifest | undefined {
  const row = db.get("SELECT manifest FROM commits WHERE at = ? << 32 | ?", session.no, revision);
  return row === undefined ? undefined : decodeManifest(db, row, { ...session, revision });
}

export function insertCommit(
  db: Connection,
  { no, id, revision }: SessionKey & CommitPoint,
  texts: CommitTexts,
): void {
  const { manifest, nodes, settled } = texts;
  const all = [JSON.stringify(manifest), settled?.text ?? "", nodes];
  const [manifestText = "", settledText = "", nodesText = ""] = shortenTexts(all, id);
  const settles = settled?.sequence ?? null;
  db.run(
    "INSERT INTO commits (at, settles, manifest, settled, nodes) VALUES (? << 32 | ?, ?, ?, ?, ?)",
    no,
    revision,
    settles,
    withSum(manifestText, { column: "manifest", no, revision }),
    settled === undefined ? null : withSum(settledText, { column: "settled", no, revision, settles }),
    withSum(nodesText, { column: "nodes", no, revision }),
  );
  db.memory.of(no).revision = revision;
  db.commitsInLog += 1;
}

/**
 * The revision of the commit that settled an input. Looks at every commit of the session until it is found; when it is
 * not, at what each of them settled, because the number of the input may be damaged.
 */
export function findSettling(db: Connection, no: number, sequence: number): number | undefined {
  const sql = `SELECT at & 4294967295 AS n FROM commits WHERE ${OF_SESSION} AND settles = ?2 LIMIT 1`;
  const row = db.get(sql, no, sequence);
  if (row === undefined) checkSettled(db, no);
  return row === undefined ? undefined : db.integer(row, "n");
}

function checkSettled(db: Connection, no: number): void {
  const sql = `SELECT at & 4294967295 AS n, settles, settled FROM commits WHERE at > ?1 << 32 | ?2 AND at <= ?1 << 32 | 4294967295 ORDER BY at LIMIT 1`;
  for (let row = db.get(sql, no, 0); row !== undefined; row = db.get(sql, no, db.integer(row, "n"))) {
    if ((row.settles === null) !== (row.settled === null))
      throw damaged(db.path, "column settles: expected it beside a settled input");
    if (row.settled !== null) settledText(db, row, { no, revision: db.integer(row, "n") });
  }
}

/** The text of a settled input, after a look at its checksum. */
function settledText(db: Connection, row: SqlRow, { no, revision }: CommitPoint): string {
  const settles = db.integer(row, "settles");
  return db.commitText(db.text(row, "settled"), { column: "settled", no, revision, settles });
}

/** What a commit was asked for with, as far as its row holds it: a report only of one that settled an input. */
export function readContent(
  db: Connection,
  session: SessionKey,
  revision: number,
): { readonly nodes: readonly JsonObject[]; readonly report?: TurnReport } {
  const row = db.get("SELECT settled, nodes FROM commits WHERE at = ? << 32 | ?", session.no, revision);
  if (row === undefined) throw damaged(db.path, `session ${session.id}: expected revision ${revision}`);
  const [input] = row.settled === null ? [] : readSettled(db, session, revision);
  const nodes = decodeNodes(db, row, { ...session, revision });
  return input?.report === undefined ? { nodes } : { nodes, report: input.report };
}

/** The input that a commit settled, and behind it those that joined its turn. */
export function readSettled(db: Connection, session: SessionKey, revision: number): readonly InboxRow[] {
  const row = db.get(
    "SELECT settles, settled, nodes FROM commits WHERE at = ? << 32 | ?",
    session.no,
    revision,
  );
  const where = `session ${session.id}, revision ${revision}`;
  if (row === undefined) throw damaged(db.path, `${where}: expected a commit, found none`);
  const { strings } = textOf(decodeNodes(db, row, { ...session, revision }));
  const text = restoreText(settledText(db, row, { no: session.no, revision }), session.id);
  try {
    return decodeSettled(session.id, text, { sequence: db.integer(row, "settles"), strings });
  } catch (cause) {
    throw damaged(db.path, `${where}: expected a settled input, found something else`, { cause });
  }
}

/** The commits that a session consists of, newest first. Each is read when it is asked for. */
export function* pathBackwards(db: Connection, session: SessionRow): Generator<PathCommit> {
  for (const part of ancestry(db, session)) {
    const { no } = part;
    for (let row = db.get(NEWEST_UP_TO, no, part.revision); row !== undefined; ) {
      const revision = db.integer(row, "n");
      const point = { ...part, revision };
      yield { no, revision, manifest: decodeManifest(db, row, point), nodes: decodeNodes(db, row, point) };
      row = db.get(NEWEST_UP_TO, no, revision - 1);
    }
  }
}

/** The nodes of a part of a path, oldest first. Does not look at the other commits. */
export function readNodes(
  db: Connection,
  session: SessionRow,
  { from, before }: PathPart,
): readonly JsonObject[] {
  const parts = lineage(db, session);
  const first = from === undefined ? 0 : parts.findIndex(({ no }) => no === from.no);
  const last = before === undefined ? parts.length : parts.findIndex(({ no }) => no === before.no);
  return parts.slice(first, last + 1).flatMap((part) => {
    const low = part.no === from?.no ? from.revision : 0;
    const high = part.no === before?.no ? before.revision - 1 : part.revision;
    const nodes: JsonObject[] = [];
    for (const chunk of readColumn(db, part, { column: "nodes", low, high }))
      for (const { value } of chunk) for (const node of nodesOf(db, value)) nodes.push(node);
    return nodes;
  });
}

/** What the commits that a session consists of changed, newest first. Some are read at a time, when they are asked for. */
export function* manifestsBackwards(db: Connection, session: SessionRow): Generator<ManifestPoint> {
  for (const part of ancestry(db, session)) {
    const { no, revision: high } = part;
    for (const chunk of readColumn(db, part, { column: "manifest", low: 0, high, isBackwards: true }))
      for (const { revision, value } of chunk) yield { no, revision, manifest: manifestOf(db, value) };
  }
}

/** Removes the commits of a session behind a revision, with their hold on components. */
export function deleteCommits(db: Connection, session: SessionKey, revision: number): void {
  const { no } = session;
  const behind = "FROM commits WHERE at > ?1 << 32 | ?2 AND at <= ?1 << 32 | 4294967295";
  for (const row of db.all(`SELECT at & 4294967295 AS n, manifest ${behind}`, no, revision)) {
    const point = pointOf(db, row, session);
    for (const digest of Object.values(decodeManifest(db, row, point).components ?? {})) {
      releaseComponent(db, digest, commitKey(point));
    }
  }
  db.run(`DELETE ${behind}`, no, revision);
  db.memory.dropRows(no);
}

/** The key of a commit's row. */
export function commitKey({ no, revision }: CommitPoint): bigint {
  return (BigInt(no) << 32n) | BigInt(revision);
}

export function lastNodeOf(nodes: readonly JsonObject[]): NodeId | undefined {
  const id = nodes.at(-1)?.id;
  return typeof id === "string" ? (id as NodeId) : undefined; // nodes carry the ids that were minted for them
}

/** Whose commits, and up to which revision, a session consists of, oldest first. */
function lineage(db: Connection, session: SessionRow): readonly (SessionKey & CommitPoint)[] {
  return [...ancestry(db, session)].reverse();
}

/** As `lineage`, newest first; looks at an ancestor when it is asked for. */
function* ancestry(db: Connection, session: SessionRow): Generator<SessionKey & CommitPoint> {
  yield { no: session.no, id: session.id, revision: NO_LIMIT };
  for (let { base } = session; base !== undefined; ) {
    const source = sessionByNumber(db, base.no);
    if (source === undefined) throw damaged(db.path, `expected session number ${base.no}, found none`);
    yield { no: source.no, id: source.id, revision: base.revision };
    base = source.base;
  }
}

/** Which commits of a session are read, and what of them. */
interface ColumnPart {
  readonly column: "manifest" | "nodes";
  readonly low: number;
  readonly high: number;
  readonly isBackwards?: boolean;
}

/** Between texts that are read as one: no mark has the second character (text-fragments.ts), and no JSON the first. */
const BETWEEN = "\u001f!";

/**
 * The JSON of a column in commits of one session, some at a time: SQLite puts their texts together, because a long one is
 * read many times as fast as many short ones. A commit that is missing between two others is `store_corrupt`.
 */
function* readColumn(
  db: Connection,
  { no, id }: SessionKey,
  { column, low, high, isBackwards = false }: ColumnPart,
): Generator<readonly { readonly revision: number; readonly value: Json }[]> {
  const rows = `SELECT at & 4294967295 AS n, ${column} FROM commits WHERE at BETWEEN ?1 << 32 | ?2 AND ?1 << 32 | ?3 ORDER BY at ${isBackwards ? "DESC" : "ASC"} LIMIT ${TOGETHER}`;
  const short = `CASE WHEN octet_length(${column}) <= ${LONGEST_JOINED} THEN ${column} END`;
  const joined = `SELECT group_concat(n, ',') AS revisions, group_concat(${short}, char(31, 33)) AS texts FROM (${rows})`;
  let [first, last] = [low, high];
  for (let count = TOGETHER; count === TOGETHER; ) {
    const row = db.get(joined, no, first, last);
    if (row === undefined || row.revisions === null) return;
    const revisions = db.text(row, "revisions").split(",").map(Number);
    requireSequence(db, revisions);
    count = revisions.length;
    const together = row.texts === null ? [] : db.text(row, "texts").split(BETWEEN);
    const stored =
      together.length === count ? together : db.all(rows, no, first, last).map((one) => db.text(one, column));
    const texts = stored.map((text, index) =>
      db.commitText(text, { column, no, revision: revisions[index] ?? 0 }),
    );
    const values =
      together.length === count
        ? db.parsedTogether(texts, column, id)
        : texts.map((text) => db.parsed(text, column, id));
    yield revisions.map((revision, index) => ({ revision, value: values[index] ?? null }));
    if (isBackwards) last = (revisions.at(-1) ?? 0) - 1;
    else first = (revisions.at(-1) ?? 0) + 1;
  }
}

function requireSequence(db: Connection, revisions: readonly number[]): void {
  const [first = 0] = revisions;
  const step = (revisions[1] ?? first) < first ? -1 : 1;
  if (revisions.every((revision, index) => revision === first + step * index)) return;
  throw damaged(db.path, "table commits: expected every commit of a session, found that some are missing");
}

function pointOf(db: Connection, row: SqlRow, { no, id }: SessionKey): SessionKey & CommitPoint {
  return { no, id, revision: db.integer(row, "n") };
}

function decodeManifest(
  db: Connection,
  row: SqlRow,
  { no, id, revision }: SessionKey & CommitPoint,
): Manifest {
  const text = db.commitText(db.text(row, "manifest"), { column: "manifest", no, revision });
  return manifestOf(db, db.parsed(text, "manifest", id));
}

function manifestOf(db: Connection, manifest: Json): Manifest {
  if (isJsonObject(manifest) && isJsonObject(manifest.head ?? null)) return manifest as unknown as Manifest;
  throw damaged(db.path, "column manifest: expected what a commit changed, found other JSON");
}

function decodeNodes(
  db: Connection,
  row: SqlRow,
  { no, id, revision }: SessionKey & CommitPoint,
): readonly JsonObject[] {
  const text = db.commitText(db.text(row, "nodes"), { column: "nodes", no, revision });
  return nodesOf(db, db.parsed(text, "nodes", id));
}

function nodesOf(db: Connection, nodes: Json): readonly JsonObject[] {
  if (Array.isArray(nodes)) return nodes;
  throw damaged(db.path, "column nodes: expected a list, found other JSON");
}

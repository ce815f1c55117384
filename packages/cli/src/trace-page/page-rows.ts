// A trace as rows of a timeline: a tree in the order things began, cut into sections of one turn each.
//   PR1  what announces a span and what ends it are one row; a span that never ended is shown as open.
//   PR2  a call with one attempt is one row; more attempts are rows below it.
//   PR3  a turn that another one started is below the call that started it.

import type { TraceRecord } from "marling";
import { describeRecord, type RowText } from "./describe-record.ts";

export interface PageRow extends RowText {
  readonly depth: number;
  readonly start: number;
  readonly duration: number;
  /** Until the first token of a model's answer. */
  readonly first?: number;
  readonly record: TraceRecord;
}

/** One run of a turn that no other one started, or what happened beside the turns of a session. */
export interface PageSection {
  readonly session: string;
  readonly turn: string | undefined;
  /** Which run of its turn it is; 1 for the first. */
  readonly run: number;
  readonly start: number;
  readonly duration: number;
  readonly rows: readonly PageRow[];
}

interface Node {
  record: TraceRecord;
  readonly children: Node[];
  isOpen: boolean;
}

export function pageSections(records: readonly TraceRecord[]): readonly PageSection[] {
  const roots = treeOf(records);
  const turns = roots.filter(({ record }) => isTurn(record));
  const beside = groupBy(
    roots.filter(({ record }) => !isTurn(record)),
    ({ record }) => sessionOf(record),
  );
  const runs = new Map<string, number>();
  const sections = turns.map((node) => {
    const { record } = node;
    const key = `${sessionOf(record)}\n${record.turnId ?? ""}`;
    const run = (runs.get(key) ?? 0) + 1;
    runs.set(key, run);
    return sectionOf([node], { session: sessionOf(record), turn: record.turnId, run });
  });
  const others = [...beside].map(([session, nodes]) =>
    sectionOf(nodes, { session, turn: undefined, run: 1 }),
  );
  return [...sections.sort((a, b) => a.start - b.start), ...others];
}

/** Values by a key, in the order they came. */
export function groupBy<T>(values: readonly T[], keyOf: (value: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const value of values) {
    const key = keyOf(value);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [value]);
    else group.push(value);
  }
  return groups;
}

/** A session as the page names it: with its tenant, where there is one. */
export function sessionOf({ tenant, sessionId }: TraceRecord): string {
  return tenant === undefined ? sessionId : `${tenant} / ${sessionId}`;
}

function treeOf(records: readonly TraceRecord[]): readonly Node[] {
  const nodes = new Map<string, Node>();
  for (const record of records) {
    const known = nodes.get(record.spanId);
    if (known === undefined)
      nodes.set(record.spanId, { record, children: [], isOpen: isAnnouncement(record) });
    else if (known.isOpen) Object.assign(known, { record, isOpen: false });
  }
  const roots: Node[] = [];
  for (const node of nodes.values()) {
    const parent = nodes.get(node.record.parentId ?? "");
    if (parent === undefined || parent === node) roots.push(node);
    else parent.children.push(node);
  }
  for (const { children } of nodes.values()) children.sort(byStart);
  return roots.sort(byStart);
}

function sectionOf(nodes: readonly Node[], name: Pick<PageSection, "session" | "turn" | "run">): PageSection {
  const start = Math.min(...nodes.map(({ record }) => record.at));
  const end = nodes.reduce((latest, node) => Math.max(latest, endOf(node)), start);
  const rows: PageRow[] = [];
  for (const node of nodes) addRows(rows, node, { depth: 0, end, seen: new Set() });
  return { ...name, start, duration: end - start, rows };
}

interface Place {
  readonly depth: number;
  /** When the section ends: what is open lasts until then. */
  readonly end: number;
  readonly seen: Set<Node>;
}

function addRows(rows: PageRow[], node: Node, { depth, end, seen }: Place): void {
  if (seen.has(node)) return; // A file may say that a span is part of itself.
  seen.add(node);
  const { record, isOpen } = node;
  const attempts = node.children.filter((child) => isAttempt(child.record));
  const only = attempts.length === 1 ? attempts[0] : undefined;
  const context = { isOpen, attempts: attempts.map((attempt) => attempt.record), isBelow: depth > 0 };
  const shown = describeRecord(record, context);
  const first = only?.record.kind === "model_attempt" ? only.record.payload.firstTokenMs : undefined;
  rows.push({
    ...shown,
    depth,
    start: record.at,
    duration: isOpen ? Math.max(0, end - record.at) : record.durationMs,
    ...(typeof first === "number" ? { first } : {}),
    record: only?.record.kind === "model_attempt" ? { ...record, ...joined(record, only.record) } : record,
  });
  const below =
    only === undefined
      ? node.children
      : [...only.children, ...node.children.filter((child) => child !== only)];
  for (const child of below) addRows(rows, child, { depth: depth + 1, end, seen });
}

/** A call with what its only attempt says of it. */
function joined(call: TraceRecord, { payload }: TraceRecord): TraceRecord {
  return { ...call, payload: { ...call.payload, ...payload } } as TraceRecord; // shown as JSON, and nothing else
}

function endOf({ record, children }: Node): number {
  return children.reduce(
    (latest, { record: child }) => Math.max(latest, child.at + child.durationMs),
    record.at + record.durationMs,
  );
}

function byStart(a: Node, b: Node): number {
  return a.record.at - b.record.at;
}

function isTurn({ kind }: TraceRecord): boolean {
  return kind === "turn" || kind === "turn_started";
}

function isAnnouncement({ kind }: TraceRecord): boolean {
  return kind === "turn_started" || kind === "tool_started";
}

function isAttempt({ kind }: TraceRecord): boolean {
  return kind === "model_attempt" || kind === "tool_attempt";
}

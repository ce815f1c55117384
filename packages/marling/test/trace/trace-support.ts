// A sink that keeps what it is told, and ways to look at it.

import type { TraceKind, TraceRecord, TraceSink } from "marling";

export interface KeptTrace extends TraceSink {
  readonly records: readonly TraceRecord[];
}

export function keptTrace({ wantsContent = false } = {}): KeptTrace {
  const records: TraceRecord[] = [];
  return { wantsContent, records, record: (record) => void records.push(record) };
}

export function ofKind<Kind extends TraceKind>(
  { records }: Pick<KeptTrace, "records">,
  kind: Kind,
): readonly TraceRecord<Kind>[] {
  return records.filter((record) => record.kind === kind) as unknown as readonly TraceRecord<Kind>[];
}

/** The tree of a trace, one line per span: its kind, with spans that were announced counted once. */
export function outline({ records }: Pick<KeptTrace, "records">): readonly string[] {
  const ended = records.filter(({ kind }) => kind !== "turn_started" && kind !== "tool_started");
  const known = new Set(ended.map(({ spanId }) => spanId));
  const below = (parent: string | undefined, depth: number): readonly string[] =>
    ended
      .filter(
        ({ parentId }) => (parentId !== undefined && known.has(parentId) ? parentId : undefined) === parent,
      )
      .toSorted((a, b) => numberOf(a) - numberOf(b))
      .flatMap((record) => [`${"  ".repeat(depth)}${record.kind}`, ...below(record.spanId, depth + 1)]);
  return below(undefined, 0);
}

/** Spans of one session are numbered in the order they began. */
function numberOf({ spanId }: TraceRecord): number {
  return Number(spanId.split(".")[1]);
}

// The shortest way from one list of lines to another (Myers), within a bound; beyond it, everything that differs is replaced.

export interface LineChange {
  readonly kind: "same" | "removed" | "added";
  readonly line: string;
}

const MAX_STEPS = 400;

/** What happened to each line, in order: removed lines before those added in their place. */
export function diffLines(before: readonly string[], after: readonly string[]): readonly LineChange[] {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < shorter - head && before[before.length - 1 - tail] === after[after.length - 1 - tail])
    tail += 1;
  const removed = before.slice(head, before.length - tail);
  const added = after.slice(head, after.length - tail);
  return [
    ...as("same", before.slice(0, head)),
    ...(shortest(removed, added) ?? [...as("removed", removed), ...as("added", added)]),
    ...as("same", before.slice(before.length - tail)),
  ];
}

function as(kind: LineChange["kind"], lines: readonly string[]): readonly LineChange[] {
  return lines.map((line) => ({ kind, line }));
}

/** For each number of steps, how far each diagonal reaches; walked back from the end. */
function shortest(before: readonly string[], after: readonly string[]): readonly LineChange[] | undefined {
  const reached = new Map<number, number>([[1, 0]]);
  const trace: ReadonlyMap<number, number>[] = [];
  const most = Math.min(MAX_STEPS, before.length + after.length);
  for (let steps = 0; steps <= most; steps += 1) {
    trace.push(new Map(reached));
    for (let diagonal = -steps; diagonal <= steps; diagonal += 2) {
      let x = isDown(reached, diagonal, steps) ? far(reached, diagonal + 1) : far(reached, diagonal - 1) + 1;
      while (x < before.length && x - diagonal < after.length && before[x] === after[x - diagonal]) x += 1;
      reached.set(diagonal, x);
      if (x >= before.length && x - diagonal >= after.length) return walkBack(trace, before, after);
    }
  }
  return undefined;
}

function far(reached: ReadonlyMap<number, number>, diagonal: number): number {
  return reached.get(diagonal) ?? -1;
}

function isDown(reached: ReadonlyMap<number, number>, diagonal: number, steps: number): boolean {
  if (diagonal === -steps) return true;
  return diagonal !== steps && far(reached, diagonal - 1) < far(reached, diagonal + 1);
}

function walkBack(
  trace: readonly ReadonlyMap<number, number>[],
  before: readonly string[],
  after: readonly string[],
): readonly LineChange[] {
  const changes: LineChange[] = [];
  let x = before.length;
  let y = after.length;
  for (let steps = trace.length - 1; steps >= 0; steps -= 1) {
    const reached = trace[steps] ?? new Map<number, number>();
    const isAdded = isDown(reached, x - y, steps);
    const from = isAdded ? x - y + 1 : x - y - 1;
    const startX = steps === 0 ? 0 : far(reached, from);
    const startY = steps === 0 ? 0 : startX - from;
    while (x > startX && y > startY) {
      x -= 1;
      y -= 1;
      changes.push({ kind: "same", line: before[x] ?? "" });
    }
    if (steps === 0) break;
    if (isAdded) changes.push({ kind: "added", line: after[startY] ?? "" });
    else changes.push({ kind: "removed", line: before[startX] ?? "" });
    x = startX;
    y = startY;
  }
  return changes.reverse();
}

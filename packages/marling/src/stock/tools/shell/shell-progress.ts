// What watchers are told while a command runs.
//   SH13  at most one message per interval, with the last of what was printed, and one for the latest output.

import type { ShellProcess } from "./shell-process.ts";

const SHOWN_BYTES = 1_000;

/** Tells of new output until the returned function is called. */
export function progressOf(
  process: ShellProcess,
  { everyMs, tell }: { readonly everyMs: number; readonly tell: (text: string) => void },
): () => void {
  let timer: NodeJS.Timeout | undefined;
  let toldAt = Number.NEGATIVE_INFINITY;
  const now = (): void => {
    timer = undefined;
    toldAt = performance.now();
    tell(process.output.recent(SHOWN_BYTES));
  };
  process.onOutput = () => {
    if (timer !== undefined) return;
    const dueMs = toldAt + everyMs - performance.now();
    if (dueMs <= 0) now();
    else timer = setTimeout(now, dueMs);
  };
  return () => {
    clearTimeout(timer);
    process.onOutput = () => undefined;
  };
}

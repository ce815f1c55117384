// Where a history may be cut: before an input of the user, and never between a call and its result.

import type { Message } from "../../index.ts";

export interface SplitHistory {
  readonly older: readonly Message[];
  /** The newest turns, as they are. */
  readonly kept: readonly Message[];
}

/** Splits off the newest turns; with fewer turns than that, nothing is older. */
export function splitHistory(messages: readonly Message[], keepTurns: number): SplitHistory {
  const starts = messages.flatMap(({ role }, index) => (role === "user" ? [index] : []));
  for (let turn = starts.length - keepTurns; turn >= 0; turn -= 1) {
    const cut = turn === starts.length ? messages.length : (starts[turn] ?? 0);
    const older = messages.slice(0, cut);
    if (hasNoOpenCall(older)) return { older, kept: messages.slice(cut) };
  }
  return { older: [], kept: messages };
}

function hasNoOpenCall(messages: readonly Message[]): boolean {
  const open = new Set<string>();
  for (const { parts } of messages) {
    for (const part of parts) {
      if (part.kind === "tool_call") open.add(part.callId);
      if (part.kind === "tool_result") open.delete(part.callId);
    }
  }
  return open.size === 0;
}

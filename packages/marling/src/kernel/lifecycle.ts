// Telling lifecycle handlers. They are told, not asked: a handler that fails is reported and ends nothing.

import type { TurnIssue } from "../model/turn.ts";
import type { LifecycleEvent } from "../plugin/hook-context.ts";
import type { ResidentSession } from "./resident-session.ts";
import { nameOf, type TurnRun } from "./turn-run.ts";

/** Tells all handlers at once, waits for them, and returns what failed. Without handlers the event is not made. */
export async function tell(
  session: ResidentSession,
  event: () => LifecycleEvent,
): Promise<readonly TurnIssue[]> {
  const { plugins, parts } = session;
  return plugins.hasRuntimeEventHooks ? plugins.emitRuntimeEvent(event(), parts.probe) : [];
}

/**
 * As `tell`, with the failures in the report of the turn. Handlers are no effects, so what effects were paid for is
 * written before they run; hooks that were asked before them may be asked again.
 */
export async function tellTurn(turn: TurnRun, event: () => LifecycleEvent): Promise<void> {
  const { session } = turn;
  if (session.plugins.hasRuntimeEventHooks) await session.parts.effects.flush?.(nameOf(turn), "paid");
  reportIssues(turn, await tell(session, event));
}

/** What went wrong without ending the turn: told to watchers, and part of the report. */
export function reportIssues(turn: TurnRun, issues: readonly TurnIssue[]): void {
  for (const issue of issues) {
    turn.log.issues.push(issue);
    turn.emit({ kind: "error", issue });
  }
}

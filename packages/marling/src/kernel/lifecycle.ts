import type { TurnIssue } from "../model/turn.ts";
import type { TurnRun } from "./turn-run.ts";

/** Failures of lifecycle handlers: told to watchers and part of the report, never the end of a turn. */
export function reportIssues(turn: TurnRun, issues: readonly TurnIssue[]): void {
  for (const issue of issues) {
    turn.log.issues.push(issue);
    turn.emit({ kind: "error", issue });
  }
}

import type { Json } from "../model/json.ts";
import type { TurnIssue } from "../model/turn.ts";
import type { ResidentSession } from "./resident-session.ts";

/** What failed beside a turn and ended nothing goes to the trace: there is no report to carry it. */
export async function traceIssues(
  session: ResidentSession,
  name: string,
  issues: readonly TurnIssue[],
): Promise<void> {
  for (const issue of issues) await session.services.emitTrace({ name, payload: issue as unknown as Json });
}

import { messageOf } from "../base/errors.ts";
import type { ResidentSession } from "./resident-session.ts";
import { traceIssues } from "./trace-issues.ts";

/** Goes on with what goes on beside turns. What cannot be is told to the trace; the session opens all the same. */
export async function goOn(session: ResidentSession, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (thrown) {
    const issue = { kind: "runtime", code: "work_not_taken_up", message: messageOf(thrown) } as const;
    await traceIssues(session, issue.code, [issue]);
  }
}

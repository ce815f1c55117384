import { MarlingError, messageOf } from "../base/errors.ts";
import type { StreamFinishReason } from "../plugin/hook-context.ts";
import { reportIssues } from "./lifecycle.ts";
import type { TurnRun } from "./turn-run.ts";

/**
 * Tells the hooks that a stream is over; nothing is waited for where there are none. Their failures are reported; the call's
 * result stands. Never rejects.
 */
export function finishStream(turn: TurnRun, reason: StreamFinishReason): Promise<void> | undefined {
  return turn.session.plugins.hasAssistantStreamFinishedHooks ? tellHooks(turn, reason) : undefined;
}

async function tellHooks(turn: TurnRun, reason: StreamFinishReason): Promise<void> {
  const { plugins, id } = turn.session;
  try {
    await plugins.finishAssistantStream(id, reason);
  } catch (thrown) {
    const pluginId = MarlingError.is(thrown) ? thrown.details.pluginId : undefined;
    reportIssues(turn, [
      {
        kind: "plugin",
        code: "stream_finished_hook_failed",
        message: messageOf(thrown),
        hook: "output.stream_finished",
        ...(typeof pluginId === "string" ? { pluginId } : {}),
      },
    ]);
  }
}

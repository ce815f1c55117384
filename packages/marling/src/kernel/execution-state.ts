// The code executor's own state, kept per frame by content address. It is asked for only when the executor says it
// moved, and never in the middle of a cell.

import { messageOf } from "../base/errors.ts";
import { type SessionGraph, updateFrames } from "../session/graph.ts";
import type { SessionComponents } from "../store/contract.ts";
import { putBlob } from "./attachments.ts";
import type { ResidentSession } from "./resident-session.ts";
import { callSlot } from "./slot-call.ts";

/** The graph with a reference to what the executor's state is now; a state of nothing clears the reference. */
export async function saveExecutionState(
  session: ResidentSession,
  graph: SessionGraph,
): Promise<{ readonly graph: SessionGraph; readonly components: SessionComponents }> {
  const { codeExecutor } = session.plugins;
  const unchanged = { graph, components: {} };
  if (session.runningCells > 0 || codeExecutor?.executionStateDirty?.() !== true) return unchanged;
  const bytes = await snapshotOf(session);
  if (bytes === "failed") return unchanged;
  const { store, retry } = session.parts;
  const ref = bytes === undefined ? undefined : await putBlob(store.blobs, bytes, retry);
  const next = updateFrames(graph, (frame) => {
    if (frame.id !== graph.currentFrameId || frame.executionState === ref) return frame;
    const { executionState: _, ...rest } = frame;
    return ref === undefined ? rest : { ...rest, executionState: ref };
  });
  return { graph: next, components: {} };
}

/** A snapshot that fails is reported and skipped: the stored state stays as it was. */
async function snapshotOf(session: ResidentSession): Promise<Uint8Array | undefined | "failed"> {
  const { codeExecutor } = session.plugins;
  try {
    return await codeExecutor?.snapshotExecutionState?.({ sessionId: session.id });
  } catch (thrown) {
    const payload = { message: messageOf(thrown) };
    await session.services.emitTrace({ name: "execution_state.snapshot_failed", payload });
    return "failed";
  }
}

/** Gives the executor back what was stored for the current frame, if anything was. */
export async function restoreExecutionState(session: ResidentSession): Promise<void> {
  const { codeExecutor } = session.plugins;
  const ref = session.frame.executionState;
  if (codeExecutor?.restoreExecutionState === undefined || ref === undefined) return;
  const data = await session.parts.store.blobs.get(ref);
  if (data === undefined) return;
  const site = { slot: "execution.code_executor", callback: "restoreExecutionState" } as const;
  await callSlot(session, site, () => codeExecutor.restoreExecutionState?.({ sessionId: session.id }, data));
}

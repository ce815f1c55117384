// Reload: a session that is open here takes over what another runtime committed, as if it were opened now.

import { decodePluginSnapshot } from "../plugin/snapshot.ts";
import type { StoredSession } from "../store/contract.ts";
import type { ToolState } from "../tool/contract.ts";
import { bindingsOf } from "./bindings.ts";
import { restoreExecutionState } from "./execution-state.ts";
import { tell } from "./lifecycle.ts";
import type { ResidentSession } from "./resident-session.ts";
import { restoreProtocol, savedMarks } from "./restore-session.ts";
import { decodeState } from "./session-state.ts";
import { storeFault } from "./store-fault.ts";
import { traceIssues } from "./trace-issues.ts";

/** A session that this runtime may not drive is shown as it is stored; no plugin is told. */
function show(session: ResidentSession, stored: StoredSession): void {
  const state = decodeState(stored, { isLive: !session.parts.store.isDurable });
  session.adopt({ ...state, saved: { ...state.saved, work: session.state.saved.work } });
  session.observation.moved();
  session.invalidateRuntimeCaches();
}

export async function reloadSession(session: ResidentSession): Promise<void> {
  const { store } = session.parts;
  const { plugins } = session;
  const stored = await store.load(session.id, { isPartial: true }).catch((thrown: unknown) => {
    throw storeFault(thrown, session.id);
  });
  // Nobody has committed anything, or this session has it by now.
  if (stored === undefined || stored.revision <= session.state.revision) return;
  const snapshot = stored.components.plugins && decodePluginSnapshot(stored.components.plugins);
  const toolState = stored.components.tools as unknown as ToolState | undefined;
  plugins.rollbackState();
  session.work.reloaded(stored.components);
  session.bindings = bindingsOf(session.parts, stored);
  if (session.isReader || session.bindings.missing.length > 0) return show(session, stored);
  if (snapshot !== undefined) plugins.restore(snapshot);
  if (toolState !== undefined) plugins.toolRegistry.restoreState(toolState);
  const state = decodeState(stored, { isLive: !store.isDurable });
  const { work } = session.state.saved; // Moves with the work of this runtime alone.
  session.adopt({ ...state, saved: { ...savedMarks(plugins, { snapshot, toolState }), work } });
  session.observation.moved();
  session.invalidateRuntimeCaches();
  session.refreshToolCatalog();
  await restoreProtocol(session);
  await restoreExecutionState(session);
  const restored = () =>
    ({ kind: "session_restored", sessionId: session.id, state: session.readView() }) as const;
  await traceIssues(session, "lifecycle_hook_failed", await tell(session, restored));
}

// What opening a session and taking over what others committed to it have in common.

import type { PluginSession } from "../plugin/plugin-session.ts";
import type { PluginSessionSnapshot } from "../plugin/snapshot.ts";
import type { ToolState } from "../tool/contract.ts";
import type { ResidentSession } from "./resident-session.ts";
import type { SavedMarks } from "./session-state.ts";
import { callSlot } from "./slot-call.ts";

/** Lets the protocol take over the state of the session: when it opens, and after a change of frames. */
export async function restoreProtocol(session: ResidentSession): Promise<void> {
  const { protocolSession } = session.plugins;
  if (protocolSession.restoreSession === undefined) return;
  const site = { slot: "protocol.session", callback: "restoreSession" } as const;
  const view = session.readView().toJSON();
  await callSlot(session, site, () => protocolSession.restoreSession?.({ sessionId: session.id }, view));
}

/** What need not be written again: components that are what the store has, now that plugins and tools have read them. */
export function savedMarks(
  plugins: PluginSession,
  stored: { readonly snapshot: PluginSessionSnapshot | undefined; readonly toolState: ToolState | undefined },
): SavedMarks {
  const { generation } = plugins.toolRegistry;
  return {
    plugins: plugins.snapshotIsCurrent(stored.snapshot) ? plugins.snapshotRevisionFingerprint() : undefined,
    tools: stored.toolState?.generation === generation ? generation : undefined,
    work: 0,
  };
}

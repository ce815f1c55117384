// Changing what a session runs with. Plugins may change the change; nothing is told when nothing changed.

import { type Json, jsonEqual } from "../model/json.ts";
import { type SessionPolicy, decodePolicy } from "../model/policy.ts";
import { withAssignment } from "../session/graph.ts";
import { commitChange, operationOf } from "./commit.ts";
import { modelOf } from "./model-binding.ts";
import type { ResidentSession } from "./resident-session.ts";

export async function configureSession(session: ResidentSession, patch: Partial<SessionPolicy>): Promise<void> {
  const previous = session.policy;
  const wanted = decodePolicy({ ...previous, ...patch }, "configure");
  modelOf(session, wanted.model);
  if (samePolicy(previous, wanted)) return;
  const host = session.host("configChanged");
  const { plugins, id } = session;
  const folded = await plugins.foldSessionConfig({ sessionId: id, previous, current: wanted, host }, wanted);
  const current = decodePolicy(folded.policy, "policy of a config mutator");
  modelOf(session, current.model);
  const { assignment } = session.frame;
  await commitChange(session, {
    operation: operationOf(session, "configure").operation,
    change: (graph) => ({ graph: withAssignment(graph, { ...assignment, policy: current }), nodes: [] }),
  });
  if (plugins.hasRuntimeEventHooks) {
    await plugins.emitRuntimeEvent({ kind: "session_config_changed", sessionId: id, previous, current, host }, session.parts.probe);
  }
}

function samePolicy(a: SessionPolicy, b: SessionPolicy): boolean {
  return jsonEqual(a as unknown as Json, b as unknown as Json);
}

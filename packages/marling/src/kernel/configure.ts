// Changing what a session runs with. Plugins may change the change; nothing is told when nothing changed.

import { MarlingError } from "../base/errors.ts";
import { isJsonObject, type Json, jsonEqual } from "../model/json.ts";
import { decodePolicy, type SessionPolicy } from "../model/policy.ts";
import { endingView } from "../plugin/host-services.ts";
import { currentFrame, withAssignment } from "../session/graph.ts";
import { refreshToDrive } from "./claim-session.ts";
import { commitChange, operationOf } from "./commit.ts";
import { tell } from "./lifecycle.ts";
import { modelOf } from "./model-binding.ts";
import type { ResidentSession } from "./resident-session.ts";
import { traceIssues } from "./trace-issues.ts";

/** As `configureSession`, of the session as it is now, after whatever is at work in it. */
export function reconfigureSession(session: ResidentSession, patch: Partial<SessionPolicy>): Promise<void> {
  return session.writer.run(async () => {
    await refreshToDrive(session);
    await configureSession(session, patch);
  });
}

/** Applies a patch; a member given as `undefined` goes back to what the runtime says. Refuses it as a whole. */
export async function configureSession(
  session: ResidentSession,
  patch: Partial<SessionPolicy>,
): Promise<void> {
  const { plugins, id } = session;
  const previous = session.policy;
  const wanted = patched(session, patch);
  if (isSame(previous, wanted)) return;
  const { host, end } = endingView(session.services, "configChanged");
  const asked = { sessionId: id, previous, current: wanted, host };
  const folded = await plugins.foldSessionConfig(asked, wanted).finally(end);
  const current = decodePolicy(folded.policy, "policy of a config mutator");
  if (current.model !== wanted.model) modelOf(session, current.model);
  await traceIssues(session, "config_mutator_failed", folded.issues);
  if (isSame(previous, current)) return;
  await commitChange(session, () => ({
    operation: operationOf(session, "configure").operation,
    rebases: true,
    change: (graph) => ({
      graph: withAssignment(graph, { ...currentFrame(graph).assignment, policy: current }),
      nodes: [],
    }),
  }));
  const event = { sessionId: id, previous, current, host: session.host("configChanged") };
  const changed = { kind: "session_config_changed", ...event } as const;
  await traceIssues(session, "lifecycle_hook_failed", await tell(session, () => changed));
}

function patched(session: ResidentSession, patch: Partial<SessionPolicy>): SessionPolicy {
  if (!isJsonObject(patch)) {
    const found = patch === null ? "null" : typeof patch;
    throw new MarlingError(
      "invalid_policy",
      `configure: expected an object with members of a policy, found ${found}`,
    );
  }
  const wanted: Partial<SessionPolicy> = { ...session.policy, ...patch };
  const { model = "default", maxTurns = session.parts.turnBudget } = wanted;
  const policy = decodePolicy({ ...wanted, model, maxTurns }, "configure");
  if (policy.model !== session.policy.model) modelOf(session, policy.model);
  return policy;
}

function isSame(a: SessionPolicy, b: SessionPolicy): boolean {
  return jsonEqual(a as unknown as Json, b as unknown as Json);
}

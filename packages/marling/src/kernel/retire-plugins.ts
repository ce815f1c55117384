// Retiring plugins: the first commit of a session records which plugins it runs without from now on (ruling 14).
//   RP1  the record and the plugin state without the plugin are one commit.
//   RP2  nothing is retired under a turn whose journal has begun, unless that turn was asked to end.
//   RP3  a turn begins behind the record: a journal never holds effects of two sets of plugins.

import type { PluginId } from "../model/ids.ts";
import { appendToGraph } from "../session/graph.ts";
import type { NodeDraft } from "../session/node.ts";
import { requireForTurns } from "./bindings.ts";
import type { Change } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";

/** Whether a commit is the one that records a retirement. What is committed beside a turn leaves plugin state alone. */
export function hasRetirement({ bindings }: ResidentSession, { isBesideTurns }: Change): boolean {
  return bindings.retiring.length > 0 && isBesideTurns !== true;
}

/** The change with a node for each plugin that the session names and that is retired here. */
export async function withRetirement(session: ResidentSession, change: Change): Promise<Change> {
  await requireForTurns(session);
  const { parts, bindings, id } = session;
  const at = parts.clock.now();
  const drafts = bindings.retiring.map((pluginId): NodeDraft => {
    const reason = parts.retired.get(pluginId) ?? "";
    return { kind: "plugin_retired", pluginId: pluginId as PluginId, reason, at };
  });
  return {
    ...change,
    change: (graph) => {
      // Named by its place: the same node whichever commit records it.
      const operation = { sessionId: id, operation: `retired:${graph.path.length}`, ordinal: 0 };
      const { graph: recorded, nodes } = appendToGraph(graph, drafts, operation);
      const changed = change.change(recorded);
      return { graph: changed.graph, nodes: [...nodes, ...changed.nodes] };
    },
  };
}

/** The newest commit names no retired plugin any more. */
export function retired(session: ResidentSession): void {
  if (session.bindings.retiring.length > 0) session.bindings = { ...session.bindings, retiring: [] };
}

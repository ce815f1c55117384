// Appends beside a turn. They land at once; a turn that is running commits on top of them.

import type { AppendNodesRequest, AppendNodesResult } from "../plugin/host-services.ts";
import { bodiesOf, decodeAppendNodes } from "../session/append-node.ts";
import { appendToGraph, checkAncestor } from "../session/graph.ts";
import { commitChange, operationOf } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";

/** Appends nodes to the current frame, or says that the branch is stale and writes nothing. */
export async function appendNodes(session: ResidentSession, request: AppendNodesRequest): Promise<AppendNodesResult> {
  const nodes = decodeAppendNodes(request.nodes, "nodes");
  const check = checkAncestor(session.state.graph, request.requiresAncestor);
  if (check.kind === "stale_branch") return { status: "stale_branch", ...(check.leaf === undefined ? {} : { leaf: check.leaf }) };
  if (nodes.length === 0) return { status: "appended", nodeIds: [], leaf: session.state.graph.leaf ?? "" };
  await session.plugins.protocolSession.appendSessionNodes?.({ sessionId: session.id }, nodes);
  const operation = operationOf(session, "append");
  const committed = await commitChange(session, {
    operation: operation.operation,
    change: (graph) => appendToGraph(graph, bodiesOf(nodes, { operation }), operation),
  });
  const nodeIds = committed.nodes.map((node) => node.id);
  return { status: "appended", nodeIds, leaf: nodeIds.at(-1) ?? "" };
}

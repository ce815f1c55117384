// Appends beside a turn. They land at once; a turn that is running commits on top of them.

import type { AppendNodesRequest, AppendNodesResult } from "../plugin/host-services.ts";
import { bodiesOf, decodeAppendNodes } from "../session/append-node.ts";
import { appendToGraph, checkAncestor } from "../session/graph.ts";
import type { AppendNode } from "../session/node.ts";
import { keepMessageAttachments } from "./attachments.ts";
import { requireBindings } from "./bindings.ts";
import { refreshIdle } from "./claim-session.ts";
import { commitBeside, operationOf } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";
import { callSlot } from "./slot-call.ts";

/**
 * Appends nodes to the current frame, or says that the branch is stale and writes nothing. A history only grows, so
 * an ancestor that is on the path when the call is made is still there when the nodes are committed.
 */
export async function appendNodes(
  session: ResidentSession,
  request: AppendNodesRequest,
): Promise<AppendNodesResult> {
  const nodes = decodeAppendNodes(request.nodes, "nodes");
  await refreshIdle(session);
  requireBindings(session);
  const { graph: before } = session.state;
  const check = checkAncestor(before, request.requiresAncestor);
  if (check.kind === "stale_branch") return { status: "stale_branch", leaf: before.leaf };
  const stored = await Promise.all(nodes.filter(isStored).map((node) => withStoredBytes(session, node)));
  if (stored.length === 0) return { status: "appended", nodeIds: [], leaf: before.leaf };
  await tellProtocol(session, stored);
  const committed = await commitBeside(session, () => {
    const operation = operationOf(session, "append");
    return {
      operation: operation.operation,
      rebases: true,
      change: (graph) => appendToGraph(graph, bodiesOf(stored, { operation, graph }), operation),
    };
  });
  const nodeIds = committed.nodes.map((node) => node.id);
  return { status: "appended", nodeIds, leaf: nodeIds.at(-1) ?? before.leaf };
}

function isStored(node: AppendNode): boolean {
  return node.kind !== "message" || node.message.transient !== true;
}

async function withStoredBytes(session: ResidentSession, node: AppendNode): Promise<AppendNode> {
  if (node.kind !== "message") return node;
  return { ...node, message: await keepMessageAttachments(session.parts, node.message, "host") };
}

async function tellProtocol(session: ResidentSession, nodes: readonly AppendNode[]): Promise<void> {
  const { protocolSession } = session.plugins;
  const site = { slot: "protocol.session", callback: "appendSessionNodes" } as const;
  await callSlot(session, site, () => protocolSession.appendSessionNodes?.({ sessionId: session.id }, nodes));
}

// A graph out of a store.

import { MarlingError } from "../base/errors.ts";
import { type EarlierItems, SharedList } from "../base/shared-list.ts";
import type { FrameId, NodeId, SessionId } from "../model/ids.ts";
import type { Frame } from "./frame.ts";
import { checked, corrupt, messagesOf, missingFrame, nodeKey, type SessionGraph } from "./graph.ts";
import type { SessionNode } from "./node.ts";

export interface GraphParts {
  readonly sessionId: SessionId;
  /** The active path, oldest first. */
  readonly nodes: readonly SessionNode[];
  /** What is before those, for when somebody reads it. The current frame was opened behind it. */
  readonly earlier?: EarlierItems<SessionNode> | undefined;
  readonly frames: readonly Frame[];
  readonly currentFrameId: FrameId;
}

/**
 * A graph from what was stored of it. Anything that does not fit together is corruption, and nothing is healed. Nodes that
 * are there only when somebody reads them are checked then.
 */
export function loadGraph(parts: GraphParts): SessionGraph {
  const { sessionId, nodes, frames, currentFrameId, earlier } = parts;
  const known = new Set(frames.map((frame) => frame.id));
  const check = (list: readonly SessionNode[], before: NodesBefore): void => {
    let { length: generation, last: parent } = before;
    for (const node of list) {
      if (before.isTwice(node.id, generation))
        throw corrupt(sessionId, `each node once, found ${node.id} twice`);
      checkNode(node, { sessionId, known, generation, parent });
      generation += 1;
      parent = node.id;
    }
  };
  if (!known.has(currentFrameId)) throw missingFrame(sessionId, currentFrameId);
  const [first] = nodes;
  if (first === undefined) throw corrupt(sessionId, "at least the node that opened it, found none");
  const load = (): readonly SessionNode[] => {
    const loaded = earlier?.load() ?? [];
    const own = SharedList.of(loaded, nodeKey);
    check(loaded, {
      length: 0,
      last: undefined,
      isTwice: (id, generation) =>
        own.positionOf(id) !== generation || path.loadedPositionOf(id) !== undefined,
    });
    if (loaded.length === earlier?.length && loaded.at(-1)?.id === first.parentId) return loaded;
    throw corrupt(sessionId, `${earlier?.length} nodes before ${first.id}, the last of them its parent`);
  };
  const path =
    earlier === undefined
      ? SharedList.of(nodes, nodeKey)
      : SharedList.behind({ length: earlier.length, load }, nodes, nodeKey);
  check(nodes, {
    length: earlier?.length ?? 0,
    last: earlier === undefined ? undefined : first.parentId,
    isTwice: (id, generation) => path.loadedPositionOf(id) !== generation,
  });
  const start = nodes.findLastIndex((node) => node.frameId !== currentFrameId) + 1;
  const messages = messagesOf(nodes.slice(start));
  const leaf = (nodes.at(-1) as SessionNode).id;
  return checked({ sessionId, path, messages, frames, currentFrameId, leaf });
}

interface NodesBefore {
  readonly length: number;
  readonly last: NodeId | undefined;
  /** Whether a node of this generation has an id that another has, which is before it or was loaded before it. */
  isTwice(id: NodeId, generation: number): boolean;
}

interface PathPlace {
  readonly sessionId: SessionId;
  readonly known: ReadonlySet<FrameId>;
  readonly generation: number;
  readonly parent: NodeId | undefined;
}

function checkNode(node: SessionNode, place: PathPlace): void {
  const { sessionId, known, generation, parent } = place;
  if (node.parentId !== parent) {
    const message = `session ${sessionId}: node ${node.id}: expected its parent ${node.parentId ?? "(none)"} before it, found ${parent ?? "nothing"}`;
    throw new MarlingError("missing_parent_node", message, { details: { sessionId, nodeId: node.id } });
  }
  if (node.generation !== generation) {
    throw corrupt(sessionId, `generation ${generation} at node ${node.id}, found ${node.generation}`);
  }
  if (!known.has(node.frameId)) throw missingFrame(sessionId, node.frameId);
}

// Stored nodes back as values. What a store returns is checked like anything else that comes from outside.

import { MarlingError } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import { frameId, nodeId, pluginId } from "../model/ids.ts";
import { decodeJson } from "../model/json.ts";
import { decodeMessage } from "../model/message.ts";
import type { NodeBody, SessionNode } from "./node.ts";

type Members = Readonly<Record<string, unknown>>;

const KINDS = [
  "message",
  "protocol_event",
  "plugin",
  "frame_open",
] as const satisfies readonly NodeBody["kind"][];

/** Reads a stored node; whether it fits its neighbours is found out by `loadGraph`. */
export function decodeSessionNode(raw: unknown, where = "node"): SessionNode {
  if (typeof raw !== "object" || raw === null) throw refuse(where, "an object with a `kind`", raw);
  const node: Members = { ...raw };
  const { generation, parentId, causedBy } = node;
  if (!Number.isSafeInteger(generation)) throw refuse(`${where}.generation`, "a whole number", generation);
  return Object.freeze({
    ...decodeBody(node, where),
    id: nodeId(node.id),
    ...(parentId === undefined ? {} : { parentId: nodeId(parentId) }),
    generation: generation as number,
    frameId: frameId(node.frameId),
    ...(causedBy === undefined ? {} : { causedBy: decodeJson(causedBy, `${where}.causedBy`) }),
  });
}

function decodeBody(node: Members, where: string): NodeBody {
  const kind = KINDS.find((known) => known === node.kind);
  switch (kind) {
    case "message":
      return { kind, message: decodeMessage(node.message, `${where}.message`) };
    case "protocol_event":
      return {
        kind,
        pluginId: pluginId(node.pluginId),
        payload: decodeJson(node.payload, `${where}.payload`),
      };
    case "plugin":
      return {
        kind,
        type: decodeText(node.type, `${where}.type`),
        body: decodeJson(node.body, `${where}.body`),
      };
    case "frame_open":
      return { kind, frameId: frameId(node.frameId), reason: decodeText(node.reason, `${where}.reason`) };
    case undefined:
      throw refuse(`${where}.kind`, `one of ${KINDS.join(", ")}`, node.kind);
    default:
      return unreachable(kind);
  }
}

function decodeText(raw: unknown, where: string): string {
  if (typeof raw !== "string") throw refuse(where, "a string", raw);
  return raw;
}

function refuse(where: string, expected: string, found: unknown): MarlingError {
  const shown = typeof found === "string" ? JSON.stringify(found) : found === null ? "null" : typeof found;
  return new MarlingError("invalid_node", `${where}: expected ${expected}, found ${shown}`, {
    details: { where },
  });
}

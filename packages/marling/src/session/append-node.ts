// Nodes as hosts and plugins write them: checked once, here, with the path of the culprit in the error.

import { MarlingError } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import { appendedMessageId, type PluginId, pluginId } from "../model/ids.ts";
import { decodeJson } from "../model/json.ts";
import { decodeMessageInput, type Message, type Origin, toMessage } from "../model/message.ts";
import { hasMessage, type SessionGraph } from "./graph.ts";
import type { AppendNode, AppendOperation, NodeDraft } from "./node.ts";

/** The owner of protocol events that a host appends and no plugin. */
const HOST: PluginId = pluginId("host");

const KINDS = ["message", "plugin", "protocol_event"] as const satisfies readonly AppendNode["kind"][];

/** Reads nodes to be appended; all of them are valid, or the first that is not is thrown by its place in the list. */
export function decodeAppendNodes(raw: readonly unknown[], where = "nodes"): readonly AppendNode[] {
  if (!Array.isArray(raw)) throw refuse(where, "an array", raw);
  return Object.freeze(
    Array.from(raw, (node: unknown, index) => decodeAppendNode(node, `${where}[${index}]`)),
  );
}

/** Who appends, and where. */
export interface AppendedBy {
  readonly operation: AppendOperation;
  /** The session that is appended to. */
  readonly graph: SessionGraph;
  readonly pluginId?: PluginId | undefined;
  /** Whether the nodes begin a new frame, which shows nothing yet. */
  readonly opensFrame?: boolean;
}

/**
 * Turns nodes as written into drafts. Messages without an id get one that is the same in every run; messages of a
 * plugin say so. Transient messages are left out: they are never stored.
 * Contract: `by.operation.ordinal` counts what the operation has appended, so that no id is given twice.
 */
export function bodiesOf(nodes: readonly AppendNode[], by: AppendedBy): readonly NodeDraft[] {
  return nodes
    .filter((node) => node.kind !== "message" || node.message.transient !== true)
    .map((node, index) => bodyOf(node, by.operation.ordinal + index, by));
}

/** G17: whether another frame of the session has a message of this id. What the current one shows is left out by the append. */
function isTaken({ id }: Message, { graph, opensFrame = false }: AppendedBy): boolean {
  return hasMessage(graph, id) && (opensFrame || graph.messages.positionOf(id) === undefined);
}

function bodyOf(node: AppendNode, ordinal: number, by: AppendedBy): NodeDraft {
  const cause = node.causedBy === undefined ? {} : { causedBy: decodeJson(node.causedBy, "causedBy") };
  switch (node.kind) {
    case "message": {
      const { sessionId, operation } = by.operation;
      const derivedId = appendedMessageId(sessionId, operation, ordinal);
      const origin: Origin | undefined = by.pluginId && {
        kind: "plugin",
        pluginId: by.pluginId,
        transient: false,
      };
      const message = toMessage(node.message, derivedId, origin);
      const isOther = message.id !== derivedId && isTaken(message, by);
      return { kind: "message", message: isOther ? { ...message, id: derivedId } : message, ...cause };
    }
    case "plugin":
      return { kind: "plugin", type: node.type, body: decodeJson(node.body, "body"), ...cause };
    case "protocol_event":
      return {
        kind: "protocol_event",
        pluginId: by.pluginId ?? HOST,
        payload: decodeJson(node.payload, "payload"),
        ...cause,
      };
    default:
      return unreachable(node);
  }
}

function decodeAppendNode(raw: unknown, where: string): AppendNode {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw))
    throw refuse(where, "an object with a `kind`", raw);
  const members: Readonly<Record<string, unknown>> = { ...raw };
  const kind = KINDS.find((known) => known === members.kind);
  if (kind === undefined) throw refuse(`${where}.kind`, `one of ${KINDS.join(", ")}`, members.kind);
  const { causedBy } = members;
  const cause = causedBy === undefined ? {} : { causedBy: decodeJson(causedBy, `${where}.causedBy`) };
  return Object.freeze({ ...decodeBody(kind, members, where), ...cause });
}

function decodeBody(
  kind: AppendNode["kind"],
  node: Readonly<Record<string, unknown>>,
  where: string,
): AppendNode {
  switch (kind) {
    case "message":
      return { kind, message: decodeMessageInput(node.message, `${where}.message`) };
    case "plugin":
      return {
        kind,
        type: decodeType(node.type, `${where}.type`),
        body: decodeJson(node.body, `${where}.body`),
      };
    case "protocol_event":
      return { kind, payload: decodeJson(node.payload, `${where}.payload`) };
    default:
      return unreachable(kind);
  }
}

function decodeType(raw: unknown, where: string): string {
  if (typeof raw !== "string" || raw.trim() === "") throw refuse(where, "a name that is not blank", raw);
  return raw;
}

function refuse(where: string, expected: string, found: unknown): MarlingError {
  const shown = typeof found === "string" ? JSON.stringify(found) : found === null ? "null" : typeof found;
  return new MarlingError("invalid_node", `${where}: expected ${expected}, found ${shown}`, {
    details: { where },
  });
}

// Stored nodes back as values. What a store returns is checked like anything else that comes from outside.

import { MarlingError } from "../base/errors.ts";
import { unreachable } from "../base/unreachable.ts";
import { frameId, nodeId, pluginId } from "../model/ids.ts";
import { adoptJson, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import { adoptMessage } from "../model/message.ts";
import type { NodeBody, SessionNode } from "./node.ts";

const KINDS = [
  "message",
  "protocol_event",
  "plugin",
  "frame_open",
  "authority_change",
  "plugin_retired",
] as const satisfies readonly NodeBody["kind"][];

/** Reads a stored node, which is frozen with all it has; whether it fits its neighbours is found out by `loadGraph`. */
export function decodeSessionNode(raw: unknown, where = "node"): SessionNode {
  if (typeof raw !== "object" || raw === null) throw refuse(where, "an object with a `kind`", raw);
  const json = adoptJson(raw, where) as JsonObject; // made of an object
  if (!Number.isSafeInteger(json.generation))
    throw refuse(`${where}.generation`, "a whole number", json.generation);
  const node = decodeBody(json, where);
  nodeId(json.id);
  if (json.parentId !== undefined) nodeId(json.parentId);
  frameId(json.frameId);
  return node as unknown as SessionNode; // its members were checked
}

/** A node whose members that its kind has were checked. */
function decodeBody(node: JsonObject, where: string): JsonObject {
  const kind = KINDS.find((known) => known === node.kind);
  switch (kind) {
    case "message": {
      const message = adoptMessage(node.message, `${where}.message`) as unknown as JsonObject;
      return message === node.message ? node : Object.freeze({ ...node, message });
    }
    case "protocol_event":
      pluginId(node.pluginId);
      checkValue(node.payload, `${where}.payload`);
      return node;
    case "plugin":
      checkText(node.type, `${where}.type`);
      checkValue(node.body, `${where}.body`);
      return node;
    case "frame_open":
      checkText(node.reason, `${where}.reason`);
      return node;
    case "authority_change":
      checkRecord(node, where);
      return node;
    case "plugin_retired":
      pluginId(node.pluginId);
      checkText(node.reason, `${where}.reason`);
      if (typeof node.at !== "number") throw refuse(`${where}.at`, "a number", node.at);
      return node;
    case undefined:
      throw refuse(`${where}.kind`, `one of ${KINDS.join(", ")}`, node.kind);
    default:
      return unreachable(kind);
  }
}

function checkRecord({ reason, actor, at, before, after }: JsonObject, where: string): void {
  checkText(reason, `${where}.reason`);
  if (actor !== undefined) checkText(actor, `${where}.actor`);
  if (typeof at !== "number") throw refuse(`${where}.at`, "a number", at);
  checkLimits(before, `${where}.before`);
  checkLimits(after, `${where}.after`);
}

function checkLimits(raw: Json | undefined, where: string): void {
  if (!isJsonObject(raw)) throw refuse(where, "an object", raw);
  for (const name of ["tools", "hiddenTools", "paths"]) {
    const names = raw[name] ?? [];
    if (!Array.isArray(names)) throw refuse(`${where}.${name}`, "an array of strings", names);
    for (const [index, one] of names.entries()) checkText(one, `${where}.${name}[${index}]`);
  }
  const { budget } = raw;
  if (budget !== undefined && !(isJsonObject(budget) && typeof budget.tokens === "number"))
    throw refuse(`${where}.budget`, "an object with a number of `tokens`", budget);
}

function checkValue(raw: Json | undefined, where: string): void {
  if (raw === undefined) throw refuse(where, "a JSON value", raw);
}

function checkText(raw: Json | undefined, where: string): void {
  if (typeof raw !== "string") throw refuse(where, "a string", raw);
}

function refuse(where: string, expected: string, found: unknown): MarlingError {
  const shown = typeof found === "string" ? JSON.stringify(found) : found === null ? "null" : typeof found;
  return new MarlingError("invalid_node", `${where}: expected ${expected}, found ${shown}`, {
    details: { where },
  });
}

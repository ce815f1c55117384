// Stored frames back as values.

import { MarlingError } from "../base/errors.ts";
import { frameId, nodeId } from "../model/ids.ts";
import { decodeJson, decodeJsonObject, isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import { decodePolicy } from "../model/policy.ts";
import type {
  Frame,
  FrameAssignment,
  ProtocolTurnOptions,
  SessionAuthority,
  SessionBudget,
  SubagentContext,
  ToolAccess,
} from "./frame.ts";

/** Reads a stored frame. */
export function decodeFrame(raw: unknown, where = "frame"): Frame {
  const json = decodeObject(decodeJson(raw, where), where);
  const { previousFrameId, status, openedBy, executionState } = json;
  if (status !== "active" && status !== "superseded")
    throw refuse(`${where}.status`, "active or superseded", status);
  return Object.freeze({
    id: frameId(json.id),
    ...(previousFrameId === undefined ? {} : { previousFrameId: frameId(previousFrameId) }),
    status,
    reason: decodeText(json.reason, `${where}.reason`),
    ...(openedBy === undefined ? {} : { openedBy: nodeId(openedBy) }),
    assignment: decodeFrameAssignment(json.assignment, `${where}.assignment`),
    protocolOptions: decodeProtocolOptions(json.protocolOptions, `${where}.protocolOptions`),
    ...(executionState === undefined
      ? {}
      : { executionState: decodeText(executionState, `${where}.executionState`) }),
  });
}

export function decodeFrameAssignment(raw: unknown, where = "assignment"): FrameAssignment {
  const { policy, authority, usageSource, cause } = decodeJsonObject(raw, where);
  return Object.freeze({
    policy: decodePolicy(policy, `${where}.policy`),
    authority: decodeAuthority(authority, `${where}.authority`),
    ...(usageSource === undefined ? {} : { usageSource: decodeText(usageSource, `${where}.usageSource`) }),
    ...(cause === undefined ? {} : { cause: decodeText(cause, `${where}.cause`) }),
  });
}

export function decodeProtocolOptions(raw: unknown, where = "protocol options"): ProtocolTurnOptions {
  const { schemaVersion, payload } = decodeJsonObject(raw, where);
  if (payload === undefined) throw refuse(`${where}.payload`, "a JSON value", payload);
  return Object.freeze({ schemaVersion: decodeCount(schemaVersion, `${where}.schemaVersion`), payload });
}

function decodeAuthority(raw: Json | undefined, where: string): SessionAuthority {
  const { toolAccess, subagent, pluginOptions, budget, paths } = decodeObject(raw, where);
  return Object.freeze({
    toolAccess: decodeToolAccess(toolAccess, `${where}.toolAccess`),
    ...(subagent === undefined ? {} : { subagent: decodeSubagent(subagent, `${where}.subagent`) }),
    pluginOptions: decodeObject(pluginOptions, `${where}.pluginOptions`),
    ...(budget === undefined ? {} : { budget: decodeBudget(budget, `${where}.budget`) }),
    ...(paths === undefined ? {} : { paths: decodeNames(paths, `${where}.paths`) }),
  });
}

function decodeToolAccess(raw: Json | undefined, where: string): ToolAccess {
  const { tools, hiddenTools } = decodeObject(raw, where);
  return Object.freeze({
    tools: decodeNames(tools, `${where}.tools`),
    hiddenTools: decodeNames(hiddenTools, `${where}.hiddenTools`),
  });
}

function decodeSubagent(raw: Json, where: string): SubagentContext {
  const { parentSessionId, capability, depth, maxDepth } = decodeObject(raw, where);
  return Object.freeze({
    parentSessionId: decodeText(parentSessionId, `${where}.parentSessionId`),
    capability: decodeText(capability, `${where}.capability`),
    depth: decodeCount(depth, `${where}.depth`),
    maxDepth: decodeCount(maxDepth, `${where}.maxDepth`),
  });
}

function decodeBudget(raw: Json, where: string): SessionBudget {
  return Object.freeze({ tokens: decodeCount(decodeObject(raw, where).tokens, `${where}.tokens`) });
}

function decodeObject(raw: Json | undefined, where: string): JsonObject {
  if (!isJsonObject(raw)) throw refuse(where, "an object", raw);
  return raw;
}

function decodeNames(raw: Json | undefined, where: string): readonly string[] {
  if (!Array.isArray(raw)) throw refuse(where, "an array of names", raw);
  return Object.freeze(raw.map((name: Json, index) => decodeText(name, `${where}[${index}]`)));
}

function decodeText(raw: Json | undefined, where: string): string {
  if (typeof raw !== "string") throw refuse(where, "a string", raw);
  return raw;
}

function decodeCount(raw: Json | undefined, where: string): number {
  if (typeof raw !== "number" || !Number.isSafeInteger(raw) || raw < 0)
    throw refuse(where, "a whole number from 0", raw);
  return raw;
}

function refuse(where: string, expected: string, found: Json | undefined): MarlingError {
  const message = `${where}: expected ${expected}, found ${found === undefined ? "nothing" : JSON.stringify(found)}`;
  return new MarlingError("corrupt_graph", message, { details: { where } });
}

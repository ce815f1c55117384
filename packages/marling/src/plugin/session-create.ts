// How hooks, tools and operations ask for a session of their own.

import { MarlingError } from "../base/errors.ts";
import { decodeJson, decodeJsonObject, type JsonObject } from "../model/json.ts";
import { decodeMessageInput, type MessageInput } from "../model/message.ts";
import type { SessionPolicy } from "../model/policy.ts";
import { decodeAppendNodes } from "../session/append-node.ts";
import type { SessionBudget, SubagentContext, ToolAccess } from "../session/frame.ts";
import type { AppendNode } from "../session/node.ts";

export interface SessionCreateRequest {
  /** Blank or absent: an id is derived. */
  readonly sessionId?: string;
  readonly relation?:
    | { readonly kind: "root" }
    | { readonly kind: "child"; readonly parent: string; readonly causedBy?: string };
  /** What the new session begins with; by default nothing. */
  readonly start?:
    | { readonly kind: "empty" }
    | { readonly kind: "current_session" }
    | { readonly kind: "existing_session"; readonly id: string };
  readonly policy?: Partial<SessionPolicy>;
  /** `fresh` builds plugins anew; `fork` (the default) takes over their state. */
  readonly plugins?: "fresh" | "fork";
  readonly initialNodes?: readonly AppendNode[];
  readonly toolAccess?: Partial<ToolAccess>;
  readonly subagent?: SubagentContext;
  readonly pluginOptions?: JsonObject;
  /** What it and the sessions below it may use; never more than its parent may. */
  readonly budget?: SessionBudget;
  /** Files and folders that tools may reach for it and for those below it; never more than for its parent. */
  readonly paths?: readonly string[];
  readonly usageSource?: string;
  /** Kept for the session's first turn; popped once. */
  readonly firstTurnInput?: MessageInput;
}

export interface SessionCreated {
  readonly sessionId: string;
}

type Raw = { readonly [member: string]: unknown };
type Member = keyof SessionCreateRequest;

/** Each member's check: the value as it is kept. Absent members stay absent. */
const MEMBERS: {
  readonly [M in Member]-?: (value: unknown, where: string) => NonNullable<SessionCreateRequest[M]>;
} = {
  sessionId: text,
  relation: (value, where) => {
    const kind = kindOf(value, ["root", "child"], where);
    if (kind === "root") return { kind };
    const { parent, causedBy } = value as Raw;
    const cause = causedBy === undefined ? {} : { causedBy: text(causedBy, `${where}.causedBy`) };
    return { kind: "child", parent: text(parent, `${where}.parent`), ...cause };
  },
  start: (value, where) => {
    const kind = kindOf(value, ["empty", "current_session", "existing_session"], where);
    if (kind === "existing_session") return { kind, id: text((value as Raw).id, `${where}.id`) };
    return { kind };
  },
  policy: (value, where) => decodeJsonObject(value, where) as Partial<SessionPolicy>,
  plugins: (value, where) => {
    if (value !== "fresh" && value !== "fork")
      throw refuse(where, `"fresh" or "fork", found ${JSON.stringify(value)}`);
    return value;
  },
  initialNodes: (value, where) => decodeAppendNodes(value as readonly unknown[], where),
  toolAccess: (value, where) => {
    const { tools, hiddenTools } = decodeJsonObject(value, where);
    return {
      ...(tools === undefined ? {} : { tools: texts(tools, `${where}.tools`) }),
      ...(hiddenTools === undefined ? {} : { hiddenTools: texts(hiddenTools, `${where}.hiddenTools`) }),
    };
  },
  subagent: (value, where) => {
    const { parentSessionId, capability, depth, maxDepth } = decodeJsonObject(value, where);
    if (typeof depth !== "number" || typeof maxDepth !== "number")
      throw refuse(where, "numbers as `depth` and `maxDepth`");
    return {
      parentSessionId: text(parentSessionId, `${where}.parentSessionId`),
      capability: text(capability, `${where}.capability`),
      depth,
      maxDepth,
    };
  },
  pluginOptions: decodeJsonObject,
  paths: texts,
  budget: (value, where) => {
    const { tokens } = decodeJsonObject(value, where);
    if (typeof tokens !== "number" || !Number.isSafeInteger(tokens) || tokens < 0)
      throw refuse(`${where}.tokens`, "a whole number from 0");
    return { tokens };
  },
  usageSource: text,
  firstTurnInput: decodeMessageInput,
};

/** Reads a request as a plugin wrote it: plain data, frozen; unknown members are refused by name. */
export function decodeSessionCreateRequest(raw: unknown, where = "request"): SessionCreateRequest {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) throw refuse(where, "an object");
  const request: { [M in Member]?: unknown } = {};
  for (const [name, value] of Object.entries(raw)) {
    if (value === undefined) continue;
    if (!Object.hasOwn(MEMBERS, name))
      throw refuse(`${where}.${name}`, `one of ${Object.keys(MEMBERS).join(", ")}`);
    request[name as Member] = MEMBERS[name as Member](value, `${where}.${name}`);
  }
  return decodeJson(request, where) as SessionCreateRequest;
}

function kindOf<K extends string>(value: unknown, kinds: readonly K[], where: string): K {
  const kind = typeof value === "object" && value !== null ? (value as Raw).kind : undefined;
  const known = kinds.find((candidate) => candidate === kind);
  if (known === undefined)
    throw refuse(`${where}.kind`, `one of ${kinds.join(", ")}, found ${JSON.stringify(kind)}`);
  return known;
}

function text(value: unknown, where: string): string {
  if (typeof value !== "string") throw refuse(where, `a string, found ${typeof value}`);
  return value;
}

function texts(value: unknown, where: string): readonly string[] {
  if (!Array.isArray(value)) throw refuse(where, "an array of strings");
  return value.map((item: unknown, index) => text(item, `${where}[${index}]`));
}

function refuse(where: string, expected: string): MarlingError {
  return new MarlingError("invalid_directive", `${where}: expected ${expected}`, { details: { where } });
}

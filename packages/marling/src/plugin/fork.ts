// Forks, and what a session made from another may do. A child gets at most what its parent has; asking for more is
// not an error, it is not granted.
//   AU0  a fork takes a snapshot first, so that a failing snapshot leaves nothing behind; it keeps the authority and the
//        plugin options that its source had where it starts, and only the link to a parent is dropped.
//   AU1  hidden tools only add up; an explicit list of tools is met with the parent's.
//   AU2  a child is one deeper than its parent, and its depth limit is no higher.
//   AU4  a child's budget is no larger than its parent's, or what is left of it.
//   AU5  a child reaches paths that its parent reaches, and of those what it asks for.
//   AU3  plugin options are no authority: a child's own stand in the place of the parent's, plugin by plugin.
//   AU6  the host may restrict a session that begins; below a parent that is cut to the parent's. A session that is there
//        keeps what it has. A list of no tools is no tool.
//   AU7  from then on only the host changes it, either way, and gives a reason: one commit has the change and its record.
//        What changes nothing writes nothing.
//   AU8  the record is a node of the history: who, why, when, before and after. No model sees it, nobody else writes one.
//   AU9  whoever was made before keeps what it got; whoever is made from then on is cut to what holds then.

import { decodeJsonObject } from "../model/json.ts";
import {
  type AuthorityChange,
  type AuthorityLimits,
  FULL_AUTHORITY,
  type SessionAuthority,
  type SessionBudget,
  type SubagentContext,
  type ToolAccess,
} from "../session/frame.ts";
import { isReachable, plainPath } from "../tool/path-access.ts";
import type { ToolRegistry } from "../tool/registry.ts";
import type { ToolCatalogContribution } from "./hook-context.ts";
import type { BuildSessionOptions } from "./plugin-host.ts";
import type { PluginSession } from "./plugin-session.ts";
import type { PluginSessionSnapshot } from "./snapshot.ts";

/** What a fork is made from. */
export interface ForkSource {
  readonly host: { buildSession(sessionId: string, options: BuildSessionOptions): PluginSession };
  readonly toolRegistry: ToolRegistry;
  snapshot(): PluginSessionSnapshot;
}

export interface ForkOptions {
  readonly parent?: string | undefined;
  readonly authority: SessionAuthority;
  readonly overlay: ToolCatalogContribution;
}

/** Builds a session with the state and the tools of another. */
export function forkSession(source: ForkSource, sessionId: string, options: ForkOptions): PluginSession {
  const snapshot = source.snapshot();
  const toolState = source.toolRegistry.exportState();
  return source.host.buildSession(sessionId, { ...options, snapshot, toolState, isFork: true });
}

/** An authority as it is asked for: what is left out is not asked for. */
export interface AuthorityRequest {
  readonly toolAccess?: Partial<ToolAccess> | undefined;
  readonly subagent?: SubagentContext | undefined;
  readonly pluginOptions?: { readonly [pluginId: string]: unknown } | undefined;
  readonly budget?: SessionBudget | undefined;
  readonly paths?: readonly string[] | undefined;
}

/** The authority that a host gives: what is left out is not restricted. */
export function completeAuthority(request: AuthorityRequest | undefined): SessionAuthority {
  const { toolAccess, subagent, pluginOptions, budget, paths } = request ?? {};
  return freeze({
    ...(budget === undefined ? {} : { budget }),
    ...(paths === undefined ? {} : { paths: paths.map(plainPath) }),
    toolAccess: { ...FULL_AUTHORITY.toolAccess, ...withoutUndefined(toolAccess ?? {}) },
    ...(subagent === undefined ? {} : { subagent }),
    pluginOptions: decodeJsonObject(pluginOptions ?? {}, "plugin options"),
  });
}

/** A name that no tool has: listed and hidden, it makes a list of no tools out of one that would be empty and mean all. */
const NO_TOOL = "";

/** What is to be asked for, for a session to have these limits. */
export function requestOf(limits: AuthorityChange): AuthorityRequest {
  const { paths, budget } = limits;
  return { toolAccess: toolAccessOf(limits), paths, budget };
}

/** The access to these tools; a list of none is no tool, where stored lists mean all when they are empty. */
export function toolAccessOf({
  tools,
  hiddenTools = [],
}: Pick<AuthorityChange, "tools" | "hiddenTools">): ToolAccess {
  if (tools?.length === 0) return { tools: [NO_TOOL], hiddenTools: [...hiddenTools, NO_TOOL] };
  return { tools: tools ?? [], hiddenTools };
}

/** How an authority is restricted, as a host says it. */
export function limitsOf({ toolAccess, paths, budget }: SessionAuthority): AuthorityLimits {
  const tools = Object.freeze(toolAccess.tools.filter((name) => name !== NO_TOOL));
  const hiddenTools = Object.freeze(toolAccess.hiddenTools.filter((name) => name !== NO_TOOL));
  return Object.freeze({
    ...(toolAccess.tools.length === 0 ? {} : { tools }),
    ...(hiddenTools.length === 0 ? {} : { hiddenTools }),
    ...(paths === undefined ? {} : { paths: Object.freeze([...paths]) }),
    ...(budget === undefined ? {} : { budget: Object.freeze({ ...budget }) }),
  });
}

/** An authority with these limits in the place of those it has. */
export function withLimits(authority: SessionAuthority, limits: AuthorityChange): SessionAuthority {
  const { subagent, pluginOptions } = authority;
  return completeAuthority({ ...requestOf(limits), subagent, pluginOptions });
}

/** What a child session gets of what it wants. */
export function narrowAuthority(parent: SessionAuthority, wanted: AuthorityRequest = {}): SessionAuthority {
  const subagent = narrowSubagent(parent.subagent, wanted.subagent);
  const budget = narrowBudget(parent.budget, wanted.budget);
  const paths = narrowPaths(parent.paths, wanted.paths);
  return freeze({
    ...(budget === undefined ? {} : { budget }),
    ...(paths === undefined ? {} : { paths }),
    toolAccess: narrowAccess(parent.toolAccess, wanted.toolAccess ?? {}),
    ...(subagent === undefined ? {} : { subagent }),
    pluginOptions: {
      ...parent.pluginOptions,
      ...decodeJsonObject(wanted.pluginOptions ?? {}, "plugin options"),
    },
  });
}

function narrowAccess(parent: ToolAccess, wanted: Partial<ToolAccess>): ToolAccess {
  const asked = wanted.tools ?? [];
  const hiddenTools = union(parent.hiddenTools, wanted.hiddenTools ?? []);
  if (parent.tools.length === 0) return { tools: asked, hiddenTools };
  if (asked.length === 0) return { tools: parent.tools, hiddenTools };
  const tools = asked.filter((name) => parent.tools.includes(name));
  // An empty list would mean "all": nothing in common is the parent's list with every tool hidden.
  return tools.length > 0
    ? { tools, hiddenTools }
    : { tools: parent.tools, hiddenTools: union(hiddenTools, parent.tools) };
}

function narrowSubagent(
  parent: SubagentContext | undefined,
  wanted: SubagentContext | undefined,
): SubagentContext | undefined {
  if (parent === undefined) return wanted;
  const { depth = 0, maxDepth = parent.maxDepth } = wanted ?? {};
  return Object.freeze({
    ...parent,
    ...wanted,
    depth: Math.max(depth, parent.depth + 1),
    maxDepth: Math.min(maxDepth, parent.maxDepth),
  });
}

function narrowBudget(
  parent: SessionBudget | undefined,
  wanted: SessionBudget | undefined,
): SessionBudget | undefined {
  if (parent === undefined || wanted === undefined) return parent ?? wanted;
  return { tokens: Math.min(parent.tokens, wanted.tokens) };
}

/** Of the paths that are wanted, those inside what the parent may reach; where the parent's is inside, the parent's. */
function narrowPaths(
  parent: readonly string[] | undefined,
  wanted: readonly string[] | undefined,
): readonly string[] | undefined {
  const asked = wanted?.map(plainPath);
  if (parent === undefined || asked === undefined) return asked ?? parent;
  const narrower = asked.filter((path) => isReachable(path, parent));
  return union(
    narrower,
    parent.filter((path) => isReachable(path, asked)),
  );
}

function union(a: readonly string[], b: readonly string[]): readonly string[] {
  return [...new Set([...a, ...b])];
}

function withoutUndefined<T extends object>(value: T): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Partial<T>;
}

function freeze(authority: SessionAuthority): SessionAuthority {
  const { tools, hiddenTools } = authority.toolAccess;
  const toolAccess = Object.freeze({
    tools: Object.freeze([...tools]),
    hiddenTools: Object.freeze([...hiddenTools]),
  });
  const { paths } = authority;
  return Object.freeze({
    ...authority,
    ...(paths === undefined ? {} : { paths: Object.freeze([...paths]) }),
    toolAccess,
    pluginOptions: Object.freeze(authority.pluginOptions),
  });
}

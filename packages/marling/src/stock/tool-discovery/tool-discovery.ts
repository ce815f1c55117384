// Tool discovery: of a large catalog the model is told a part; the rest it finds by words, and then has.
//   TDI1  before a turn, tools beyond the count, or those that the predicate names, become searchable: known, not offered.
//         One that was decided about is left alone, so that what was found stays found.
//   TDI2  what `search_tools` finds is callable from the next round on, and after restarts: it is part of the tool state.
//   TDI3  only tools of the session's catalog are found: what the session may not use is not there.

import {
  type AvailabilityTier,
  definePlugin,
  defineTool,
  type Json,
  type Plugin,
  type PromptContribution,
  type ToolDefinition,
  type ToolManifest,
  type ToolState,
} from "../../index.ts";
import type { RuntimeSessionHost, TurnHookContext } from "../../plugin/index.ts";
import { aCount, aFunction, aToolName, checkOptions, texts } from "../check-options.ts";
import { scoreTools } from "./score-tools.ts";

export interface ToolDiscoveryOptions {
  /** How many tools are offered, the first by name, before the rest is only found; 30 by default. What was found comes on top. */
  readonly maxTools?: number;
  /** Tools that are only found, however many there are. */
  readonly isSearchable?: (tool: ToolManifest) => boolean;
  /** Tools that are always offered, by name; `*` at the end stands for any rest. */
  readonly always?: readonly string[];
  readonly toolName?: string;
}

type Settings = Required<Omit<ToolDiscoveryOptions, "isSearchable">> &
  Pick<ToolDiscoveryOptions, "isSearchable">;

const ID = "tool_discovery";
const BATCH = "batch";
const MOST_GROUPS = 40;
const MOST_FOUND = 20;

/** Keeps large catalogs out of the prompt, and within reach. */
export function toolDiscovery(options: ToolDiscoveryOptions = {}): Plugin {
  checkOptions(ID, options, {
    maxTools: aCount,
    isSearchable: aFunction,
    always: texts,
    toolName: aToolName,
  });
  const settings: Settings = { maxTools: 30, always: [], toolName: "search_tools", ...options };
  return definePlugin({
    id: ID,
    build({ sessionId }) {
      let host: RuntimeSessionHost | undefined;
      return {
        ready: (ready) => {
          host = ready.host;
        },
        tools: [searchTool(settings, { sessionId, host: () => host as RuntimeSessionHost })],
        turn: { before: (turn) => hide(turn, settings) },
        prompt: async (ctx) => groupsNote(await ctx.host.toolCatalog(ctx.sessionId), settings),
      };
    },
  })();
}

async function hide({ host, sessionId }: TurnHookContext, settings: Settings): Promise<undefined> {
  const names = tooMany(await host.toolState(sessionId), settings);
  if (names.length > 0) await host.setToolsAvailability(sessionId, names, "searchable");
}

function tooMany({ tools }: ToolState, settings: Settings): readonly string[] {
  const { maxTools, isSearchable } = settings;
  const undecided: ToolManifest[] = [];
  for (const { manifest, orphaned, member, availability } of Object.values(tools)) {
    if (orphaned === true || member === false || isAlways(manifest.name, settings)) continue;
    if (availability === undefined && isOffered(manifest.availability)) undecided.push(manifest);
  }
  const named = undecided.filter((tool) => isSearchable?.(tool) === true);
  const rest = undecided.filter((tool) => !named.includes(tool));
  return [...named, ...rest.slice(maxTools)].map(({ name }) => name);
}

function isOffered(tier: AvailabilityTier = "showcased"): boolean {
  return tier === "callable" || tier === "showcased";
}

function isAlways(name: string, { always, toolName }: Settings): boolean {
  if (name === toolName || name === BATCH) return true;
  return always.some((pattern) =>
    pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern,
  );
}

function groupsNote(
  catalog: readonly ToolManifest[],
  { toolName }: Settings,
): PromptContribution | undefined {
  const groups = new Map<string, number>();
  for (const tool of catalog) {
    if (tool.availability !== "searchable") continue;
    const group = groupOf(tool);
    groups.set(group, (groups.get(group) ?? 0) + 1);
  }
  if (groups.size === 0) return undefined;
  const lines = [...groups].slice(0, MOST_GROUPS).map(([group, count]) => `- ${group}: ${count}`);
  const more = groups.size > MOST_GROUPS ? [`- and ${groups.size - MOST_GROUPS} more groups`] : [];
  const content = `There are more tools than are listed. Find them with ${toolName}; what it finds can be called afterwards. Groups, and how many tools each has:\n${[...lines, ...more].join("\n")}`;
  return { slot: "guidance", title: "More tools", content, gate: { tools: [toolName] } };
}

/** The namespace, or the server of an MCP tool, or the first word of the name. */
function groupOf({ name, discovery }: ToolManifest): string {
  if (discovery?.namespace !== undefined) return discovery.namespace;
  const [first = name, second = first] = name.split("__");
  return first === "mcp" ? second : (name.split(/[_-]/)[0] ?? name);
}

interface SearchParts {
  readonly sessionId: string;
  host(): RuntimeSessionHost;
}

function searchTool(settings: Settings, { sessionId, host }: SearchParts): ToolDefinition {
  return defineTool({
    name: settings.toolName,
    description: "Finds more tools by what they are about. What it finds can be called from then on.",
    replay: "safe",
    input: {
      type: "object",
      required: ["query"],
      additionalProperties: false,
      properties: {
        query: { type: "string", minLength: 1, maxLength: 400, description: "A few words." },
        limit: { type: "integer", minimum: 1, maximum: MOST_FOUND, description: "How many; 5 by default." },
      },
    },
    execute: async (raw) => {
      const { query, limit = 5 } = raw as unknown as { readonly query: string; readonly limit?: number };
      const tools = (await host().toolCatalog(sessionId)).filter((tool) => !isAlways(tool.name, settings));
      const found = scoreTools(tools, query, limit);
      const hidden = found.filter(({ availability }) => !isOffered(availability)).map(({ name }) => name);
      if (hidden.length > 0) await host().setToolsAvailability(sessionId, hidden, "callable");
      return { tools: found.map(foundTool), searched: tools.length };
    },
  }) as ToolDefinition;
}

function foundTool({ name, description, compactContract }: ToolManifest): Json {
  return { name, description, ...(compactContract === undefined ? {} : { contract: compactContract }) };
}

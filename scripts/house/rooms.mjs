// The rooms of the folders that have them, top first. A room may import the rooms above it, never those below.
// "" is the folder itself. `house.mjs` counts upward imports, `test/boundary/layers.test.ts` refuses them.

/** @type {Readonly<Record<string, Readonly<Record<string, string>>>>} */
export const ROOMS = {
  kernel: {
    watch: "Shows events to observers. Decides nothing.",
    scope: "Used by every phase: turn data, effects, control, faults, spending, trace.",
    session: "Committed state of one session, and the right to write it.",
    calls: "Shared by model calls and tool calls.",
    "calls/model": "Between a round and a model answer.",
    "calls/tool": "Between a tool call and its result.",
    services: "Services that plugins and hosts request beside turns.",
    turn: "The phases of a turn; `ls` lists them.",
    triggers: "Occurrences from outside, and their delivery.",
    sessions: "Opening, creating, listing and handing out sessions.",
    runtime: "The composition root. Runs once per process.",
  },
  plugin: {
    "": "Everything a plugin author reads: types, tables, codecs.",
    state: "Declared plugin state and its drafts.",
    hooks: "Running hooks.",
    operations: "Queries, commands, tasks and actions.",
    standard: "The standard protocol and its tool.",
    session: "One plugin session, from factories to snapshot.",
  },
  store: {
    "": "The seam.",
    memory: "The store in memory.",
    tenant: "A store restricted to one tenant.",
    sql: "Formats that SQL stores share. No SQL.",
    "sqlite/file": "The database file: locks, transactions, migrations. No rules.",
    "sqlite/rows": "SQL of one table per file. No rules.",
    sqlite: "The verbs of the contract. Rules, no SQL.",
  },
  llm: {
    "": "The seam, and failures of providers.",
    prompt: "From messages to a prompt that every provider accepts.",
    "ai-sdk": "Models of the AI SDK.",
    "native/http": "One POST and its streamed answer.",
    native: "Shared by the native wire formats.",
    "native/openai": "Chat Completions.",
    "native/anthropic": "Messages.",
  },
  work: {
    tasks: "Tasks of all sessions of a runtime.",
    monitors: "Commands that a session watches.",
    triggers: "Schedules and their ticks.",
  },
};

/** Lists of public names. They may import everything and belong to no room. */
export const ENTRIES = [
  "index.ts",
  "ai-sdk.ts",
  "host.ts",
  "mcp.ts",
  "models.ts",
  "otel.ts",
  "plugin/index.ts",
  "plugins.ts",
  "sqlite.ts",
  "testing/index.ts",
  "tools.ts",
];

/**
 * @typedef {{ folder: string; room: string; order: number }} Place
 *   `order` counts from the top; -1 where the folder has rooms and this is none of them.
 */

/**
 * The room of a source file; nothing where its top folder has no rooms.
 * @param {string} path relative to `src`
 * @returns {Place | undefined}
 */
export function placeOf(path) {
  const [folder = "", ...rest] = path.split("/");
  const rooms = ROOMS[folder];
  if (rooms === undefined || rest.length === 0) return undefined;
  const room = rest.slice(0, -1).join("/");
  return { folder, room, order: Object.keys(rooms).indexOf(room) };
}

/**
 * Whether an import points to a room below the importing one.
 * @param {string} from
 * @param {string} to
 */
export function pointsUp(from, to) {
  const [one, other] = [placeOf(from), placeOf(to)];
  if (one === undefined || other === undefined || one.folder !== other.folder) return false;
  return one.room !== other.room && (other.order > one.order || other.order < 0);
}

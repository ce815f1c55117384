// The agent of the command line, put together in one place: model, tools, plugins, store and trace.
//   AG1  what only reads runs; everything else asks, unless the settings say otherwise.
//   AG3  a plugin of its own that the settings leave out is retired: its sessions run on without it.
//   AG2  keys of the environment reach their provider, and no prompt, store or command.

import { mkdirSync } from "node:fs";
import { dirname, isAbsolute, join, relative } from "node:path";
import {
  createRuntime,
  type JsonlTrace,
  jsonlTrace,
  type ModelOption,
  type Plugin,
  type Runtime,
  type Session,
  type ToolDefinition,
} from "marling";
import {
  approvals,
  loopGuard,
  planMode,
  projectInstructions,
  redaction,
  rollingHistory,
  subagents,
  toolDiscovery,
  toolOutputBudget,
  updatePlan,
} from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { AskDesk } from "./ask-desk.ts";
import { demoModel } from "./demo/demo-model.ts";
import { demoPlugin } from "./demo/demo-plugin.ts";
import type { Environment } from "./environment.ts";
import { makeModel } from "./make-model.ts";
import { chooseModel, describeChoice, type ModelChoice } from "./model-choice.ts";
import { OWN_MODEL, openOwn } from "./own-sessions.ts";
import type { Settings } from "./settings.ts";

export interface Agent {
  readonly runtime: Runtime;
  /** Opens a session that the command line made, or begins one. */
  open(name: string): Promise<Session>;
  /** The model in words, and where the choice came from. */
  readonly model: string;
  /** Lets a tool run without asking, as long as this agent is open. */
  allowAlways(toolName: string): void;
  /** What the model asks the person. */
  readonly asks: AskDesk;
  /** Turns plan mode on or off, or says whether it is on. */
  plan(session: Session, argument: string): Promise<string>;
  close(): Promise<void>;
}

export interface AgentOptions {
  readonly settings: Settings;
  readonly env: Environment["env"];
  readonly cwd: string;
  /** Whether there is somebody whom the model may ask. */
  readonly canAsk: boolean;
}

const INSTRUCTIONS =
  "You are a careful assistant on the command line. Look with the tools before you answer, and do what was asked, no more. Be brief.";

/** A shell has a limit of its own, and asking a person waits elsewhere. */
const TOOL_LIMIT_MS = 15 * 60 * 1000;

/** What runs without asking: it reads, or stays inside the session. */
const FREE = [
  "read_file",
  "list_files",
  "glob",
  "grep",
  "read_output",
  "ask",
  "shell_output",
  "shell_stop",
  "llm_query",
  "update_plan",
  "exit_plan", // plan mode asks about it itself
  "search_tools",
  "spawn", // what children do is asked about
  "count_words",
  "calculate",
  "remember",
  "recall",
  "slow_work",
];

/** Every plugin that an agent of the command line may have, whatever its settings. */
const OWN_PLUGINS = [
  "ask",
  "demo",
  "loop_guard",
  "mcp",
  "project_instructions",
  "rolling_history",
  "shell",
  "subagents",
  "tool_discovery",
  "tool_output_budget",
  "update_plan",
];

function retiredBeside(plugins: readonly Plugin[]): Readonly<Record<string, string>> {
  const reason = "the settings of the command line leave it out";
  const given = new Set<string>(plugins.map(({ id }) => id));
  return Object.fromEntries(OWN_PLUGINS.filter((id) => !given.has(id)).map((id) => [id, reason]));
}

export async function openAgent(options: AgentOptions): Promise<Agent> {
  const { settings, env } = options;
  const { store: path, instructions = INSTRUCTIONS, maxTurns } = settings;
  const choice = chooseModel(settings, env);
  const model: ModelOption = choice.kind === "demo" ? demoModel() : await makeModel(choice, env);
  const always = new Set<string>();
  mkdirSync(dirname(path), { recursive: true });
  const asks = new AskDesk(path);
  const parts = await partsFor(choice, options, asks);
  const trace: JsonlTrace | undefined = settings.trace === undefined ? undefined : jsonlTrace(settings.trace);
  const plugins = [redaction({ secrets: secretsOf(env) }), decisions(settings, always), ...parts.plugins];
  const runtime = createRuntime({
    models: { [OWN_MODEL]: model },
    store: sqliteStore({ path }),
    instructions,
    tools: parts.tools,
    toolTimeoutMs: TOOL_LIMIT_MS,
    plugins,
    retired: retiredBeside(plugins),
    ...(maxTurns === undefined ? {} : { turnBudget: maxTurns }),
    ...(trace === undefined ? {} : { trace }),
  });
  return {
    runtime,
    open: (name) => openOwn(runtime, settings, name),
    model: describeChoice(choice, typeof model === "object" && "id" in model ? model.id : undefined),
    allowAlways: (toolName) => void always.add(toolName),
    asks,
    plan,
    close: async () => {
      await runtime.close();
      await parts.close();
      await trace?.close();
    },
  };
}

interface AgentParts {
  readonly tools: readonly ToolDefinition[];
  readonly plugins: readonly Plugin[];
  close(): Promise<void>;
}

async function partsFor(choice: ModelChoice, options: AgentOptions, asks: AskDesk): Promise<AgentParts> {
  const { settings, env, cwd, canAsk } = options;
  const servers = await mcpServers(settings);
  const shared = [planMode(), ...(servers === undefined ? [] : [servers.plugin, toolDiscovery()])];
  const close = async (): Promise<void> => servers?.close();
  if (choice.kind === "demo") {
    const notes = join(dirname(settings.store), "notes.md");
    const stepMs = Number(env.MARLING_DEMO_STEP_MS ?? 1_500);
    return { tools: [], plugins: [demoPlugin({ root: cwd, notes, stepMs }), ...shared], close };
  }
  const { applyPatchTool, ask, fileTools, llmQueryTool, shell, webFetchTool } = await import("marling/tools");
  const files = { root: cwd, denied: storeFolder(settings.store, cwd) };
  return {
    tools: [...fileTools(files), applyPatchTool(files), webFetchTool(), llmQueryTool()],
    plugins: [
      shell({ cwd, ask: "never" }), // the policy of this agent asks
      ...shared,
      ...(canAsk ? [ask({ onQuestion: (asked) => asks.ask(asked) })] : []),
      updatePlan(),
      subagents({ maxDepth: 1 }),
      projectInstructions({ directory: cwd, trusted: settings.isTrusted }),
      toolOutputBudget(),
      loopGuard(),
      rollingHistory(),
    ],
    close,
  };
}

/** The folder of the store, where it is below the root of the file tools and holds nothing else: other sessions are in it. */
function storeFolder(store: string, cwd: string): readonly string[] {
  const path = relative(cwd, dirname(store));
  const isBelow = path !== "" && !path.startsWith("..") && !isAbsolute(path);
  return isBelow ? [path.replaceAll("\\", "/")] : [];
}

async function mcpServers({
  mcpServers: configs,
}: Settings): Promise<{ readonly plugin: Plugin; close(): Promise<void> } | undefined> {
  if (Object.keys(configs).length === 0) return undefined;
  const { mcp } = await import("marling/mcp");
  return mcp({ servers: configs, approve: "allow" }); // a contract that changes asks; every call is the policy's
}

/** One policy for everything; a tool that was always allowed does not ask again. */
function decisions({ approve }: Settings, always: ReadonlySet<string>): Plugin {
  const otherwise = { ask: "ask", all: "allow", none: "deny" } as const;
  return approvals({
    rules: Object.fromEntries(FREE.map((name) => [name, "allow" as const])),
    otherwise: otherwise[approve],
    policy: ({ toolName }) => (always.has(toolName) ? "allow" : undefined),
  });
}

async function plan(session: Session, argument: string): Promise<string> {
  if (argument === "on") await session.command("plan_mode.enter", {});
  else if (argument === "off") await session.command("plan_mode.leave", {});
  else if (argument !== "") return "Say /plan on or /plan off.";
  const status = await session.query("plan_mode.status", {});
  const isActive = typeof status === "object" && status !== null && "isActive" in status && status.isActive;
  return isActive === true
    ? "Plan mode is on: the model looks and plans, and changes nothing."
    : "Plan mode is off.";
}

const SHORTEST_SECRET = 8;

/** Keys of this process are kept out of prompts and stores, whatever prints them. */
function secretsOf(env: Environment["env"]): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) =>
    /(?:KEY|TOKEN|SECRET|PASSWORD)$/.test(name) && value !== undefined && value.length >= SHORTEST_SECRET
      ? [value]
      : [],
  );
}

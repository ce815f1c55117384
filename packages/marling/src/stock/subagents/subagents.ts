// Subagents: a tool with which the model gives tasks to sessions of their own.
//   SA1  a child has at most the authority of its parent: tools, depth and budget only narrow.
//   SA2  a task that was given before a crash is the same task after it: the child is found again, and what it has done
//        stays done.
//   SA3  a child that was given a name can be given more tasks; it knows what it did before.

import {
  definePlugin,
  defineTool,
  type Json,
  type JsonObject,
  type Plugin,
  toolFailure,
} from "../../index.ts";
import { toolAccessOf } from "../../plugin/index.ts";
import {
  aCount,
  aPositiveCount,
  aText,
  aToolName,
  checkOptions,
  type OptionCheck,
  recordOf,
  texts,
} from "../check-options.ts";

/** What children of one kind may do. */
export interface Capability {
  readonly description: string;
  readonly instructions?: string;
  /** The name of one of the runtime's models; by default the parent's. */
  readonly model?: string;
  /** The tools it may use, none when the list is empty; by default those of the parent. */
  readonly tools?: readonly string[];
  readonly hiddenTools?: readonly string[];
  /** Model calls per task. */
  readonly maxTurns?: number;
  /** Files and folders that it may reach, relative to the root of the file tools; by default those of the parent. */
  readonly paths?: readonly string[];
  /** Tokens that a child, with its own children, may use. */
  readonly tokens?: number;
}

export interface SubagentsOptions {
  /** By name; by default one, `worker`. */
  readonly capabilities?: Readonly<Record<string, Capability>>;
  /** How deep children may have children; 1 means that children have none. */
  readonly maxDepth?: number;
  readonly toolName?: string;
}

const WORKER: Readonly<Record<string, Capability>> = {
  worker: { description: "Works on one task with the tools of this session and reports what it found." },
};

const CAPABILITY: { readonly [K in keyof Required<Capability>]: OptionCheck } = {
  description: aText,
  instructions: aText,
  model: aText,
  tools: texts,
  hiddenTools: texts,
  maxTurns: aPositiveCount,
  paths: (value) =>
    Array.isArray(value) && value.every(isInside)
      ? undefined
      : "an array of paths below the root of the tools",
  tokens: aCount,
};

const aSetOfCapabilities: OptionCheck = (value) =>
  recordOf(aCapability)(value) ??
  (Object.keys(value as object).length > 0 ? undefined : "at least one capability");

function aCapability(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return "a capability with a description";
  if (!("description" in value)) return "a description";
  for (const [name, member] of Object.entries(value)) {
    if (!Object.hasOwn(CAPABILITY, name))
      return `no other members than ${Object.keys(CAPABILITY).join(", ")}`;
    const expected = member === undefined ? undefined : CAPABILITY[name as keyof Capability](member);
    if (expected !== undefined) return `as ${name} ${expected}`;
  }
  return undefined;
}

function isInside(path: unknown): boolean {
  return typeof path === "string" && path !== "" && !path.startsWith("/") && !path.split("/").includes("..");
}

interface SpawnArgs {
  readonly task: string;
  readonly capability?: string;
  readonly seed?: "empty" | "history";
  readonly name?: string;
  readonly outputSchema?: JsonObject;
}

/** Lets the model give tasks to child sessions, several at once if it wants. */
export function subagents(options: SubagentsOptions = {}): Plugin {
  checkOptions("subagents", options, {
    capabilities: aSetOfCapabilities,
    maxDepth: aPositiveCount,
    toolName: aToolName,
  });
  const { capabilities = WORKER, maxDepth = 3, toolName = "spawn" } = options;
  return definePlugin({
    id: "subagents",
    build({ sessionId, subagent }) {
      const depth = subagent?.depth ?? 0;
      const limit = Math.min(maxDepth, subagent?.maxDepth ?? maxDepth);
      if (depth >= limit) return {}; // What is not offered cannot be called.
      return { tools: [spawnTool({ sessionId, depth, maxDepth: limit, capabilities, toolName })] };
    },
  })();
}

interface SpawnInit {
  readonly sessionId: string;
  readonly depth: number;
  readonly maxDepth: number;
  readonly capabilities: Readonly<Record<string, Capability>>;
  readonly toolName: string;
}

function spawnTool(init: SpawnInit): ReturnType<typeof defineTool> {
  const { capabilities, toolName } = init;
  const names = Object.keys(capabilities);
  const described = names.map((name) => `- ${name}: ${capabilities[name]?.description ?? ""}`).join("\n");
  return defineTool({
    name: toolName,
    description: `Gives a task to an agent of its own and returns what it reports. Kinds of agents:\n${described}`,
    input: inputSchema(names),
    replay: "safe",
    execute: async (raw, ctx) => {
      const args = raw as unknown as SpawnArgs;
      if (hasPattern(args.outputSchema ?? {})) return toolFailure(NO_PATTERNS);
      const capability = args.capability ?? names[0] ?? "worker";
      const childId = await childFor(init, { args, capability, host: ctx.host });
      const { outputSchema } = args;
      const report = await ctx.host.startTurn(
        childId,
        args.task,
        outputSchema === undefined ? {} : { outputSchema },
      );
      const { outcome, text } = report;
      if (outcome.kind === "finished") {
        const value = outcome.value === undefined ? {} : { value: outcome.value };
        return { sessionId: childId, text, ...value };
      }
      return toolFailure({
        code: outcome.code ?? outcome.reason,
        class: "execution",
        message: `The agent stopped: ${outcome.message ?? outcome.reason}`,
        raw: { sessionId: childId, text },
      });
    },
  }) as unknown as ReturnType<typeof defineTool>;
}

/** What the model writes must not run as a regular expression here: one can take for ever. */
const NO_PATTERNS = {
  code: "invalid_tool_args",
  class: "invalid_request",
  message: "outputSchema: expected a schema without pattern and patternProperties.",
} as const;

function hasPattern(value: Json): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(
    ([name, member]) =>
      name === "patternProperties" ||
      (name === "pattern" && typeof member === "string") ||
      hasPattern(member as Json),
  );
}

interface ChildRequest {
  readonly args: SpawnArgs;
  readonly capability: string;
  readonly host: { createSession(request: object): Promise<{ readonly sessionId: string }> };
}

/** The session for a task: a new one, or the one that was given this name before. */
async function childFor(init: SpawnInit, { args, capability, host }: ChildRequest): Promise<string> {
  const { sessionId: parent, depth, maxDepth, capabilities } = init;
  const { instructions, model, tools, hiddenTools, maxTurns, paths, tokens } = capabilities[capability] ?? {
    description: "",
  };
  const named = args.name === undefined ? undefined : `${parent}:agent:${args.name}`;
  const request = {
    ...(named === undefined ? {} : { sessionId: named }),
    start: { kind: args.seed === "history" ? "current_session" : "empty" },
    plugins: "fork",
    subagent: { parentSessionId: parent, capability, depth: depth + 1, maxDepth },
    toolAccess: toolAccessOf({ tools, hiddenTools }),
    policy: {
      ...(instructions === undefined ? {} : { instructions }),
      ...(model === undefined ? {} : { model }),
      ...(maxTurns === undefined ? {} : { maxTurns }),
    },
    ...(paths === undefined ? {} : { paths }),
    ...(tokens === undefined ? {} : { budget: { tokens } }),
    usageSource: `subagent:${capability}`,
  };
  try {
    return (await host.createSession(request)).sessionId;
  } catch (thrown) {
    if (named !== undefined && isKnown(thrown)) return named;
    throw thrown;
  }
}

function isKnown(thrown: unknown): boolean {
  return (thrown as { readonly code?: string }).code === "duplicate_session";
}

function inputSchema(names: readonly string[]): JsonObject {
  const text = (description: string): JsonObject => ({ type: "string", description });
  return {
    type: "object",
    required: ["task"],
    additionalProperties: false,
    properties: {
      task: text("What to do, with everything the agent needs to know."),
      capability: { enum: [...names] as Json[], description: "The kind of agent." },
      seed: { enum: ["empty", "history"], description: "Whether it knows this conversation." },
      name: { ...text("A name, to give the same agent more tasks later."), pattern: "^[a-z0-9_-]{1,64}$" },
      outputSchema: { type: "object", description: "A JSON Schema that its answer must follow." },
    },
  };
}

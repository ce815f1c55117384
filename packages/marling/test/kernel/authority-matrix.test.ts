// The authority matrix: whichever way work is started from a session that was denied a tool, a path or a budget, it does
// not get that back. One test per cell; the last row of each way shows that it reaches all of it where nothing is denied.

import {
  defineTool,
  directive,
  type JsonObject,
  type Plugin,
  type Session,
  type ToolDefinition,
} from "marling";
import { subagents } from "marling/plugins";
import { callTool, type ScriptFunction, type ScriptStep, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { SessionCreateRequest } from "../../src/plugin/session-create.ts";
import { create, family } from "./sessions-support.ts";
import { plugin, type Stage, stage } from "./tools-support.ts";

const TOKENS = 10;
const usage = { usage: { input: TOKENS, output: 0 } };

/** What was reached, by whatever way. */
interface Reached {
  readonly secrets: string[];
  readonly files: string[];
  calls: number;
}

type Want = "tool" | "path" | "budget";

/** Being denied a tool by a list that does not have it. */
const LISTED: SessionCreateRequest = {
  toolAccess: { tools: ["read", "batch", "ask", "relay", "spawn"] },
};

/** What the session that everything starts from is denied. */
const DENIED: Readonly<Record<Want, SessionCreateRequest>> = {
  tool: { toolAccess: { hiddenTools: ["secret"] } },
  path: { paths: ["docs"] },
  budget: { budget: { tokens: 3 * TOKENS } },
};

/** What is asked for on the way: as much as can be. */
const WIDE: SessionCreateRequest = {
  toolAccess: { tools: ["secret", "read", "batch", "ask", "relay"], hiddenTools: [] },
  paths: ["."],
  budget: { tokens: 1_000_000 },
};

/** How a denied thing is reached for, by a model that may call tools: the call, round by round. */
const REACH: Readonly<Record<Want, readonly (readonly [name: string, args: JsonObject])[]>> = {
  tool: [["secret", {}]],
  path: [
    ["read", { path: "private/key" }],
    ["read", { path: "docs/../private/key" }],
    ["read", {}],
    ["read", { path: "docs/open" }],
  ],
  budget: Array.from({ length: 8 }, () => ["ask", {}] as const),
};

/** A way from a session to work, and what a model of that work does to reach for something. */
interface Way {
  /** Starts the work; resolves when it has ended. */
  start(stage: Stage, from: Session): Promise<void>;
  /** What stands around a call. */
  readonly through?: (name: string, args: JsonObject) => ScriptStep;
}

const inSession = async (session: Session): Promise<void> => void (await session.turn("reach").result);

/** A session that something made on behalf of another one. */
const madeBy =
  (make: (from: Session) => Promise<unknown>): Way["start"] =>
  async ({ runtime }, from) => {
    await make(from);
    await inSession(await runtime.session("made"));
  };

const WAYS: Readonly<Record<string, Way>> = {
  tool: {
    start: (_stage, from) => inSession(from),
    through: (name, args) => callTool("relay", { name, args }, usage),
  },
  batch: {
    start: (_stage, from) => inSession(from),
    through: (name, args) => callTool("batch", { calls: [{ tool: name, parameters: args }] }, usage),
  },
  subagent: { start: async (_stage, from) => void (await from.turn("delegate 1").result) },
  grandchild: { start: async (_stage, from) => void (await from.turn("delegate 2").result) },
  task: { start: madeBy((from) => from.task("ways.make_later", {})) },
  command: { start: madeBy((from) => from.command("ways.make", {})) },
  plugin: { start: madeBy((from) => from.turn("let the plugin make one").result) },
  trigger: {
    start: async ({ runtime }, from) => {
      await runtime.triggers.subscribe({ sessionId: from.id, source: "door.bell", input: "reach" });
      const before = from.read().turnIndex;
      await runtime.triggers.emit({ source: "door.bell", key: "once", payload: {} });
      await expect.poll(() => from.read().turnIndex).toBe(before + 1);
    },
  },
  fork: {
    start: async ({ runtime }, from) => inSession(await runtime.sessions.fork(from.id, { as: "forked" })),
  },
};

const MAKE: SessionCreateRequest = { ...WIDE, sessionId: "made" };

/** The plugin with the operations, the hook and the trigger of the ways. */
const ways: Plugin = plugin("ways", {
  triggers: [{ resourceType: "door", alias: "door", event: "bell" }],
  turn: {
    before: ({ state }) =>
      JSON.stringify(state.messages.at(-1) ?? "").includes("let the plugin make one")
        ? [directive.createSession(MAKE)]
        : undefined,
  },
  operations: {
    commands: {
      "ways.make": {
        session: "required",
        handler: async (ctx) => void (await ctx.sessionLifecycle.createSession(MAKE)),
      },
    },
    tasks: {
      "ways.make_later": {
        session: "required",
        handler: async (ctx) => void (await ctx.sessionLifecycle.createSession(MAKE)),
      },
    },
  },
});

function tools({ secrets, files }: Reached): readonly ToolDefinition[] {
  const input = { type: "object" };
  const all = [
    defineTool({
      name: "secret",
      description: "Is secret.",
      input,
      execute: () => void secrets.push("told"),
    }),
    defineTool({
      name: "read",
      description: "Reads.",
      input,
      pathArgs: ["path"],
      execute: ({ path }) => void files.push(String(path ?? ".")),
    }),
    defineTool({ name: "ask", description: "Asks a model.", input, execute: (_args, ctx) => askModel(ctx) }),
    defineTool({
      name: "relay",
      description: "Calls another tool.",
      input,
      execute: async ({ name, args }, ctx) => {
        const [reply] = await ctx.callTools([{ name: String(name), args: args ?? {} }]);
        return reply?.output.outcome.kind ?? "none";
      },
    }),
  ];
  return all as unknown as readonly ToolDefinition[];
}

async function askModel(ctx: { directCompletion(request: object): Promise<unknown> }): Promise<string> {
  await ctx.directCompletion({ messages: [{ role: "user", content: "a direct question" }] });
  return "asked";
}

/** Who is told to reach calls what it is to reach, one call a round; who is told to delegate does so as often as told. */
function model(want: Want, through: NonNullable<Way["through"]>, reached: Reached): ScriptFunction {
  return ({ messages }) => {
    const last = messages.findLastIndex(({ role }) => role === "user" || role === "system");
    const text = JSON.stringify(messages[last] ?? "");
    if (!text.includes("let the plugin")) reached.calls += 1; // That turn is the denied session's own.
    const round = messages.slice(last).filter(({ role }) => role === "assistant").length;
    const delegate = /delegate (\d)/.exec(text)?.[1];
    if (delegate !== undefined && round === 0) {
      const task = delegate === "1" ? "reach" : "delegate 1";
      return callTool("spawn", { task, capability: "wide" }, usage);
    }
    const next = text.includes("reach") ? REACH[want][round] : undefined;
    if (next === undefined) return say("done", usage);
    return through(...next);
  };
}

async function reach(way: Way, want: Want, denied: SessionCreateRequest): Promise<Reached> {
  const reached: Reached = { secrets: [], files: [], calls: 0 };
  const { toolAccess, paths, budget } = WIDE;
  const wide = {
    description: "Wants everything.",
    tools: [...(toolAccess?.tools ?? []), "spawn"],
    paths: paths ?? [],
    tokens: budget?.tokens ?? 0,
  };
  const through = way.through ?? ((name: string, args: JsonObject) => callTool(name, args, usage));
  const world = await stage({
    plugins: [family, ways, subagents({ capabilities: { wide }, maxDepth: 3 })],
    tools: tools(reached),
    script: model(want, through, reached),
  });
  const from = await create(world, world.session, { ...denied, sessionId: "denied" });
  await way.start(world, from);
  return reached;
}

describe.each(Object.entries(WAYS))("through a %s", (name, way) => {
  test(`[A-${name}-tool] a tool that was denied is not called`, async () => {
    expect((await reach(way, "tool", DENIED.tool)).secrets).toEqual([]);
  });

  test(`[A-${name}-list] a tool that is not in the list of tools is not called`, async () => {
    expect((await reach(way, "tool", LISTED)).secrets).toEqual([]);
    expect((await reach(way, "path", LISTED)).files).toHaveLength(4);
  });

  test(`[A-${name}-path] a path that was denied is not reached, and one that was not is`, async () => {
    expect((await reach(way, "path", DENIED.path)).files).toEqual(["docs/open"]);
  });

  test(`[A-${name}-budget] a budget that was given is not exceeded`, async () => {
    const { calls } = await reach(way, "budget", DENIED.budget);
    expect(calls).toBeGreaterThan(0);
    expect(calls).toBeLessThanOrEqual(3);
  });

  test(`[A-${name}] where nothing was denied all of it is reached`, async () => {
    expect((await reach(way, "tool", {})).secrets).toEqual(["told"]);
    expect((await reach(way, "path", {})).files).toEqual([
      "private/key",
      "docs/../private/key",
      ".",
      "docs/open",
    ]);
    expect((await reach(way, "budget", {})).calls).toBeGreaterThan(8);
  });
});

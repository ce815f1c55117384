// Every way to call a tool passes the same hooks, validation and approval, and there is no way past them.

import {
  defineTool,
  directive,
  type ExecutionGrant,
  type Json,
  type PluginParts,
  type ToolProvider,
  toolFailure,
  toolSuccess,
} from "marling";
import { callTool, callTools, type ScriptStep, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { DispatchPath } from "../../src/kernel/dispatch.ts";
import { sourceFiles } from "../boundary/source-files.ts";
import { codeProtocol } from "./tools-code-protocol.ts";
import {
  failureOf,
  outputsOf,
  type Played,
  play,
  plugin,
  type StageOptions,
  stage,
  successOf,
} from "./tools-support.ts";

const MANIFEST = { id: "target-id", name: "target", description: "Is called." };
const CONTRACT = {
  inputSchema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
};
const GRANT: ExecutionGrant = { manifest: MANIFEST, contract: CONTRACT, sourceId: "plugins", binding: null };

/** Calls the tool `target` with some arguments, on one path. */
type Walk = (args: Json, base: { readonly log: string[]; readonly guard: PluginParts }) => Promise<Played>;

/** A line is missing here when a path is added to DISPATCH_PATHS: this does not compile without it. */
const PATHS: Readonly<Record<DispatchPath, Readonly<Record<string, Walk>>>> = {
  model: {
    "the only call of a response": (args, base) => walk([callTool("target", args)], base),
    "one of several calls": (args, base) =>
      walk(
        [
          callTools([
            ["filler", {}],
            ["target", args],
            ["filler", {}],
          ]),
        ],
        base,
      ),
  },
  tool: {
    "a tool through ctx.callTools": (args, base) => walk([callTool("caller", { args })], base),
    "a tool with a grant": (args, base) =>
      walk([callTool("caller", { args, granted: true })], base, { isHiddenAway: true }),
    "the batch tool": (args, base) => walk([callTool("batch", { calls: [{ tool: "target", args }] })], base),
    "the batch tool inside ctx.callTools": (args, base) =>
      walk([callTool("caller", { args: { calls: [{ tool: "target", args }] }, name: "batch" })], base),
  },
  code: {
    code: (args, base) => walk([say("run")], base, { code: { name: "target", args } }),
    "code with a grant": (args, base) =>
      walk([say("run")], base, { code: { name: "target", args, grant: GRANT }, isHiddenAway: true }),
  },
};

interface WalkOptions {
  /** The tool is not in the catalog: only a grant reaches it. */
  readonly isHiddenAway?: boolean;
  readonly code?: { readonly name: string; readonly args: Json; readonly grant?: ExecutionGrant };
}

async function walk(
  script: readonly ScriptStep[],
  { log, guard }: Parameters<Walk>[1],
  { isHiddenAway = false, code }: WalkOptions = {},
): Promise<Played> {
  const plugins = [
    plugin("owner", { tools: targetProvider(log, { isHiddenAway }) }),
    plugin("callers", { tools: [caller(), filler()] }),
    plugin("guard", guard),
    ...(code === undefined
      ? []
      : [
          codeProtocol(async (context) => ({
            observations: [String((await context.callTools([code])).length)],
          })),
        ]),
  ];
  const options: StageOptions = { plugins, script: [...script, say("Done.")] };
  const { session } = await stage(options);
  const played = await play(session.turn("Go"));
  expect(played.report.outcome).toEqual({ kind: "finished", by: "message", text: "Done." });
  return played;
}

/** Runs the same way with and without a grant. */
function targetProvider(log: string[], { isHiddenAway }: { readonly isHiddenAway: boolean }): ToolProvider {
  const run = ({ args }: { readonly args: Json }): string => {
    log.push(`run ${JSON.stringify(args)}`);
    return "ran";
  };
  return {
    manifests: () => (isHiddenAway ? [] : [MANIFEST]),
    resolve: (key) => ("id" in key && key.id === "target-id" ? MANIFEST : undefined),
    contract: (name) => (name === "target" ? CONTRACT : undefined),
    execute: run,
    executeGranted: run,
  };
}

function caller(): ReturnType<typeof defineTool> {
  return defineTool({
    name: "caller",
    description: "Calls another tool.",
    input: { type: "object" },
    execute: async ({ args = {}, granted, name = "target" }, context) => {
      const grant = granted === true ? { grant: GRANT } : {};
      const replies = await context.callTools([{ name: name as string, args, ...grant }]);
      return replies.length;
    },
  });
}

function filler(): ReturnType<typeof defineTool> {
  return defineTool({
    name: "filler",
    description: "Is there.",
    input: { type: "object" },
    execute: () => null,
  });
}

/** Writes down what hooks and policies are asked about the target; `parts` decide. */
function watching(
  log: string[],
  parts: { before?: () => unknown; approve?: () => "allow" | "deny" | "ask"; after?: () => unknown } = {},
): PluginParts {
  const isTarget = ({ toolName }: { readonly toolName: string }): boolean => toolName === "target";
  return {
    toolCalls: {
      before: (ctx) => {
        if (!isTarget(ctx)) return undefined;
        log.push(`before ${JSON.stringify(ctx.args)}`);
        return parts.before?.() as undefined;
      },
      after: (ctx) => {
        if (!isTarget(ctx)) return undefined;
        log.push(`after ${ctx.result.outcome.kind}`);
        return parts.after?.() as undefined;
      },
    },
    approval: {
      request: (ctx) => {
        if (!isTarget(ctx)) return undefined;
        log.push(`approve ${JSON.stringify(ctx.args)}`);
        return { decision: parts.approve?.() ?? "allow", expiresMs: 1 };
      },
    },
  };
}

const WALKS = Object.entries(PATHS).flatMap(([path, walks]) =>
  Object.entries(walks).map(([name, walkPath]) => ({ name: `${path}: ${name}`, walkPath })),
);

describe.each(WALKS)("$name", ({ walkPath }) => {
  test("[DP1] a call is shown to the hooks before, the policies and the hooks after, in this order", async () => {
    const log: string[] = [];
    const played = await walkPath({ n: 1 }, { log, guard: watching(log) });
    expect(log).toEqual(['before {"n":1}', 'approve {"n":1}', 'run {"n":1}', "after success"]);
    expect(outputsOf(played, "target").map(successOf)).toEqual(["ran"]);
  });

  test("[DP1] arguments that the schema refuses reach neither the policies nor the tool", async () => {
    const log: string[] = [];
    const played = await walkPath({ n: "one" }, { log, guard: watching(log) });
    expect(log).toEqual(['before {"n":"one"}']);
    expect(outputsOf(played, "target").map((output) => failureOf(output).code)).toEqual([
      "invalid_tool_args",
    ]);
  });

  test("[DP1] a hook replaces the arguments that policies see and the tool gets", async () => {
    const log: string[] = [];
    const guard = watching(log, { before: () => directive.replaceToolArgs({ n: 2 }) });
    await walkPath({ n: "one" }, { log, guard });
    expect(log).toEqual(['before {"n":"one"}', 'approve {"n":2}', 'run {"n":2}', "after success"]);
  });

  test("[DP1] a hook that denies the call is the end of it", async () => {
    const log: string[] = [];
    const denied = toolFailure({ code: "no", message: "No." });
    const guard = watching(log, { before: () => directive.shortCircuitTool(denied) });
    const played = await walkPath({ n: 1 }, { log, guard });
    expect(log).toEqual(['before {"n":1}']);
    expect(outputsOf(played, "target").map((output) => failureOf(output).code)).toEqual(["no"]);
  });

  test.each([
    ["deny", "approval_denied"],
    ["ask", "approval_expired"],
  ] as const)("[DP1] a policy that says %s keeps the tool from running", async (decision, code) => {
    const log: string[] = [];
    const played = await walkPath({ n: 1 }, { log, guard: watching(log, { approve: () => decision }) });
    expect(log).toEqual(['before {"n":1}', 'approve {"n":1}']);
    expect(outputsOf(played, "target").map((output) => failureOf(output).code)).toEqual([code]);
  });

  test("[DP1] a hook after the call replaces its result", async () => {
    const log: string[] = [];
    const guard = watching(log, { after: () => directive.shortCircuitTool(toolSuccess("other")) });
    const played = await walkPath({ n: 1 }, { log, guard });
    expect(outputsOf(played, "target").map(successOf)).toEqual(["other"]);
  });

  test("[DP3] a call has one start and one finish, however it ends", async () => {
    for (const args of [{ n: 1 }, { n: "one" }]) {
      const { events } = await walkPath(args, { log: [], guard: {} });
      const starts = events.filter((event) => event.kind === "tool_started" && event.name === "target");
      const ends = events.filter((event) => event.kind === "tool_finished" && event.record.name === "target");
      expect([starts.length, ends.length]).toEqual([1, 1]);
    }
  });
});

test("[DP1] a result that a provider gives while preparing is approved before and seen by the hooks after", async () => {
  const log: string[] = [];
  const early = defineTool({
    name: "target",
    description: "Answers early.",
    input: { type: "object" },
    prepare: () => {
      log.push("prepare");
      return toolSuccess("early");
    },
    execute: () => {
      log.push("run");
      return "late";
    },
  });
  const guard = watching(log, { after: () => directive.shortCircuitTool(toolSuccess("redacted")) });
  const { session } = await stage({
    plugins: [plugin("owner", { tools: [early] }), plugin("guard", guard)],
    script: [callTool("target", {}), say("Done.")],
  });
  const played = await play(session.turn("Go"));
  expect(log).toEqual(["before {}", "approve {}", "prepare", "after success"]);
  expect(outputsOf(played, "target").map(successOf)).toEqual(["redacted"]);
});

test("[DP1] tools are executed in one file, and calls are dispatched from the paths alone", () => {
  // Stores prepare and execute statements, which are none of the tools' business.
  const isElsewhere = (path: string): boolean => /^(?:tool|store|testing)\//.test(path);
  const holding = (pattern: RegExp): readonly string[] =>
    sourceFiles()
      .filter(({ path, code }) => !isElsewhere(path) && pattern.test(code))
      .map(({ path }) => path);
  expect(holding(/\.execute(?:Granted)?\(/)).toEqual(["kernel/tool-attempt.ts"]);
  expect(holding(/\.prepare(?:Granted)?\((?!scope)/)).toEqual(["kernel/prepare-call.ts"]);
  expect(holding(/(?<!function )\bprepareCall\(/)).toEqual(["kernel/dispatch.ts"]);
  expect(holding(/(?<!function )\bdispatchCalls\(/)).toEqual([
    "kernel/code-cell.ts",
    "kernel/dispatch.ts",
    "kernel/perform.ts",
  ]);
});

// Calls of a session that may reach some paths only, or some tools: rules PC5 and PC6 of prepare-call.ts.

import {
  defineTool,
  directive,
  type ExecutionGrant,
  type Json,
  type JsonObject,
  type Plugin,
  type ToolProvider,
} from "marling";
import { approvals } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import type { SessionCreateRequest } from "../../src/plugin/session-create.ts";
import { database, live } from "./durable-support.ts";
import { create, family } from "./sessions-support.ts";
import { failureOf, play, plugin, stage } from "./tools-support.ts";

interface Asked {
  readonly args?: JsonObject;
  readonly pathArgs?: readonly string[];
  readonly plugins?: readonly Plugin[];
  readonly denied?: SessionCreateRequest;
}

/** Calls `read` once in a session that may reach `docs` and `src/lib` only; what it was given, and what went wrong. */
async function read({ args = {}, pathArgs = ["path"], plugins = [], denied }: Asked): Promise<unknown> {
  const seen: Json[] = [];
  const tool = defineTool({
    name: "read",
    description: "Reads.",
    input: { type: "object" },
    pathArgs,
    execute: (given) => {
      seen.push(given as Json);
      return "read";
    },
  });
  const world = await stage({
    plugins: [family, ...plugins],
    tools: [tool],
    script: [callTool("read", args), say("done")],
  });
  const from = await create(world, world.session, { sessionId: "c", paths: ["docs", "src/lib"], ...denied });
  const { report } = await play(from.turn("go"));
  const { output } = report.toolCalls[0] ?? {};
  return output?.outcome.kind === "success" ? seen : failureOf(output).code;
}

test.each<[string, Json]>([
  ["a file", "docs/a"],
  ["the path itself", "src/lib"],
  ["a list inside", ["docs/a", "src/lib/b"]],
  ["a way around", "private/../docs/a"],
])("[PC5] %s is reached", async (_what, path) => {
  expect(await read({ args: { path } })).toEqual([{ path }]);
});

test.each<[string, Json]>([
  ["another file", "private/key"],
  ["a name that begins alike", "docs-private"],
  ["the folder above", "src"],
  ["the root", "."],
  ["a way out", "docs/../private/key"],
  ["an absolute path", "/etc/passwd"],
  ["a backslash", "docs\\..\\private"],
  ["one of a list", ["docs/a", "private/key"]],
  ["an empty list", []],
  ["nothing", null],
  ["what is no text", { path: "docs" }],
  ["what is no text in a list", ["docs/a", 7]],
])("[PC5] %s is not", async (_what, path) => {
  expect(await read({ args: { path } })).toBe("path_denied");
});

test("[PC5] an argument that is left out is the root, and every argument that is a path counts", async () => {
  expect(await read({})).toBe("path_denied");
  expect(await read({ denied: { paths: ["."] } })).toEqual([{}]);
  const pathArgs = ["from", "to"];
  expect(await read({ pathArgs, args: { from: "docs/a", to: "private" } })).toBe("path_denied");
  expect(await read({ pathArgs, args: { from: "docs/a", to: "docs/b" } })).toEqual([
    { from: "docs/a", to: "docs/b" },
  ]);
  expect(await read({ args: { path: "docs" }, denied: { paths: [] } })).toBe("path_denied");
});

test("[PC5] what counts are the arguments as hooks left them", async () => {
  const replacing = (path: string): Plugin =>
    plugin("replacing", { toolCalls: { before: () => directive.replaceToolArgs({ path }) } });
  const widened = await read({ args: { path: "docs/a" }, plugins: [replacing("private/key")] });
  expect(widened).toBe("invalid_tool_args");
  expect(await read({ args: { path: "private/key" }, plugins: [replacing("docs/a")] })).toEqual([
    { path: "docs/a" },
  ]);
});

const FILE = { id: "file-id", name: "file", description: "Reads a file.", pathArgs: ["path"] };

/** A tool that is in no list, and runs for whoever has a grant for it. */
const files = (seen: Json[]): ToolProvider => ({
  manifests: () => [],
  resolve: (key) => ("id" in key && key.id === FILE.id ? FILE : undefined),
  contract: () => undefined,
  execute: () => "never",
  executeGranted: (call) => {
    seen.push(call.args);
    return "read";
  },
});

/** Calls the granted tool with a path in a session that is denied something. */
async function granted(
  manifest: Partial<ExecutionGrant["manifest"]>,
  path: string,
  denied: SessionCreateRequest,
  plugins: readonly Plugin[] = [],
): Promise<readonly Json[]> {
  const seen: Json[] = [];
  const { pathArgs: _, ...unmarked } = FILE;
  const grant: ExecutionGrant = {
    manifest: { ...unmarked, ...manifest },
    contract: { inputSchema: { type: "object" } },
    sourceId: "plugins",
    binding: {},
  };
  const borrow = defineTool({
    name: "borrow",
    description: "Calls with a grant.",
    input: { type: "object" },
    execute: async (_args, { callTools }) =>
      (await callTools([{ name: "file", args: { path, other: path }, grant }])).length,
  });
  const world = await stage({
    plugins: [family, plugin("owner", { tools: files(seen) }), ...plugins],
    tools: [borrow],
    script: [callTool("borrow"), say("done")],
  });
  const from = await create(world, world.session, { sessionId: "c", ...denied });
  await play(from.turn("go"));
  return seen;
}

test("[PC5] a grant whose manifest does not say which arguments are paths gets past nothing", async () => {
  const denied = { paths: ["docs"] };
  expect(await granted({}, "private/key", denied)).toEqual([]);
  expect(await granted({ pathArgs: [] }, "private/key", denied)).toEqual([]);
  expect(await granted({ pathArgs: ["other"] }, "private/key", denied)).toEqual([]);
  expect(await granted({}, "docs/a", denied)).toHaveLength(1);
});

test("[PC6] a grant gets past neither hidden tools nor a list of tools, whatever name it gives", async () => {
  const listed = { toolAccess: { tools: ["borrow", "innocent"] } };
  expect(await granted({}, "a", { toolAccess: { hiddenTools: ["file"] } })).toEqual([]);
  expect(await granted({ name: "innocent" }, "a", { toolAccess: { hiddenTools: ["file"] } })).toEqual([]);
  expect(await granted({}, "a", listed)).toEqual([]);
  expect(await granted({ name: "innocent" }, "a", listed)).toEqual([]);
  expect(await granted({}, "a", { toolAccess: { tools: ["borrow", "file"] } })).toHaveLength(1);
});

test("[PC6] policies are asked about a granted call under the name of the tool", async () => {
  const rules = (file: "allow" | "deny"): readonly Plugin[] => [
    approvals({ rules: { borrow: "allow", file } }),
  ];
  expect(await granted({}, "a", {}, rules("deny"))).toEqual([]);
  expect(await granted({}, "a", {}, rules("allow"))).toHaveLength(1);
});

test.each<[readonly string[], string]>([
  [["docs"], "private/key"],
  [[], "docs/a"],
])(
  "[AU5] paths are stored with the child: after a restart one with %j still does not reach %s",
  async (paths, path) => {
    const file = database();
    const seen: Json[] = [];
    const options = {
      plugins: [family],
      tools: [
        defineTool({
          name: "read",
          description: "Reads.",
          input: { type: "object" },
          pathArgs: ["path"],
          execute: (args) => void seen.push(args as Json),
        }),
      ],
      script: [callTool("read", { path }), say("done")],
    };
    const first = await live({ ...options, store: sqliteStore({ path: file }), script: [] });
    const made = await create(first, first.session, { sessionId: "c", paths });
    await made.close();
    await first.runtime.close();
    const { runtime } = await live({ ...options, store: sqliteStore({ path: file }) });
    const child = await runtime.session("c");
    expect(child.read().frames[0]?.assignment.authority.paths).toEqual(paths);
    const { report } = await play(child.turn("go"));
    expect(failureOf(report.toolCalls[0]?.output).code).toBe("path_denied");
    expect(seen).toEqual([]);
  },
);

// Large catalogs: what is offered, what is found, and what stays found.

import { defineTool, memoryStore, type ToolDefinition } from "marling";
import { type ToolDiscoveryOptions, toolDiscovery } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, type ScriptStep, say } from "marling/testing";
import { expect, test } from "vitest";
import { scoreTools, wordsOf } from "../../src/stock/tool-discovery/score-tools.ts";
import { database, type Life, live } from "../kernel/durable-support.ts";
import { offered } from "./stock-support.ts";

function tool(name: string, description: string): ToolDefinition {
  return defineTool({
    name,
    description,
    input: { type: "object" },
    replay: "safe",
    execute: () => `${name} ran`,
  }) as ToolDefinition;
}

const TOOLS = [
  tool("read_file", "Reads a file."),
  tool("mcp__github__create_issue", "Opens an issue in a repository."),
  tool("mcp__github__list_issues", "Lists the issues of a repository."),
  tool("mcp__mail__send", "Sends a message to somebody."),
  tool("weather_now", "Tells the weather of a place."),
  tool("weather_forecast", "Tells what the weather of a place will be."),
];

function begin(options: ToolDiscoveryOptions, script: readonly ScriptStep[], path?: string): Promise<Life> {
  const store = path === undefined ? memoryStore() : sqliteStore({ path });
  return live({ store, plugins: [toolDiscovery(options)], tools: TOOLS, script });
}

const names = (life: Life): readonly (readonly string[])[] =>
  life.model.requests.map((request) =>
    offered(request).filter((name) => name !== "batch" && name !== "search_tools"),
  );

test("[TDI1] tools beyond the count are not offered, and the prompt lists their groups", async () => {
  const life = await begin({ maxTools: 0, always: ["weather_n*", "read_file"] }, [say("ok")]);
  await life.session.turn("Go").result;
  expect(names(life)).toEqual([["read_file", "weather_now"]]);
  expect(offered(life.model.requests[0])).toContain("search_tools");
  expect(life.model.requests[0]?.system).toContain("- github: 2\n- mail: 1\n- weather: 1");
});

test("[TDI1] of those without a decision the first by name are offered, up to the count", async () => {
  const life = await begin({ maxTools: 2 }, [say("ok")]);
  await life.session.turn("Go").result;
  expect(names(life)).toEqual([["mcp__github__create_issue", "mcp__github__list_issues"]]);
});

test("[TDI1] a predicate names tools that are only found, however few there are", async () => {
  const life = await begin({ isSearchable: ({ name }) => name.startsWith("mcp__") }, [say("ok")]);
  await life.session.turn("Go").result;
  expect(names(life)).toEqual([["read_file", "weather_forecast", "weather_now"]]);
});

test("[TDI1] a catalog within the count is left alone, and nothing is said", async () => {
  const life = await begin({ maxTools: 6 }, [say("ok")]);
  await life.session.turn("Go").result;
  expect(names(life)[0]).toHaveLength(6);
  expect(life.model.requests[0]?.system).not.toContain("There are more tools");
});

test("[TDI2] what is found can be called in the same turn, and after a restart, and is not hidden again", async () => {
  const path = database();
  const options = { maxTools: 1, always: ["read_file"] };
  const first = await begin(
    options,
    [
      callTool("search_tools", { query: "list issues", limit: 1 }),
      callTool("mcp__github__list_issues"),
      say("ok"),
    ],
    path,
  );
  const { toolCalls } = await first.session.turn("Go").result;
  expect(toolCalls.map(({ output }) => output.outcome)).toMatchObject([
    {
      kind: "success",
      value: {
        searched: 5,
        tools: [{ name: "mcp__github__list_issues", description: "Lists the issues of a repository." }],
      },
    },
    { kind: "success", value: "mcp__github__list_issues ran" },
  ]);
  expect(names(first).map((each) => each.includes("mcp__github__list_issues"))).toEqual([false, true, true]);
  await first.runtime.close();
  const second = await begin(options, [say("a"), say("b")], path);
  await second.session.turn("Again").result;
  const fork = await second.runtime.sessions.fork("s", { as: "fork" });
  await fork.turn("Again").result;
  expect(names(second)).toEqual([
    ["mcp__github__create_issue", "mcp__github__list_issues", "read_file"],
    ["mcp__github__create_issue", "mcp__github__list_issues", "read_file"],
  ]);
});

test("a tool that was not found yet cannot be called", async () => {
  const life = await begin({ maxTools: 0 }, [callTool("weather_now"), say("ok")]);
  const { toolCalls } = await life.session.turn("Go").result;
  expect(toolCalls[0]?.output.outcome).toMatchObject({ kind: "failure" });
});

test("[TDI3] tools that the session does not have are not found", async () => {
  const life = await begin({ maxTools: 0 }, [callTool("search_tools", { query: "weather" }), say("ok")]);
  await life.session.tools.setMembership(["weather_now"], false);
  const { toolCalls } = await life.session.turn("Go").result;
  expect(toolCalls[0]?.output.outcome).toMatchObject({
    kind: "success",
    value: { tools: [{ name: "weather_forecast" }] },
  });
});

test("words are found in names, aliases and descriptions, names counting more", () => {
  const manifest = (name: string, description: string, aliases: readonly string[] = []) =>
    ({ id: name, name, description, discovery: { aliases } }) as const;
  const tools = [
    manifest("notes", "Reads the calendar of somebody."),
    manifest("calendar_read", "Reads entries."),
    manifest("agenda", "Shows what is on.", ["calendar"]),
    manifest("rm", "Removes a file."),
  ];
  const found = (query: string): readonly string[] => scoreTools(tools, query, 10).map(({ name }) => name);
  expect(found("calendar")).toEqual(["calendar_read", "agenda", "notes"]);
  expect(found("FILES")).toEqual(["rm"]);
  expect(found("nothing like it")).toEqual([]);
  expect(scoreTools(tools, "calendar", 1)).toHaveLength(1);
  expect(wordsOf("createPullRequest list_issues class")).toEqual([
    "create",
    "pull",
    "request",
    "list",
    "issue",
    "class",
  ]);
});

test("options that are not right are refused by name", () => {
  expect(() => toolDiscovery({ maxTools: -1 })).toThrow("maxTools: expected a whole number from 0, found -1");
});

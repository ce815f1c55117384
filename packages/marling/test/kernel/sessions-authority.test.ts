// Authority only narrows: what a session may not call, nothing below it can, on any path.

import { defineTool, type ExecutionGrant, type Plugin, type Session, type ToolProvider } from "marling";
import { callTool, type ScriptStep, say } from "marling/testing";
import { describe, expect, test } from "vitest";
import type { SessionCreateRequest } from "../../src/plugin/session-create.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { create, family } from "./sessions-support.ts";
import { codeProtocol } from "./tools-code-protocol.ts";
import {
  failureOf,
  outputsOf,
  type Played,
  play,
  plugin,
  type StageOptions,
  stage,
} from "./tools-support.ts";

const SECRET = { id: "secret-id", name: "secret", description: "Is secret." };
const CONTRACT = { inputSchema: { type: "object" } };
const GRANT: ExecutionGrant = { manifest: SECRET, contract: CONTRACT, sourceId: "plugins", binding: null };

/** Counts how often the secret was told, by whatever way. */
function keeper(told: string[]): Plugin {
  const tell = (): string => {
    told.push("told");
    return "told";
  };
  const provider: ToolProvider = {
    manifests: () => [SECRET],
    contract: () => CONTRACT,
    execute: tell,
    executeGranted: tell,
  };
  const caller = defineTool({
    name: "caller",
    description: "Calls the secret.",
    input: { type: "object" },
    execute: async ({ granted, disguised }, context) => {
      const grant = disguised === true ? { ...GRANT, manifest: { ...SECRET, name: "harmless" } } : GRANT;
      const replies = await context.callTools([
        { name: "secret", args: {}, ...(granted === true ? { grant } : {}) },
      ]);
      return replies.length;
    },
  });
  return plugin("keeper", { tools: [provider, caller] });
}

/** Ways to call the secret, by what the model says. */
const WAYS: Readonly<
  Record<string, { readonly script: ScriptStep; readonly isCode?: true; readonly name?: string }>
> = {
  "by name": { script: callTool("secret") },
  "in a batch": { script: callTool("batch", { calls: [{ tool: "secret" }] }) },
  "through a tool": { script: callTool("caller") },
  "with a grant": { script: callTool("caller", { granted: true }) },
  "with a grant under another name": {
    script: callTool("caller", { granted: true, disguised: true }),
    name: "harmless",
  },
  "from code": { script: say("run plain"), isCode: true },
  "from code with a grant": { script: say("run granted"), isCode: true },
};

const runCode: Plugin = codeProtocol(async (context, code) => {
  await context.callTools([
    { name: "secret", args: {}, ...(code === "run granted" ? { grant: GRANT } : {}) },
  ]);
  return {};
});

function options(told: string[], { script, isCode }: (typeof WAYS)[string]): StageOptions {
  return {
    plugins: [family, keeper(told), ...(isCode === true ? [runCode] : [])],
    script: [script, say("Done.")],
  };
}

describe.each(Object.entries(WAYS))("a hidden tool called %s", (_way, how) => {
  const name = how.name ?? "secret";
  const refused = (played: Played): void => {
    expect(outputsOf(played, name).map((output) => failureOf(output).code)).toEqual(["tool_unavailable"]);
  };

  test("[K79] is told where nothing is hidden", async () => {
    const told: string[] = [];
    const { session } = await stage(options(told, how));
    await play(session.turn("Tell"));
    expect(told).toEqual(["told"]);
  });

  test.each<[string, readonly SessionCreateRequest[]]>([
    ["a child", [{ toolAccess: { hiddenTools: ["secret"] } }]],
    [
      "a child with the history of its parent",
      [{ start: { kind: "current_session" }, toolAccess: { hiddenTools: ["secret"] } }],
    ],
    ["a child with fresh plugins", [{ plugins: "fresh", toolAccess: { hiddenTools: ["secret"] } }]],
    [
      "a grandchild that asks for it",
      [
        { toolAccess: { hiddenTools: ["secret"] } },
        { toolAccess: { tools: ["secret", "caller", "batch"], hiddenTools: [] } },
      ],
    ],
    ["a root made by a child", [{ toolAccess: { hiddenTools: ["secret"] } }, { relation: { kind: "root" } }]],
    [
      "a grandchild with the history of its parent",
      [{ toolAccess: { hiddenTools: ["secret"] } }, { start: { kind: "current_session" }, plugins: "fresh" }],
    ],
  ])("[K79] is refused in %s", async (_who, requests) => {
    const told: string[] = [];
    const on = await stage(options(told, how));
    let at: Session = on.session;
    for (const request of requests) at = await create(on, at, request);
    refused(await play(at.turn("Tell")));
    expect(told).toEqual([]);
  });

  test("[K79] is refused in a fork of the child, and when the child is opened again", async () => {
    const told: string[] = [];
    const store = memoryStore();
    const script = (): ScriptStep => how.script;
    const first = await stage({ ...options(told, how), store, script: [how.script, say("Done.")] });
    await create(first, first.session, { sessionId: "c", toolAccess: { hiddenTools: ["secret"] } });
    refused(await play((await first.runtime.sessions.fork("c", { as: "f" })).turn("Tell")));
    await first.runtime.close();
    const second = await stage({ ...options(told, how), store, script: [script(), say("Done.")] });
    refused(await play((await second.runtime.session("c")).turn("Tell")));
    expect(told).toEqual([]);
  });
});

describe("narrowing", () => {
  const TOOLS = ["a", "b", "c"].map((name) =>
    defineTool({ name, description: "Is there.", input: { type: "object" }, execute: () => name }),
  );
  const namesOf = (session: Session): readonly string[] => session.tools.list().map(({ name }) => name);

  test("[K79] a list of tools is met with the parent's; nothing in common is nothing", async () => {
    const on = await stage({ plugins: [family], tools: TOOLS });
    const child = await create(on, on.session, { toolAccess: { tools: ["b", "a"] } });
    expect(namesOf(child)).toEqual(["b", "a"]);
    expect(namesOf(await create(on, child, {}))).toEqual(["b", "a"]);
    expect(namesOf(await create(on, child, { toolAccess: { tools: ["c", "a"] } }))).toEqual(["a"]);
    expect(namesOf(await create(on, child, { toolAccess: { tools: ["c"] } }))).toEqual([]);
    expect(
      namesOf(
        await create(on, child, { toolAccess: { hiddenTools: ["a"] }, start: { kind: "current_session" } }),
      ),
    ).toEqual(["b"]);
  });

  test("[K79] a parent that is below the creator narrows too", async () => {
    const on = await stage({ plugins: [family], tools: TOOLS });
    await create(on, on.session, { sessionId: "narrow", toolAccess: { hiddenTools: ["a"] } });
    const adopted = await create(on, on.session, { relation: { kind: "child", parent: "narrow" } });
    expect(namesOf(adopted)).toEqual(["b", "batch", "c"]);
    expect(await adopted.query("family.who")).toMatchObject({ parent: "narrow", hidden: ["a"] });
  });

  test("[K79] depth only grows and its limit only falls", async () => {
    const on = await stage({ plugins: [family] });
    const subagent = (depth: number, maxDepth: number) => ({
      subagent: { parentSessionId: "s", capability: "x", depth, maxDepth },
    });
    const child = await create(on, on.session, subagent(1, 3));
    const grandchild = await create(on, child, subagent(0, 99));
    expect(await grandchild.query("family.who")).toMatchObject({ subagent: { depth: 2, maxDepth: 3 } });
    expect(await (await create(on, grandchild, {})).query("family.who")).toMatchObject({
      subagent: { depth: 3, maxDepth: 3 },
    });
  });

  test("[K79] hidden tools cannot be opted in, brought by a live provider or set visible", async () => {
    const on = await stage({
      plugins: [family],
      tools: TOOLS,
      script: [callTool("a"), callTool("d"), say("Done.")],
    });
    const child = await create(on, on.session, { toolAccess: { hiddenTools: ["a", "d"] } });
    await child.tools.setMembership(["a"], true);
    await child.tools.setAvailability(["a"], "showcased");
    child.tools.add({
      manifests: () => [{ id: "d", name: "d", description: "Comes later." }],
      contract: () => ({ inputSchema: {} }),
      execute: () => "d",
    });
    expect(namesOf(child)).toEqual(["b", "batch", "c"]);
    const { report } = await play(child.turn("Try"));
    expect(report.toolCalls.map(({ output }) => failureOf(output).code)).toEqual([
      "tool_unavailable",
      "tool_unavailable",
    ]);
  });

  test("[K85] contributors only take away, then the list, and authority is last", async () => {
    const removing = plugin("removing", {
      toolCatalog: ({ tools }) => [
        { remove: ["b"] },
        { remove: tools.filter(({ name }) => name === "batch").map(({ name }) => name) },
      ],
    });
    const seen: unknown[] = [];
    const watching = plugin("watching", {
      toolCatalog: ({ tools, toolAccess, sessionId }) => {
        seen.push([sessionId, tools.map(({ name }) => name), toolAccess.hiddenTools]);
        return undefined;
      },
    });
    const on = await stage({ plugins: [family, removing, watching], tools: TOOLS });
    const child = await create(on, on.session, { sessionId: "c", toolAccess: { hiddenTools: ["c"] } });
    const listed = await create(on, on.session, {
      sessionId: "l",
      toolAccess: { tools: ["c", "b", "a"], hiddenTools: ["a"] },
    });
    seen.length = 0;
    expect([on.session, child, listed].map(namesOf)).toEqual([["a", "c"], ["a"], ["c"]]);
    expect(on.session.tools.state().tools.b).toMatchObject({ manifest: { name: "b" } });
    // Contributors of every session are asked about its members, hidden ones not among them.
    expect(seen).toEqual([
      ["s", ["a", "b", "batch", "c"], []],
      ["c", ["a", "b", "batch"], ["c"]],
      ["l", ["b", "batch", "c"], ["a"]],
    ]);
  });

  test("[K85] a call of what a contributor took away is refused, on the model's path and inside a batch", async () => {
    const removing = plugin("removing", { toolCatalog: () => ({ remove: ["b"] }) });
    const { session } = await stage({
      plugins: [removing],
      tools: TOOLS,
      script: [callTool("b"), callTool("batch", { calls: [{ tool: "b" }, { tool: "a" }] }), say("Done.")],
    });
    const played = await play(session.turn("Try"));
    expect(outputsOf(played, "b").map((output) => failureOf(output).code)).toEqual([
      "tool_unavailable",
      "tool_unavailable",
    ]);
    expect(outputsOf(played, "a")).toHaveLength(1);
  });
});

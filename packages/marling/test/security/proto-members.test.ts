// Security rule 9: members named __proto__ are refused wherever JSON comes in, and nothing is polluted by one.

import { createRuntime, defineTool, type Runtime, type Session, type ToolContext } from "marling";
import { webhook } from "marling/plugins";
import { callTool, type ScriptStep, say, scriptedModel } from "marling/testing";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { plugin, rejectionOf, until } from "../kernel/tools-support.ts";

/** As it comes from a wire: an own member. */
const poisoned = (): never => JSON.parse('{"a":{"__proto__":{"polluted":true}}}') as never;

afterEach(() => {
  expect(({} as { readonly polluted?: unknown }).polluted).toBeUndefined();
});

interface Doors {
  readonly runtime: Runtime;
  readonly session: Session;
  readonly keys: readonly string[];
}

async function doors(script: readonly ScriptStep[] = []): Promise<Doors> {
  const keys: string[] = [];
  const returning = defineTool({
    name: "returning",
    description: "Returns what was on a wire.",
    input: { type: "object" },
    execute: () => poisoned(),
  });
  const later = defineTool({
    name: "later",
    description: "Answers later.",
    input: { type: "object" },
    execute: async (_input: unknown, context: ToolContext) => {
      keys.push(await context.completionKey());
      return context.pending();
    },
  });
  const open = plugin("open", {
    triggers: [{ resourceType: "open", alias: "door", event: "bell", payloadSchema: { type: "object" } }],
    operations: {
      queries: { "open.ask": { handler: () => poisoned() } },
      commands: {
        "open.echo": { session: "required", handler: () => ({ output: null }) },
        "open.append": {
          session: "required",
          handler: () => ({
            output: null,
            directives: [
              {
                kind: "append_nodes",
                nodes: [{ kind: "event", pluginId: "open", name: "x", payload: poisoned() }],
              },
            ],
          }),
        },
      },
    },
  });
  const runtime = createRuntime({
    model: scriptedModel([...script, say("Done."), say("Done.")]),
    tools: [returning, later],
    plugins: [open],
  });
  onTestFinished(() => runtime.close());
  return { runtime, session: await runtime.session("s"), keys };
}

test.each<readonly [string, (doors: Doors) => Promise<unknown>]>([
  ["options of plugins", ({ runtime }) => runtime.session("t", { plugins: poisoned() })],
  ["a turn's input", ({ session }) => session.turn({ text: "Hi", data: poisoned() } as never).result],
  [
    "a turn's schema",
    ({ session }) => session.run("Hi", { output: { type: "object", properties: poisoned() } }),
  ],
  ["arguments of a command", ({ session }) => session.command("open.echo", poisoned())],
  ["the answer of a query", ({ session }) => session.query("open.ask", {})],
  ["nodes of a directive", ({ session }) => session.command("open.append", {})],
  [
    "the payload of a trigger",
    ({ runtime }) => runtime.triggers.emit({ source: "door.bell", key: "k", payload: poisoned() }),
  ],
])("%s are refused", async (_what, door) => {
  const error = await rejectionOf(door(await doors()));
  expect(error.message).toContain("__proto__");
});

test("arguments of a call, as a model wrote them, never reach the tool", async () => {
  const { session } = await doors([callTool("later", poisoned())]);
  const { toolCalls, text } = await session.turn("Go").result;
  expect(toolCalls[0]?.output.outcome).toMatchObject({ kind: "failure", code: "invalid_tool_args" });
  expect(text).toBe("Done.");
});

test("what a tool returns is a failed call", async () => {
  const { session } = await doors([callTool("returning", {})]);
  const { toolCalls } = await session.turn("Go").result;
  expect(toolCalls[0]?.output.outcome).toMatchObject({ kind: "failure", code: "invalid_tool_output" });
});

test("a value for a call that waits is refused, and the call goes on waiting", async () => {
  const { session, runtime, keys } = await doors([callTool("later", {})]);
  const turn = session.turn("Go");
  await until(() => keys.length === 1);
  expect((await rejectionOf(runtime.resolve(keys[0] ?? "", { ok: poisoned() }))).code).toBe("invalid_json");
  expect(await runtime.resolve(keys[0] ?? "", { ok: "fine" })).toBe("resolved");
  expect((await turn.result).text).toBe("Done.");
});

test("a webhook answers 400 to such a body", async () => {
  const { runtime } = await doors();
  const receive = webhook({ triggers: runtime.triggers, source: "door.bell" });
  const answer = await receive({ headers: {}, body: '{"__proto__":{"polluted":true}}' });
  expect(answer.status).toBe(400);
});

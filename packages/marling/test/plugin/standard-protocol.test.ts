// The standard protocol as a plugin, and its batch tool.

import { expect, test } from "vitest";
import { isToolOutput, type ToolOutput, toolFailure, toolSuccess } from "../../src/model/tool-output.ts";
import { attachment } from "../../src/model/tool-value.ts";
import { hostView } from "../../src/plugin/host-services.ts";
import { createPluginHost } from "../../src/plugin/plugin-host.ts";
import type { NestedCall, NestedReply, ToolContext } from "../../src/tool/contract.ts";
import { defineTool } from "../../src/tool/define-tool.ts";
import { plugin, sessionOf } from "./samples.ts";

const add = defineTool({ name: "add", description: "Adds.", input: { type: "object" }, execute: () => 3 });
const withAdd = plugin("tools", { tools: [add] });

/** A tool context that answers nested calls from a table; a tool that is not in it is unavailable. */
function context(answers: Readonly<Record<string, ToolOutput>>, asked: NestedCall[] = []): ToolContext {
  return {
    sessionId: "s",
    turnId: "t",
    callId: "parent",
    frameId: "f",
    attempt: 1,
    maxAttempts: 1,
    signal: new AbortController().signal,
    idempotencyKey: "k",
    progress: () => {},
    completionKey: async () => "key",
    pending: () => {
      throw new Error("not here");
    },
    host: hostView({}, "tool"),
    directCompletion: () => Promise.reject(new Error("not here")),
    callTools: async (calls) => {
      asked.push(...calls);
      return calls.map(
        ({ name, id }): NestedReply => ({
          callId: `parent:${id}`,
          name,
          args: {},
          output: answers[name] ?? toolFailure({ code: "tool_unavailable", message: `No tool ${name}.` }),
          durationMs: 12,
        }),
      );
    },
    attachments: {
      put: async () => {
        throw new Error("not here");
      },
    },
  };
}

async function runBatch(args: unknown, ctx: ToolContext): Promise<ToolOutput> {
  const session = sessionOf([withAdd]);
  const call = { toolId: "batch", name: "batch", callId: "parent", args: args as never, input: args };
  const output = await session.toolRegistry.execute(call, ctx);
  if (!isToolOutput(output)) throw new Error("expected an output");
  return output;
}

test("[BT1] batch is orchestrating and takes 1 to 25 calls", async () => {
  const session = sessionOf([withAdd]);
  expect(session.toolRegistry.resolve({ name: "batch" })?.isOrchestrating).toBe(true);
  const validator = session.toolRegistry.validator("batch");
  const calls = (count: number) => ({
    calls: Array.from({ length: count }, () => ({ tool: "add", args: {} })),
  });
  const verdicts = [0, 1, 25, 26].map(async (count) => (await validator?.validate(calls(count)))?.ok);
  expect(await Promise.all(verdicts)).toEqual([false, true, true, false]);
  expect((await validator?.validate({ calls: [{ tool: "add", arguments: {} }] }))?.ok).toBe(false);
});

test("[BT2] results are in call order, with failures in their places; the batch succeeds", async () => {
  const asked: NestedCall[] = [];
  const output = await runBatch(
    {
      calls: [
        { tool: "add", args: { a: 1 } },
        { tool: "batch", args: {} },
        { tool: "gone" },
        { tool: "add" },
      ],
    },
    context({ add: toolSuccess({ sum: 3 }) }, asked),
  );
  expect(asked).toEqual([
    { name: "add", args: { a: 1 }, id: "00" },
    { name: "gone", args: {}, id: "02" },
    { name: "add", args: {}, id: "03" },
  ]);
  expect(output.outcome).toEqual({
    kind: "success",
    value: {
      results: [
        { index: 0, tool: "add", success: true, durationMs: 12, result: { sum: 3 } },
        {
          index: 1,
          tool: "batch",
          success: false,
          durationMs: 0,
          error: "A batch cannot be called inside a batch.",
        },
        { index: 2, tool: "gone", success: false, durationMs: 12, error: "No tool gone." },
        { index: 3, tool: "add", success: true, durationMs: 12, result: { sum: 3 } },
      ],
    },
  });
});

test("[BT2] an attachment of a call is an attachment of the batch, and a look-alike stays what it is", async () => {
  const source = { kind: "external_url", mediaType: "image/png", url: "https://example.org/a.png" } as const;
  const output = await runBatch(
    { calls: [{ tool: "draw" }, { tool: "odd" }] },
    context({ draw: toolSuccess([attachment(source)]), odd: toolSuccess({ $marling: "attachment" }) }),
  );
  const [drawn, odd] = (output.outcome as unknown as { value: { results: { result: unknown }[] } }).value
    .results;
  expect(drawn?.result).toEqual([{ $marling: "attachment", source }]);
  expect(odd?.result).toEqual({ $marling: "object", entries: { $marling: "attachment" } });
});

test("[SP2] batch is always a member, and told to the model only beside other tools", () => {
  const alone = sessionOf([]);
  expect(alone.toolRegistry.has("batch")).toBe(true);
  expect(alone.resolveToolCatalog().names).toEqual([]);
  expect(sessionOf([withAdd]).resolveToolCatalog().names).toEqual(["add", "batch"]);
});

test("[SP3] the preamble has the standard driver, looks at its environment every round, and says how to work", () => {
  const session = sessionOf([withAdd]);
  const { extensions, triggers } = session;
  const input = {
    toolCatalog: session.resolveToolCatalog(),
    extensions,
    triggers,
    extraPromptContributions: [],
  };
  const preamble = session.protocolDriver.buildPreamble(input);
  expect(preamble.syncsEnvironment).toBe(true);
  expect(preamble.executionPrompt).toContain("tool");
  expect(preamble.driver.prepareRound({} as never)).toEqual([{ kind: "start_model" }]);
  expect(session.protocolDriver.buildPreamble(input).driver).toBe(preamble.driver);
  const bare = sessionOf([]);
  expect(
    bare.protocolDriver.buildPreamble({ ...input, toolCatalog: bare.resolveToolCatalog() }).executionPrompt,
  ).toBe("");
});

test("[SP1] the protocol that a host adds is no part of snapshots and fingerprints", () => {
  const session = sessionOf([plugin("mock")]);
  expect(Object.keys(session.snapshot().plugins)).toEqual(["mock"]);
  expect(session.snapshotRevisionFingerprint()).toBe(12947519456488543755n);
});

test("[TC1] contributors and the overlay take tools away, authority comes last", () => {
  const tool = (name: string) =>
    defineTool({ name, description: name, input: { type: "object" }, execute: () => 1 });
  const host = createPluginHost([
    plugin("tools", { tools: ["a", "b", "c", "d", "e"].map(tool) }),
    plugin("x", { toolCatalog: ({ tools }) => ({ remove: tools.slice(0, 1).map(({ name }) => name) }) }),
    plugin("y", { toolCatalog: [() => undefined, () => [{ remove: ["b"] }]] }),
  ]);
  const session = host.buildSession("s", {
    overlay: { remove: ["c"] },
    authority: { toolAccess: { hiddenTools: ["d"] } },
  });
  expect(session.resolveToolCatalog().names).toEqual(["batch", "e"]);
});

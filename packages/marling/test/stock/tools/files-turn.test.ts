// The tools in turns of a real runtime.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRuntime, type Session, type ToolOutput } from "marling";
import { callTools, type ScriptedModel, say, scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { applyPatchTool } from "../../../src/stock/tools/apply-patch/apply-patch.ts";
import { fileTools } from "../../../src/stock/tools/files/file-tools.ts";
import { fileBench } from "./file-bench.ts";

type Call = readonly [name: string, args: object];

async function sessionOf(
  root: string,
  calls: readonly Call[],
): Promise<{ readonly session: Session; readonly model: ScriptedModel }> {
  const model = scriptedModel(({ messages }) =>
    messages.at(-1)?.role === "user" ? callTools(calls) : say("Done."),
  );
  const runtime = createRuntime({ model, tools: [...fileTools({ root }), applyPatchTool({ root })] });
  onTestFinished(() => runtime.close());
  return { session: await runtime.session("s"), model };
}

async function outputsOf(root: string, ...calls: readonly Call[]): Promise<readonly ToolOutput["outcome"][]> {
  const { session } = await sessionOf(root, calls);
  const { toolCalls } = await session.turn("Go").result;
  return toolCalls.map(({ output }) => output.outcome);
}

test("[FT10] calls of one message that write follow each other, in order", async () => {
  const { root } = fileBench();
  const outcomes = await outputsOf(
    root,
    ["write_file", { path: "a.txt", content: "one\n" }],
    ["edit_file", { path: "a.txt", oldText: "one", newText: "two" }],
    ["apply_patch", { patch: "*** Begin Patch\n*** Update File: a.txt\n-two\n+three\n*** End Patch" }],
  );
  expect(outcomes.map(({ kind }) => kind)).toEqual(["success", "success", "success"]);
  expect(readFileSync(join(root, "a.txt"), "utf8")).toBe("three\n");
});

test("[FT14] an image that the model reads is stored by the runtime and referred to", async () => {
  const { root } = fileBench();
  writeFileSync(join(root, "a.png"), Buffer.from("89504e470d0a1a0a00", "hex"));
  expect(await outputsOf(root, ["read_file", { path: "a.png" }])).toMatchObject([
    {
      kind: "success",
      value: {
        path: "a.png",
        image: { $marling: "attachment", source: { kind: "stored", mediaType: "image/png", bytes: 9 } },
      },
    },
  ]);
});

test("[FT1] a refusal is a failed call that the model reads, and the turn goes on", async () => {
  const { root } = fileBench();
  const { session } = await sessionOf(root, [["read_file", { path: "../outside/secret.txt" }]]);
  const { outcome, toolCalls } = await session.turn("Go").result;
  expect(outcome.kind).toBe("finished");
  expect(toolCalls[0]?.output.outcome).toMatchObject({
    kind: "failure",
    code: "path_outside_root",
    class: "permission_denied",
    retry: { kind: "never" },
  });
});

test("[FT8] arguments that do not fit never reach a tool", async () => {
  const { root } = fileBench();
  const outcomes = await outputsOf(
    root,
    ["read_file", { path: 5 }],
    ["read_file", { path: "a", offset: 0 }],
    ["grep", { pattern: "x", context: 21 }],
    ["write_file", { path: "a", content: "x", mode: 511 }],
  );
  expect(outcomes.map((one) => (one.kind === "failure" ? one.code : one.kind))).toEqual([
    "invalid_tool_args",
    "invalid_tool_args",
    "invalid_tool_args",
    "invalid_tool_args",
  ]);
});

test("[FT26] cancelling a turn ends a search that would take for ever", async () => {
  const { root } = fileBench();
  writeFileSync(join(root, "a.txt"), `${"a".repeat(5_000)}!`);
  const { session } = await sessionOf(root, [["grep", { pattern: "(a+)+$" }]]);
  const controller = new AbortController();
  const turn = session.turn("Go", { signal: controller.signal });
  for await (const event of turn) if (event.kind === "tool_started") controller.abort();
  const { outcome, toolCalls } = await turn.result;
  expect(outcome).toMatchObject({ kind: "stopped", reason: "cancelled" });
  expect(toolCalls.map(({ output }) => output.outcome.kind)).toEqual(["cancelled"]);
});

// Turns that go round in circles.

import { defineTool, type JsonObject, memoryStore, type ToolDefinition, toolFailure } from "marling";
import { loopGuard } from "marling/plugins";
import { callTool, type ScriptStep, say } from "marling/testing";
import { expect, test } from "vitest";
import { live } from "../kernel/durable-support.ts";
import { offered, spoken } from "./stock-support.ts";

const failing = defineTool({
  name: "fetch",
  description: "Fails.",
  input: { type: "object" },
  execute: (args: JsonObject) =>
    args.ok === true ? "fine" : toolFailure({ code: "gone", message: "It is gone." }),
}) as ToolDefinition;

test("[LG1] a call that keeps failing is warned about once, and then ends the turn with its history", async () => {
  const { session, model } = await live({
    store: memoryStore(),
    plugins: [loopGuard({ maxFailures: 3 })],
    tools: [failing],
    script: () => callTool("fetch", { url: "x" }),
  });
  const { outcome, toolCalls } = await session.turn("Go").result;
  expect(outcome).toMatchObject({
    kind: "stopped",
    reason: "tool_error",
    message: "The call of fetch failed 3 times with the same arguments, the last time with gone: It is gone.",
  });
  expect(toolCalls).toHaveLength(3);
  const warned = model.requests.map((request) =>
    spoken(request).some((line) => line.includes("keeps failing")),
  );
  expect(warned).toEqual([false, false, true]);
  expect(session.read().messages.filter(({ role }) => role === "tool")).toHaveLength(3);
});

test("[LG1] other arguments, success and other turns do not add up", async () => {
  const calls: readonly JsonObject[] = [{ url: "x" }, { url: "y" }, { ok: true }, { ok: true }, { ok: true }];
  const script: readonly ScriptStep[] = [...calls.map((args) => callTool("fetch", args)), say("ok")];
  const { session } = await live({
    store: memoryStore(),
    plugins: [loopGuard({ maxFailures: 2 })],
    tools: [failing],
    script: [...script, ...script],
  });
  for (const text of ["one", "two"]) {
    expect((await session.turn(text).result).outcome).toMatchObject({ kind: "finished" });
  }
});

test("[LG2] from a round on the model has to answer", async () => {
  const { session, model } = await live({
    store: memoryStore(),
    plugins: [loopGuard({ answerFromRound: 2 })],
    tools: [failing],
    script: ({ toolChoice }) => (toolChoice === "none" ? say("enough") : callTool("fetch", { ok: true })),
  });
  expect((await session.turn("Go").result).text).toBe("enough");
  expect(model.requests.map(({ toolChoice }) => toolChoice)).toEqual(["auto", "auto", "none"]);
  expect(offered(model.requests[2])).toContain("fetch");
});

// The scripted model: testing/scripted-model.ts, rules SM1-SM3.

import { createRuntime, defineTool } from "marling";
import { callTool, callTools, failWith, say, scriptedModel } from "marling/testing";
import { expect, test } from "vitest";

const echo = defineTool({
  name: "echo",
  description: "Echoes.",
  input: { type: "object" },
  execute: (args) => args,
});

test("[SM1] steps answer model calls in order, and a function answers by the request", async () => {
  const model = scriptedModel([say("one"), ({ messages }) => say(`you sent ${messages.length} messages`)]);
  const session = await createRuntime({ model }).session("s");
  expect((await session.run("a")).text).toBe("one");
  expect((await session.run("b")).text).toBe("you sent 3 messages");
});

test("[SM1] one function answers everything", async () => {
  const model = scriptedModel((request) => say(String(request.messages.length)));
  const session = await createRuntime({ model }).session("s");
  expect((await session.run("a")).text).toBe("1");
  expect((await session.run("b")).text).toBe("3");
});

test("[SM1] running past the script stops the turn with an error that says so", async () => {
  const session = await createRuntime({ model: scriptedModel([say("only one")]) }).session("s");
  await session.run("a");
  const { outcome } = await session.turn("b").result;
  expect(outcome).toMatchObject({ kind: "stopped", reason: "provider_error", code: "script_exhausted" });
  expect(JSON.stringify(outcome)).toContain("the script has no step for model call 2");
});

test("[SM1] each chunk is one text delta; a text without chunks is one", async () => {
  const model = scriptedModel([say("hello", { chunks: ["he", "l", "lo"] }), say("whole")]);
  const session = await createRuntime({ model }).session("s");
  expect(await deltas(session.turn("a"))).toEqual(["he", "l", "lo"]);
  expect(await deltas(session.turn("b"))).toEqual(["whole"]);
});

test("[SM2] call ids go on with the conversation, in every session of one script", async () => {
  const model = scriptedModel(({ messages }) =>
    messages.at(-1)?.role === "tool"
      ? say("done")
      : callTools([
          ["echo", { n: 1 }],
          ["echo", { n: 2 }],
        ]),
  );
  const runtime = createRuntime({ model, tools: [echo] });
  const ids = async (id: string, turns: number): Promise<readonly string[]> => {
    const session = await runtime.session(id);
    const seen: string[] = [];
    for (let turn = 0; turn < turns; turn += 1)
      seen.push(...(await session.run("go")).report.toolCalls.map(({ callId }) => callId));
    return seen;
  };
  expect(await ids("first", 2)).toEqual(["call_1", "call_2", "call_3", "call_4"]);
  expect(await ids("second", 1)).toEqual(["call_1", "call_2"]);
});

test("[SM3] requests are copies: messages with role and parts, tools and the system prompt apart", async () => {
  const model = scriptedModel([
    callTools([
      ["echo", { n: 1 }],
      ["echo", { n: 2 }],
    ]),
    say("done"),
  ]);
  const session = await createRuntime({ model, tools: [echo], instructions: "Be brief." }).session("s");
  await session.run("go");
  expect(model.requests).toHaveLength(2);
  const [first, second] = model.requests;
  expect(first?.messages).toEqual([{ role: "user", parts: [{ kind: "text", text: "go" }] }]);
  expect(first?.system).toContain("Be brief.");
  expect(first?.tools.map(({ name }) => name)).toContain("echo");
  expect(second?.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
  expect(second?.messages[2]?.parts.map((part) => part.kind)).toEqual(["tool_result", "tool_result"]);
  expect(JSON.parse(JSON.stringify(model.requests))).toEqual(model.requests);
});

test("usage, reasoning and failures are those of the step", async () => {
  const model = scriptedModel([
    failWith({ kind: "auth", message: "no key" }),
    say("fine", { usage: { input: 7, output: 3 }, reasoning: "hm" }),
  ]);
  const session = await createRuntime({ model }).session("s");
  expect((await session.turn("a").result).outcome).toEqual({
    kind: "stopped",
    reason: "provider_error",
    code: "auth",
    message: "no key",
  });
  const { report } = await session.run("b");
  expect(report.usage).toEqual({ input: 7, output: 3, cacheRead: 0, cacheWrite: 0, reasoning: 0 });
  expect(report.modelCalls).toMatchObject([{ outcome: "completed", finish: "stop" }]);
});

test("arguments that are a string are sent as they are, JSON or not", async () => {
  const model = scriptedModel([callTool("echo", "{ not json"), say("done")]);
  const session = await createRuntime({ model, tools: [echo] }).session("s");
  const { report } = await session.run("go");
  expect(report.toolCalls[0]?.output.outcome).toMatchObject({ kind: "failure", code: "invalid_tool_args" });
});

async function deltas(turn: AsyncIterable<{ kind: string }>): Promise<readonly string[]> {
  const texts: string[] = [];
  for await (const event of turn)
    if (event.kind === "text_delta") texts.push((event as unknown as { text: string }).text);
  return texts;
}

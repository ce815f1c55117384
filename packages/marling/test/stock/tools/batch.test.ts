// `batch` is part of the standard protocol: it is there without being asked for, and runs stock tools as any others.

import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { ask } from "../../../src/stock/tools/ask/ask.ts";
import { llmQueryTool } from "../../../src/stock/tools/llm-query/llm-query-tool.ts";
import { shell } from "../../../src/stock/tools/shell/shell.ts";
import { webFetchTool } from "../../../src/stock/tools/web-fetch/web-fetch-tool.ts";
import { stage, successOf } from "../../kernel/tools-support.ts";
import { bench, until } from "./tool-bench.ts";
import { pages } from "./web-fetch-server.ts";

test("[BT2] stock tools in a batch run at once, and their results are in call order", async () => {
  const server = await pages({ "/": { body: "page" } });
  const desk = await bench({
    tools: [webFetchTool({ allow: [server.host] })],
    plugins: [shell({ ask: "never" })],
  });
  const calls = [
    { tool: "shell", args: { command: "sleep 0.2; echo one" } },
    { tool: "web_fetch", args: { url: server.url() } },
    { tool: "web_fetch", args: { url: "http://10.0.0.1/" } },
  ];
  const { results } = await desk.value<{ readonly results: readonly object[] }>("batch", { calls });
  expect(results).toMatchObject([
    { index: 0, tool: "shell", success: true, result: { exitCode: 0, output: "one\n" } },
    { index: 1, tool: "web_fetch", success: true, result: { status: 200, text: "page" } },
    { index: 2, tool: "web_fetch", success: false, error: expect.stringContaining("which is private") },
  ]);
});

test("[BT2] a question in a batch is answered like any other", async () => {
  const keys: string[] = [];
  const { runtime, session } = await stage({
    plugins: [ask({ onQuestion: ({ key }) => void keys.push(key) })],
    tools: [llmQueryTool()],
    script: ({ tools, messages }) => {
      if (tools.length === 0) return say("Because.");
      if (messages.at(-1)?.role !== "user") return say("Done.");
      const calls = [
        { tool: "ask", args: { question: "Which?" } },
        { tool: "llm_query", args: { prompt: "Why?" } },
      ];
      return callTool("batch", { calls });
    },
  });
  const turn = session.turn("Go");
  await until(() => keys.length === 1);
  await runtime.resolve(keys[0] ?? "", { ok: "Blue" });
  expect(successOf((await turn.result).toolCalls[0]?.output)).toMatchObject({
    results: [
      { tool: "ask", success: true, result: "Blue" },
      { tool: "llm_query", success: true, result: { answer: "Because." } },
    ],
  });
});

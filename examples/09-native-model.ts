import { createServer, type Server } from "node:http";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createRuntime } from "marling";
import { modelFetch, openaiModel } from "marling/models";

// #region native
/** Any server that speaks Chat Completions: Ollama, LM Studio, vLLM, a gateway. OpenAI's own without a `baseUrl`. */
export async function askLocal(baseUrl: string): Promise<{ text: string; tokens: number }> {
  const model = openaiModel({ model: "small", baseUrl, contextWindow: 32_000 });
  await using runtime = createRuntime({ model, instructions: "Answer briefly." });
  const session = await runtime.session("local");
  const { text, report } = await session.run("What is a marling hitch?");
  return { text, tokens: report.usage.input + report.usage.output };
}
// #endregion

// #region fetch
/** A provider of the AI SDK whose requests go over marling's connections. */
export async function askThroughProvider(baseURL: string): Promise<string> {
  const local = createOpenAICompatible({ name: "local", baseURL, fetch: modelFetch() });
  await using runtime = createRuntime({ model: local("small"), instructions: "Answer briefly." });
  const session = await runtime.session("provider");
  return (await session.run("What is a marling hitch?")).text;
}
// #endregion

/** A server of one answer, so that the lesson needs no network. */
export async function tinyServer(words: readonly string[]): Promise<{ server: Server; baseUrl: string }> {
  const event = (value: object): string =>
    `data: ${JSON.stringify({ id: "chat-1", model: "small", ...value })}\n\n`;
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const content of words) response.write(event({ choices: [{ index: 0, delta: { content } }] }));
    response.write(event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }));
    response.write(event({ choices: [], usage: { prompt_tokens: 20, completion_tokens: 6 } }));
    response.end("data: [DONE]\n\n");
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return { server, baseUrl: `http://127.0.0.1:${port}/v1` };
}

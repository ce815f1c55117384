// A server on this machine that speaks the two wires of the native models, with answers by script.

import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export type Answer =
  | { readonly text: string }
  | { readonly call: { readonly name: string; readonly args: object } };

export interface Seen {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly apiKey: string | undefined;
  readonly body: {
    readonly model?: string;
    readonly messages?: readonly unknown[];
    readonly tools?: unknown;
  };
}

export interface ModelServer {
  readonly url: string;
  readonly seen: Seen[];
  close(): Promise<void>;
}

export async function startModelServer(answers: readonly Answer[]): Promise<ModelServer> {
  const seen: Seen[] = [];
  const left = [...answers];
  const server: Server = createServer((request, response) => {
    readBody(request).then(
      (text) => {
        const path = request.url ?? "";
        const key = request.headers["x-api-key"];
        seen.push({
          path,
          authorization: request.headers.authorization,
          apiKey: typeof key === "string" ? key : undefined,
          body: text === "" ? {} : JSON.parse(text),
        });
        if (path.endsWith("/models")) {
          response.setHeader("content-type", "application/json");
          return response.end(JSON.stringify({ data: [{ id: "local-model" }] }));
        }
        const answer = left.shift() ?? { text: "(the script is over)" };
        response.setHeader("content-type", "text/event-stream");
        return response.end(path.endsWith("/messages") ? anthropicEvents(answer) : chatEvents(answer));
      },
      () => response.destroy(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    seen,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

function chatEvents(answer: Answer): string {
  const chunk = (delta: object, finish: string | null): string =>
    data({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] });
  const usage = data({ id: "c", choices: [], usage: { prompt_tokens: 20, completion_tokens: 5 } });
  if ("text" in answer)
    return `${chunk({ role: "assistant", content: answer.text }, null)}${chunk({}, "stop")}${usage}data: [DONE]\n\n`;
  const { name, args } = answer.call;
  const call = {
    index: 0,
    id: "call_1",
    type: "function",
    function: { name, arguments: JSON.stringify(args) },
  };
  return `${chunk({ role: "assistant", tool_calls: [call] }, null)}${chunk({}, "tool_calls")}${usage}data: [DONE]\n\n`;
}

function anthropicEvents(answer: Answer): string {
  const event = (value: { type: string }): string => `event: ${value.type}\n${data(value)}`;
  const text = "text" in answer ? answer.text : "";
  const events = [
    {
      type: "message_start",
      message: { id: "m", role: "assistant", usage: { input_tokens: 9, output_tokens: 1 } },
    },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 4 } },
    { type: "message_stop" },
  ];
  return events.map(event).join("");
}

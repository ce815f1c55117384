// The floor: fetch, parse the events, run the tools, keep the messages in an array. No framework and no store.

import { ADD, add, INSTRUCTIONS } from "../harness/tool.mjs";

export const about = { name: "raw fetch (floor)", keeps: "nothing", isFloor: true };

const TOOLS = [
  { type: "function", function: { name: ADD.name, description: ADD.description, parameters: ADD.schema } },
];

/** One model call; tells each delta and returns the assistant's message. */
export async function callModel({ url, model }, messages, onDelta) {
  const body = { model, stream: true, stream_options: { include_usage: true }, messages, tools: TOOLS };
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  const message = { role: "assistant", content: null };
  const decoder = new TextDecoder();
  let unread = "";
  for await (const bytes of response.body) {
    unread += decoder.decode(bytes, { stream: true });
    let start = 0;
    for (let end = unread.indexOf("\n\n"); end >= 0; end = unread.indexOf("\n\n", start)) {
      const data = unread.slice(start + 6, end);
      start = end + 2;
      if (data !== "[DONE]") take(message, JSON.parse(data).choices[0]?.delta, onDelta);
    }
    unread = unread.slice(start);
  }
  return message;
}

function take(message, delta, onDelta) {
  if (delta?.content) {
    message.content = (message.content ?? "") + delta.content;
    onDelta?.(delta.content);
  }
  for (const { index, id, function: part } of delta?.tool_calls ?? []) {
    message.tool_calls ??= [];
    message.tool_calls[index] ??= { id, type: "function", function: { name: part.name, arguments: "" } };
    message.tool_calls[index].function.arguments += part.arguments;
  }
}

export async function runCall({ id, function: { arguments: args } }) {
  return { role: "tool", tool_call_id: id, content: String(await add(JSON.parse(args))) };
}

export const systemMessage = { role: "system", content: INSTRUCTIONS };

export function connect(options) {
  return {
    open: async () => [systemMessage],
    async turn(messages, text, onDelta) {
      messages.push({ role: "user", content: text });
      for (;;) {
        const message = await callModel(options, messages, onDelta);
        messages.push(message);
        if (message.tool_calls === undefined) return message.content;
        messages.push(...(await Promise.all(message.tool_calls.map(runCall))));
      }
    },
    close: async () => {},
  };
}

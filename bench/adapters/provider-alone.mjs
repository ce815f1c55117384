// The AI SDK's OpenAI-compatible provider with a loop of our own around `doStream`: what the provider itself costs.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { ADD, add, INSTRUCTIONS } from "../harness/tool.mjs";

export const about = {
  name: "provider alone",
  package: "@ai-sdk/openai-compatible",
  keeps: "nothing",
  isFloor: true,
};

const TOOLS = [{ type: "function", name: ADD.name, description: ADD.description, inputSchema: ADD.schema }];

export function provider({ url, model, fetch }) {
  return createOpenAICompatible({
    name: "bench",
    baseURL: `${url}/v1`,
    apiKey: "none",
    includeUsage: true,
    fetch,
  })(model);
}

async function callProvider(model, prompt, onDelta) {
  const { stream } = await model.doStream({ prompt, tools: TOOLS, toolChoice: { type: "auto" } });
  const reader = stream.getReader();
  let text = "";
  const calls = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text, calls };
    if (value.type === "text-delta") {
      text += value.delta;
      onDelta?.(value.delta);
    } else if (value.type === "tool-call") calls.push(value);
    else if (value.type === "error") throw value.error;
  }
}

async function runCall({ toolCallId, toolName, input }) {
  const output = { type: "json", value: await add(JSON.parse(input)) };
  return { type: "tool-result", toolCallId, toolName, output };
}

export function connect(options) {
  const model = provider(options);
  return {
    open: async () => [{ role: "system", content: INSTRUCTIONS }],
    async turn(prompt, text, onDelta) {
      prompt.push({ role: "user", content: [{ type: "text", text }] });
      for (;;) {
        const answer = await callProvider(model, prompt, onDelta);
        const said = answer.text === "" ? [] : [{ type: "text", text: answer.text }];
        const asked = answer.calls.map(({ toolCallId, toolName, input }) => ({
          type: "tool-call",
          toolCallId,
          toolName,
          input: JSON.parse(input),
        }));
        prompt.push({ role: "assistant", content: [...said, ...asked] });
        if (asked.length === 0) return answer.text;
        prompt.push({ role: "tool", content: await Promise.all(answer.calls.map(runCall)) });
      }
    },
    close: async () => {},
  };
}

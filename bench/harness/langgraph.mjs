// What both LangGraph adapters share.

import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool } from "langchain";
import { z } from "zod";
import { ADD, add, INSTRUCTIONS } from "./tool.mjs";

export function connectGraph({ url, model }, { saver, close = () => {} }) {
  const schema = z.object({ a: z.number(), b: z.number() });
  const agent = createAgent({
    model: new ChatOpenAI({
      model,
      apiKey: "none",
      streaming: true,
      useResponsesApi: false,
      configuration: { baseURL: `${url}/v1` },
    }),
    tools: [tool((args) => add(args), { name: ADD.name, description: ADD.description, schema })],
    systemPrompt: INSTRUCTIONS,
    checkpointer: saver,
  });
  const run = async (id, input, onDelta) => {
    const config = { configurable: { thread_id: id }, streamMode: "messages", recursionLimit: 10_000 };
    let text = "";
    for await (const [chunk] of await agent.stream(input, config)) {
      if (chunk.getType() !== "ai" || chunk.content === "") continue;
      text += chunk.content;
      onDelta?.(chunk.content);
    }
    return text;
  };
  return {
    open: async (id) => id,
    reopen: async (id) => id,
    turn: (id, text, onDelta) => run(id, { messages: [{ role: "user", content: text }] }, onDelta),
    resume: (id, _text, onDelta) => run(id, null, onDelta), // Without an input a thread goes on from its checkpoint.
    close: async () => close(),
  };
}

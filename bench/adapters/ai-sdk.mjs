// The AI SDK's own tool loop. The caller keeps the messages; nothing is stored.

import { isStepCount, ToolLoopAgent, tool } from "ai";
import { z } from "zod";
import { ADD, add, INSTRUCTIONS } from "../harness/tool.mjs";
import { provider } from "./provider-alone.mjs";

export const about = { name: "ai-sdk", package: "ai", keeps: "nothing" };

export function agentOf(options) {
  const inputSchema = z.object({ a: z.number(), b: z.number() });
  return new ToolLoopAgent({
    model: provider(options),
    instructions: INSTRUCTIONS,
    tools: { add: tool({ description: ADD.description, inputSchema, execute: add }) },
    stopWhen: isStepCount(1_000),
  });
}

/** Runs a turn on a list of messages; returns its text and what it adds to the list. */
export async function runLoop(agent, messages, onDelta) {
  const run = await agent.stream({ messages });
  let text = "";
  for await (const delta of run.textStream) {
    text += delta;
    onDelta?.(delta);
  }
  return { text, added: await run.responseMessages };
}

export function connect(options) {
  const agent = agentOf(options);
  return {
    open: async () => [],
    async turn(messages, text, onDelta) {
      messages.push({ role: "user", content: text });
      const result = await runLoop(agent, messages, onDelta);
      messages.push(...result.added);
      return result.text;
    },
    close: async () => {},
  };
}

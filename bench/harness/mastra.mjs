// What both Mastra adapters share. Its memory sends ten messages unless told otherwise; here it sends all, as everybody does.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Mastra } from "@mastra/core";
import { Agent } from "@mastra/core/agent";
import { createDurableAgent } from "@mastra/core/agent/durable";
import { createTool } from "@mastra/core/tools";
import { LibSQLStore } from "@mastra/libsql";
import { Memory } from "@mastra/memory";
import { z } from "zod";
import { ADD, add, INSTRUCTIONS } from "./tool.mjs";

process.env.MASTRA_TELEMETRY_DISABLED = "1";

export async function connectMastra({ url, model, dir }, { isDurable }) {
  const provider = createOpenAICompatible({
    name: "bench",
    baseURL: `${url}/v1`,
    apiKey: "none",
    includeUsage: true,
  });
  const storage = new LibSQLStore({ id: "bench", url: `file:${dir}/mastra.db` });
  const inputSchema = z.object({ a: z.number(), b: z.number() });
  const tool = createTool({ id: ADD.name, description: ADD.description, inputSchema, execute: add });
  const plain = new Agent({
    id: "bench",
    name: "bench",
    instructions: INSTRUCTIONS,
    model: provider(model),
    tools: { add: tool },
    memory: new Memory({ options: { lastMessages: 1_000_000 } }),
  });
  const agent = isDurable ? createDurableAgent({ agent: plain, maxSteps: 1_000 }) : plain;
  const recovery = isDurable ? { recovery: { durableAgents: "auto" } } : {};
  new Mastra({ agents: { bench: agent }, storage, logger: false, ...recovery });
  await storage.init();
  const turn = async (id, text, onDelta) => {
    const started = await agent.stream(text, { memory: { thread: id, resource: "bench" }, maxSteps: 1_000 });
    return isDurable ? readDurable(started, onDelta) : readOutput(started, onDelta);
  };
  const recover = async (_id, _text, onDelta) => {
    const { runs } = await agent.listActiveRuns();
    if (runs.length === 0) throw new Error("expected a run that was left unfinished, found none");
    return readDurable(await agent.recover(runs[0].runId), onDelta);
  };
  return {
    open: async (id) => id,
    reopen: async (id) => id,
    turn,
    resume: isDurable ? recover : turn,
    close: async () => storage.close?.(),
  };
}

async function readDurable({ output, cleanup }, onDelta) {
  try {
    return await readOutput(output, onDelta);
  } finally {
    cleanup();
  }
}

async function readOutput(output, onDelta) {
  let text = "";
  for await (const delta of output.textStream) {
    text += delta;
    onDelta?.(delta);
  }
  const error = await output.error;
  if (error) throw error;
  return text;
}

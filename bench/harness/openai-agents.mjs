// What both adapters of the OpenAI Agents SDK share.

import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";
import { ADD, add, INSTRUCTIONS } from "./tool.mjs";

export function connectAgents({ url, model }, { sessionOf, close = () => {} }) {
  setTracingDisabled(true);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
  const parameters = z.object({ a: z.number(), b: z.number() });
  const execute = async (args) => String(await add(args));
  const agent = new Agent({
    name: "bench",
    instructions: INSTRUCTIONS,
    model: new OpenAIChatCompletionsModel(client, model),
    tools: [tool({ name: ADD.name, description: ADD.description, parameters, execute })],
  });
  const open = async (id) => sessionOf(id);
  const turn = async (session, text, onDelta) => {
    const running = await run(agent, text, { stream: true, session, maxTurns: 1_000 });
    let answer = "";
    for await (const delta of running.toTextStream()) {
      answer += delta;
      onDelta?.(delta);
    }
    await running.completed;
    return answer;
  };
  return { open, reopen: open, turn, resume: turn, close: async () => close() };
}

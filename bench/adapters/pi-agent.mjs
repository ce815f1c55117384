// pi's Agent: the transcript is in memory, nothing is stored.

import { Agent } from "@earendil-works/pi-agent-core";
import { piModels, piTool } from "../harness/pi.mjs";
import { INSTRUCTIONS } from "../harness/tool.mjs";

export const about = { name: "pi Agent", package: "@earendil-works/pi-agent-core", keeps: "nothing" };

export function connect(options) {
  const { models, model } = piModels(options);
  return {
    async open(id) {
      const watched = { text: "", onDelta: undefined };
      watched.agent = new Agent({
        initialState: { systemPrompt: INSTRUCTIONS, model, tools: [piTool()] },
        streamFn: models.streamSimple.bind(models),
        sessionId: id,
      });
      watched.agent.subscribe((event) => {
        const delta = event.type === "message_update" ? event.assistantMessageEvent : undefined;
        if (delta?.type !== "text_delta") return;
        watched.text += delta.delta;
        watched.onDelta?.(delta.delta);
      });
      return watched;
    },
    async turn(watched, text, onDelta) {
      Object.assign(watched, { text: "", onDelta });
      await watched.agent.prompt(text);
      const { errorMessage } = watched.agent.state;
      if (errorMessage) throw new Error(errorMessage);
      return watched.text;
    },
    close: async () => {},
  };
}

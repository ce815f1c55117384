// What the adapters of pi share: its models on our server, its tool, and its durable harness.

import { AgentHarness, BACKGROUND_CONTEXT } from "@earendil-works/pi-agent-core";
import { createModels, createProvider } from "@earendil-works/pi-ai";
import { openAICompletionsApi } from "@earendil-works/pi-ai/api/openai-completions.lazy";
import { ADD, add, INSTRUCTIONS } from "./tool.mjs";

export function piModels({ url, model }) {
  const baseUrl = `${url}/v1`;
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const limits = { contextWindow: 1_000_000_000, maxTokens: 32_000 };
  const kind = { api: "openai-completions", provider: "bench", baseUrl, reasoning: false, input: ["text"] };
  const models = createModels();
  models.setProvider(
    createProvider({
      id: "bench",
      name: "bench",
      baseUrl,
      auth: { apiKey: { name: "bench", resolve: async () => ({ auth: { apiKey: "none" } }) } },
      models: [{ id: model, name: model, ...kind, ...limits, cost }],
      api: openAICompletionsApi(),
    }),
  );
  return { models, model: models.getModel("bench", model) };
}

export function piTool(more = {}) {
  const { additionalProperties: _unused, ...parameters } = ADD.schema;
  return {
    name: ADD.name,
    label: ADD.name,
    description: ADD.description,
    parameters,
    execute: async (_id, args) => ({
      content: [{ type: "text", text: String(await add(args)) }],
      details: {},
    }),
    ...more,
  };
}

/** The harness on one of its repositories. A tool that says `safe` may be run again when its outcome is unknown. */
export function connectHarness(options, { repository, create }) {
  const { models, model } = piModels(options);
  const opened = [];
  const attach = async (session) => {
    const { harness } = await AgentHarness.create(
      {
        session,
        models,
        model,
        systemPrompt: INSTRUCTIONS,
        activeToolNames: [ADD.name],
        tools: [piTool({ replay: options.replay ?? "safe" })],
        compaction: { enabled: false, reserveTokens: 0, keepRecentTokens: 0 },
      },
      BACKGROUND_CONTEXT,
    );
    const watched = { harness, text: "", onDelta: undefined };
    watched.lane = await harness.lane("main", { createAt: null }, BACKGROUND_CONTEXT);
    harness.events.on("message_update", ({ event }) => {
      if (event.type !== "text_delta") return;
      watched.text += event.delta;
      watched.onDelta?.(event.delta);
    });
    opened.push(watched);
    return watched;
  };
  const settled = async (watched, onDelta, start) => {
    Object.assign(watched, { text: "", onDelta });
    const result = await start();
    if (!result.ok) throw new Error(`${result.error.name}: ${result.error.message}`);
    if (result.value.status !== "completed") throw new Error(JSON.stringify(result.value));
    return watched.text;
  };
  return {
    open: async (id) => attach(await create(repository, id)),
    async reopen(id) {
      const stored = await repository.list(undefined, BACKGROUND_CONTEXT);
      const known = stored.find((session) => session.id === id);
      return attach(await repository.open(known, BACKGROUND_CONTEXT));
    },
    turn: (watched, text, onDelta) =>
      settled(watched, onDelta, () => watched.lane.prompt(text, undefined, BACKGROUND_CONTEXT)),
    resume: (watched, _text, onDelta) =>
      settled(watched, onDelta, () => watched.lane.resume(BACKGROUND_CONTEXT)),
    async close() {
      for (const { harness } of opened) await harness.close(BACKGROUND_CONTEXT).catch(() => {});
      await repository.close(BACKGROUND_CONTEXT).catch(() => {});
    },
  };
}

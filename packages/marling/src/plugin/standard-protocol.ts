// The standard protocol as a plugin: native tool calls until the model answers with words.

import type { JsonObject } from "../model/json.ts";
import { standardDriver } from "../turn/protocols/standard.ts";
import { BATCH_TOOL, batchTool } from "./batch-tool.ts";
import { definePlugin } from "./define-plugin.ts";
import type { ToolCatalogContext, ToolCatalogContribution } from "./hook-context.ts";
import type { PluginDefinition } from "./plugin.ts";
import type { ProtocolBuildInput, ProtocolDriverFactory, TurnPreamble } from "./protocol.ts";

export const STANDARD_PROTOCOL = "standard_protocol";

const OPTIONS: JsonObject = Object.freeze({
  type: "object",
  properties: {
    batch: { type: "boolean", description: "Whether the batch tool is offered; by default it is." },
  },
  additionalProperties: false,
});

const EXECUTION_PROMPT = [
  "You work in rounds. In each round you either call tools or answer.",
  "Call a tool when you need what it gives; calls that do not depend on each other can be made in the same round.",
  "A failed call is reported to you: read the message, then correct the call, try another way, or say what is missing.",
  "When you have what you need, answer in plain words. An answer without a tool call ends the turn.",
].join("\n");

// All of it is the same for every session, so it is made once.
const PROTOCOL = Object.freeze({ session: Object.freeze({}), driver: standardDriverFactory() });
const BATCH = batchTool();

/** The plugin that is added when no other brings a protocol. Without tools the model is told of no `batch` either. */
export const standardProtocol: PluginDefinition<JsonObject> = definePlugin({
  id: STANDARD_PROTOCOL,
  options: OPTIONS,
  build({ options }) {
    const isOffered = (options as { readonly batch?: boolean }).batch !== false;
    return isOffered
      ? { protocol: PROTOCOL, tools: [BATCH], toolCatalog: hideLoneBatch }
      : { protocol: PROTOCOL };
  },
});

/** Builds the preamble of the standard protocol; the driver is the same for every turn. */
export function standardDriverFactory(): ProtocolDriverFactory {
  const driver = standardDriver();
  return Object.freeze({
    buildPreamble: ({ toolCatalog, extraPromptContributions }: ProtocolBuildInput): TurnPreamble =>
      Object.freeze({
        driver,
        syncsEnvironment: true,
        executionPrompt: toolCatalog.members.length === 0 ? "" : EXECUTION_PROMPT,
        promptContributions: extraPromptContributions,
      }),
  });
}

function hideLoneBatch({ tools }: ToolCatalogContext): ToolCatalogContribution | undefined {
  return tools.some(({ name }) => name !== BATCH_TOOL) ? undefined : { remove: [BATCH_TOOL] };
}

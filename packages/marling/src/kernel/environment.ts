// The environment of a round: the system prompt and the tools the model is told of.
// Within a turn it is made again only when the tools, a plugin's state or the overlay moved.

import type { ToolSpec } from "../llm/contract.ts";
import type { PromptContribution, PromptLayer } from "../model/prompt.ts";
import { DEFAULT_TEMPLATE } from "../prompt/render.ts";
import { resolveLayers } from "../prompt/resolve.ts";
import type { TurnRecord } from "../turn/effect.ts";
import type { ResidentSession } from "./resident-session.ts";
import { type TurnRun, viewOf } from "./turn-run.ts";

export interface Environment {
  readonly system: string;
  readonly tools: readonly ToolSpec[];
  /** What it was made from: the key of the catalog, which moves with tools, plugins and overlay. */
  readonly mark: string;
}

export async function makeEnvironment(turn: TurnRun, records: readonly TurnRecord[]): Promise<Environment> {
  const { session } = turn;
  const mark = session.catalogKey;
  if (turn.environment?.mark === mark) return turn.environment;
  const contributed = await session.plugins.collectPromptContributions({
    sessionId: session.id,
    state: viewOf(turn, records),
    protocolTurnOptions: session.frame.protocolOptions,
    turnContext: turn.context,
    host: session.host("prompt"),
  });
  return { system: renderSystem(session, contributed), tools: session.resolvedToolCatalog().specs(), mark };
}

function renderSystem(session: ResidentSession, contributed: readonly PromptContribution[]): string {
  const catalog = session.resolvedToolCatalog();
  const preamble = session.turnPreamble();
  const { policy } = session;
  const layers: readonly PromptLayer[] = [
    contributionLayer(preamble.promptContributions),
    contributionLayer([...session.contextPromptContributions, ...contributed]),
    instructionLayer(policy.instructions ?? session.parts.instructions),
    policy.prompt ?? {},
  ];
  const { template, contributions } = resolveLayers(layers, {
    template: DEFAULT_TEMPLATE,
    toolNames: catalog.names,
  });
  const { text } = session.promptCache.render({
    template,
    contributions,
    executionPrompt: preamble.executionPrompt,
    toolNames: catalog.names,
  });
  return text;
}

function contributionLayer(contributions: readonly PromptContribution[]): PromptLayer {
  const slots: {
    -readonly [S in keyof NonNullable<PromptLayer["slots"]>]: NonNullable<PromptLayer["slots"]>[S];
  } = {};
  for (const contribution of contributions) {
    slots[contribution.slot] = {
      contributions: [...(slots[contribution.slot]?.contributions ?? []), contribution],
    };
  }
  return { slots };
}

function instructionLayer(instructions: string | undefined): PromptLayer {
  if (instructions === undefined || instructions.trim() === "") return {};
  return {
    slots: {
      project_instructions: { contributions: [{ slot: "project_instructions", content: instructions }] },
    },
  };
}

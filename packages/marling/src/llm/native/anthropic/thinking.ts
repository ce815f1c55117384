// How much a model thinks, from the parameter `reasoning`.

import type { JsonObject } from "../../../model/json.ts";
import type { ClaudeModel } from "./claude-models.ts";

/** What a level comes to: the effort, and the share of the answer's limit that goes to thinking. */
const LEVELS: { readonly [level: string]: { readonly effort: string; readonly share: number } } = {
  minimal: { effort: "low", share: 0.05 },
  low: { effort: "low", share: 0.1 },
  medium: { effort: "medium", share: 0.3 },
  high: { effort: "high", share: 0.6 },
  xhigh: { effort: "max", share: 0.8 },
  max: { effort: "max", share: 0.9 },
};

/** The least that the provider takes. */
const LEAST_BUDGET = 1_024;

export interface Thinking {
  readonly thinking?: JsonObject;
  readonly effort?: string;
}

/** Nothing for a level that is not known, and for models that do not think. */
export function thinkingOf(
  level: string | undefined,
  model: ClaudeModel,
  maxTokens: number,
): Thinking | undefined {
  if (level === undefined) return {};
  if (level === "none") return { thinking: { type: "disabled" } };
  const known = Object.hasOwn(LEVELS, level) ? LEVELS[level] : undefined;
  if (known === undefined || model.thinking === "none") return undefined;
  if (model.thinking === "effort") return { thinking: { type: "adaptive" }, effort: known.effort };
  const budget = Math.max(LEAST_BUDGET, Math.floor(maxTokens * known.share));
  return budget < maxTokens ? { thinking: { type: "enabled", budget_tokens: budget } } : undefined;
}

// Update plan: a checklist that the model keeps, the user sees, and every later round is reminded of.
//   UP1  a plan is replaced as a whole; one with several steps in progress or a blank step is refused, and the old stands.
//   UP2  it is committed with the turn, shown in the prompt while a step is open, and told to watchers when it changes.

import {
  type Directive,
  type DurableState,
  definePlugin,
  defineTool,
  directive,
  type Json,
  type Plugin,
  type ToolDefinition,
  type ToolFailureInput,
  toolFailure,
} from "../../index.ts";
import type { ToolResultHookContext } from "../../plugin/index.ts";
import { aBoolean, aPositiveCount, aToolName, checkOptions } from "../check-options.ts";

export interface UpdatePlanOptions {
  /** How many steps a plan may have; 50 by default. */
  readonly maxSteps?: number;
  /** Whether child sessions have plans of their own; by default only the root has. */
  readonly inChildren?: boolean;
  readonly toolName?: string;
}

export type PlanStepStatus = "pending" | "in_progress" | "completed";

export interface PlanStep {
  readonly step: string;
  readonly status: PlanStepStatus;
}

/** The answer of the query `plan.current`, and the payload of the event `plan.updated`. */
export interface CurrentPlan {
  readonly steps: readonly PlanStep[];
}

const ID = "update_plan";
const EVENT = "plan.updated";
const STATUSES: readonly PlanStepStatus[] = ["pending", "in_progress", "completed"];
const MARKS: { readonly [S in PlanStepStatus]: string } = {
  pending: "[ ]",
  in_progress: "[>]",
  completed: "[x]",
};

/** Gives the model a tool to keep a plan with. */
export function updatePlan(options: UpdatePlanOptions = {}): Plugin {
  checkOptions(ID, options, { maxSteps: aPositiveCount, inChildren: aBoolean, toolName: aToolName });
  const { maxSteps = 50, inChildren = false, toolName = "update_plan" } = options;
  return definePlugin({
    id: ID,
    build(ctx) {
      const plan = ctx.durable<CurrentPlan>({ version: 1, initial: () => ({ steps: [] }), fork: "copy" });
      if (!ctx.isRoot && !inChildren) return {};
      return {
        tools: [planTool(toolName, { plan, maxSteps })],
        prompt: () => reminder(plan.get()),
        toolCalls: { after: (call) => told(call, toolName) },
        operations: { queries: { "plan.current": { handler: () => plan.get() } } },
      };
    },
  })();
}

function reminder({
  steps,
}: CurrentPlan): { slot: "runtime_context"; title: string; content: string } | undefined {
  if (steps.every(({ status }) => status === "completed")) return undefined;
  const content = steps
    .map(({ step, status }) => `${MARKS[status]} ${step.trim().replace(/\s+/g, " ")}`)
    .join("\n");
  return { slot: "runtime_context", title: "The current plan", content };
}

interface PlanToolParts {
  readonly plan: DurableState<CurrentPlan>;
  readonly maxSteps: number;
}

function planTool(name: string, { plan, maxSteps }: PlanToolParts): ToolDefinition {
  const step = {
    type: "object",
    required: ["step", "status"],
    additionalProperties: false,
    properties: {
      step: { type: "string", description: "What is to be done, in a few words." },
      status: { enum: [...STATUSES] as Json[] },
    },
  };
  return defineTool({
    name,
    description:
      "Writes down the plan for a longer task, all of its steps in order, in the place of the plan before. Call it again whenever a step begins or ends; at most one step is in progress.",
    replay: "safe",
    input: {
      type: "object",
      required: ["steps"],
      additionalProperties: false,
      properties: { steps: { type: "array", minItems: 1, maxItems: maxSteps, items: step } },
    },
    execute: (raw) => {
      const { steps } = raw as unknown as CurrentPlan;
      const mistake = mistakeIn(steps);
      if (mistake !== undefined) return toolFailure(mistake);
      plan.update(() => ({ steps: steps.map(({ step, status }) => ({ step, status })) }));
      return { steps: steps as unknown as Json };
    },
  }) as ToolDefinition;
}

function mistakeIn(steps: readonly PlanStep[]): ToolFailureInput | undefined {
  const refuse = (message: string): ToolFailureInput => ({
    code: "invalid_plan",
    class: "invalid_request",
    message,
  });
  const blank = steps.findIndex(({ step }) => step.trim() === "");
  if (blank >= 0)
    return refuse(`steps[${blank}].step: expected some words, found none. The plan is unchanged.`);
  const running = steps.filter(({ status }) => status === "in_progress").length;
  if (running <= 1) return undefined;
  return refuse(
    `steps: expected at most one step in progress, found ${running}. The plan is unchanged; send it again with one.`,
  );
}

function told({ toolName, result }: ToolResultHookContext, planName: string): Directive | undefined {
  if (toolName !== planName || result.outcome.kind !== "success") return undefined;
  return directive.emitEvents([{ kind: "custom", name: EVENT, payload: result.outcome.value as Json }]);
}

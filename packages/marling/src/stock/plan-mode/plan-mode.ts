// Plan mode: the model looks around and writes a plan; what changes anything waits until somebody has approved it.
//   PL1  in plan mode only tools that are known to read are offered, and no other call runs, on any path.
//   PL2  plan mode ends by `exit_plan`, which somebody has to allow, or by the host's command.
//   PL3  the mode is committed with the turn or the command, and forks and children begin in it.

import {
  type Directive,
  type DurableState,
  definePlugin,
  defineTool,
  directive,
  type Json,
  type Plugin,
  type PluginEvent,
  type ToolDefinition,
  type ToolManifest,
  toolFailure,
} from "../../index.ts";
import type {
  ApprovalDecision,
  ApprovalHookContext,
  OperationOutcome,
  ToolCallHookContext,
  ToolCatalogContext,
  ToolResultHookContext,
} from "../../plugin/index.ts";
import { aBoolean, aFunction, aToolName, checkOptions, type OptionCheck, texts } from "../check-options.ts";

export interface PlanModeOptions {
  /** The tools that stay; `*` at the end of a name stands for any rest. Given, the replay policy does not count. */
  readonly readOnlyTools?: readonly string[];
  /** Decides instead, tool by tool, where it does not answer `undefined`. */
  readonly isReadOnly?: (tool: ToolManifest) => boolean | undefined;
  /** Whether new sessions begin in plan mode. */
  readonly startsActive?: boolean;
  /** Whether somebody has to allow leaving it; true by default. */
  readonly asks?: boolean;
  readonly toolName?: string;
}

/** The answer of the query `plan_mode.status`. */
export interface PlanModeStatus {
  readonly isActive: boolean;
  /** The plan that was approved last. */
  readonly plan?: string;
}

type Settings = Required<Omit<PlanModeOptions, "readOnlyTools" | "isReadOnly">> &
  Pick<PlanModeOptions, "readOnlyTools" | "isReadOnly">;

const ID = "plan_mode";
const EVENT = "plan_mode.state";
/** What only calls other tools, each of which is looked at by itself. */
const BATCH = "batch";

const CHECKS: { readonly [K in keyof Required<PlanModeOptions>]: OptionCheck } = {
  readOnlyTools: texts,
  isReadOnly: aFunction,
  startsActive: aBoolean,
  asks: aBoolean,
  toolName: aToolName,
};

/** Lets a session plan before it acts. Commands `plan_mode.enter` and `plan_mode.leave`, query `plan_mode.status`. */
export function planMode(options: PlanModeOptions = {}): Plugin {
  checkOptions(ID, options, CHECKS);
  const settings: Settings = { startsActive: false, asks: true, toolName: "exit_plan", ...options };
  return definePlugin({
    id: ID,
    build(ctx) {
      const mode = ctx.durable<PlanModeStatus>({
        version: 1,
        initial: () => ({ isActive: settings.startsActive }),
        fork: "copy",
      });
      const { toolName } = settings;
      return {
        tools: [exitTool(toolName, mode)],
        prompt: () =>
          mode.get().isActive
            ? { slot: "guidance", title: "Plan mode", content: guidance(toolName) }
            : undefined,
        toolCatalog: ({ tools }: ToolCatalogContext) => ({
          remove: mode.get().isActive
            ? tools.filter((tool) => !mayRun(tool, settings)).map(({ name }) => name)
            : [toolName],
        }),
        toolCalls: {
          before: (call) => (mode.get().isActive ? refusal(call, settings) : undefined),
          after: (call) => told(call, toolName),
        },
        approval: { request: (call) => question(call, settings) },
        operations: {
          queries: { "plan_mode.status": { handler: () => mode.get() } },
          commands: {
            "plan_mode.enter": { description: "Enters plan mode.", handler: () => moved(mode, true) },
            "plan_mode.leave": { description: "Leaves plan mode.", handler: () => moved(mode, false) },
          },
        },
      };
    },
  })();
}

function guidance(toolName: string): string {
  return `The session is in plan mode: look around with the tools that you have, change nothing, and work out a plan. When it is ready, call ${toolName} with the whole plan. If it is approved, plan mode ends and you carry it out; if not, go on planning.`;
}

function mayRun(tool: ToolManifest, settings: Settings): boolean {
  const { name, replay = "unsafe" } = tool;
  if (name === settings.toolName || name === BATCH) return true;
  const { isReadOnly, readOnlyTools } = settings;
  return (
    isReadOnly?.(tool) ?? (readOnlyTools === undefined ? replay === "safe" : isNamed(name, readOnlyTools))
  );
}

function isNamed(name: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) =>
    pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern,
  );
}

/** The catalog hides what may not run; this holds for calls that need no catalog too. */
async function refusal(
  { toolName, sessionId, host }: ToolCallHookContext,
  settings: Settings,
): Promise<Directive | undefined> {
  const offered = (await host.toolCatalog(sessionId)).find(({ name }) => name === toolName);
  const isAllowed =
    offered === undefined ? isNamed(toolName, settings.readOnlyTools ?? []) : mayRun(offered, settings);
  if (isAllowed) return undefined;
  const message = `Expected a tool that only reads, found ${toolName}: the session is in plan mode. Finish the plan and call ${settings.toolName}.`;
  return directive.shortCircuitTool(
    toolFailure({ code: "plan_mode", class: "permission_denied", source: "policy", message }),
  );
}

function question({ toolName }: ApprovalHookContext, settings: Settings): ApprovalDecision | undefined {
  if (toolName !== settings.toolName || !settings.asks) return undefined;
  return { decision: "ask", reason: "The plan is ready, and plan mode ends when it is approved." };
}

function exitTool(name: string, mode: DurableState<PlanModeStatus>): ToolDefinition {
  return defineTool({
    name,
    description: "Hands in the plan for approval. When it is approved, plan mode ends.",
    replay: "safe",
    input: {
      type: "object",
      required: ["plan"],
      additionalProperties: false,
      properties: { plan: { type: "string", minLength: 1, description: "The whole plan, in Markdown." } },
    },
    execute: (raw) => {
      const { plan } = raw as unknown as { readonly plan: string };
      mode.update(() => ({ isActive: false, plan }));
      return "The plan is approved and plan mode is over. Carry the plan out now.";
    },
  }) as ToolDefinition;
}

function told({ toolName, result }: ToolResultHookContext, exitName: string): Directive | undefined {
  if (toolName !== exitName || result.outcome.kind !== "success") return undefined;
  return directive.emitEvents([stateEvent(false)]);
}

function moved(mode: DurableState<PlanModeStatus>, isActive: boolean): OperationOutcome {
  const wasActive = mode.get().isActive;
  if (wasActive !== isActive) mode.update((now) => ({ ...now, isActive }));
  return { output: { isActive }, events: wasActive === isActive ? [] : [stateEvent(isActive)] };
}

function stateEvent(isActive: boolean): PluginEvent {
  const payload: Json = { isActive };
  return { kind: "custom", name: EVENT, payload };
}

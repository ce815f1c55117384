// What the model is shown of a result: by the projector if a plugin brings one, else as the tools module shows it.

import type { ModelToolReturn } from "../model/tool-call.ts";
import { projectToolOutput } from "../tool/output.ts";
import type { StateDelta } from "./durable.ts";
import type { ToolResultProjectionContext } from "./hook-context.ts";
import { type HookSite, hookFailed, hookReturnedNonsense, hookTimeout } from "./hook-error.ts";
import type { HookLimit } from "./hook-limit.ts";
import type { Slots } from "./slots.ts";
import type { StateScopes } from "./state-scopes.ts";

export interface ProjectionParts {
  readonly slots: Slots;
  readonly scopes: StateScopes;
  readonly limit: HookLimit;
  readonly deltas: StateDelta[] | undefined;
}

const SLOT = "tool_results.projector";

export async function projectToolResult(
  ctx: ToolResultProjectionContext,
  { slots, scopes, limit, deltas }: ProjectionParts,
): Promise<ModelToolReturn> {
  const { callId, toolName, output } = ctx;
  const owned = slots[SLOT];
  if (owned === undefined) return projectToolOutput({ callId, toolName, output });
  const { pluginId, value: project } = owned;
  const site: HookSite = { pluginId, hook: SLOT };
  const ask = async (): Promise<unknown> =>
    project(Object.freeze({ ...ctx, projected: projectToolOutput({ callId, toolName, output }) }));
  const projected = await scopes.runEffect({ pluginIds: [pluginId], mode: "sequential", deltas }, () => {
    const answer = ask().catch((thrown: unknown) => {
      throw hookFailed(site, thrown);
    });
    return limit.race(answer, () => hookTimeout(site, limit.limitMs));
  });
  return readProjection(projected, ctx, site);
}

function readProjection(
  projected: unknown,
  ctx: ToolResultProjectionContext,
  site: HookSite,
): ModelToolReturn {
  const { callId, toolName } = ctx;
  if (typeof projected === "string") {
    return { callId, toolName, parts: projected === "" ? [] : [{ kind: "text", text: projected }] };
  }
  const parts =
    typeof projected === "object" && projected !== null
      ? (projected as Partial<ModelToolReturn>).parts
      : undefined;
  if (!Array.isArray(parts) || !parts.every(isPart)) {
    throw hookReturnedNonsense(site, "expected a text, or an object with parts of kind text or attachment");
  }
  return { callId, toolName, parts };
}

function isPart(part: unknown): boolean {
  const { kind, text, source } = (part ?? {}) as { readonly [member: string]: unknown };
  return kind === "text"
    ? typeof text === "string"
    : kind === "attachment" && typeof source === "object" && source !== null;
}

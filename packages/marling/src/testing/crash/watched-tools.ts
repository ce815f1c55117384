// Tools whose attempts are counted by the other process, and have a boundary at each end.

import type { ToolDefinition } from "../../index.ts";
import type { ToolContext, ToolManifest, ToolProvider } from "../../tool/contract.ts";
import type { Boundaries } from "./boundaries.ts";
import type { Line } from "./line.ts";
import { memberNames } from "./member-names.ts";

export interface ToolWatch {
  readonly line: Line;
  readonly boundaries: Boundaries;
}

type Tool = ToolDefinition | ToolProvider;
export type Tools = ToolProvider | readonly Tool[];

export function watchedTools(tools: Tools, watch: ToolWatch): Tools {
  return isList(tools) ? tools.map((tool) => watchedTool(tool, watch)) : watchedProvider(tools, watch);
}

function isList(tools: Tools): tools is readonly Tool[] {
  return Array.isArray(tools);
}

function watchedTool(tool: Tool, watch: ToolWatch): Tool {
  if (!("manifest" in tool)) return watchedProvider(tool, watch);
  return Object.freeze<ToolDefinition>({
    ...tool,
    execute: (input, context, call) =>
      attempt(tool.manifest, { watch, context, run: () => tool.execute(input, context, call) }),
  });
}

function watchedProvider(provider: ToolProvider, watch: ToolWatch): ToolProvider {
  const members = provider as unknown as Readonly<Record<string, unknown>>;
  const bound = memberNames(provider).map((name) => {
    const member = members[name];
    return [name, typeof member === "function" ? member.bind(provider) : member];
  });
  const manifestOf = (name: string): ToolManifest | undefined =>
    provider.resolve?.({ name }) ?? provider.manifests().find((manifest) => manifest.name === name);
  const { executeGranted } = provider;
  return {
    ...(Object.fromEntries(bound) as unknown as ToolProvider),
    execute: (call, context) =>
      attempt(manifestOf(call.name), { watch, context, run: () => provider.execute(call, context) }),
    ...(executeGranted === undefined
      ? {}
      : {
          executeGranted: (call, context) =>
            attempt(manifestOf(call.name), {
              watch,
              context,
              run: () => executeGranted.call(provider, call, context),
            }),
        }),
  };
}

/** A tool that only calls others is no attempt of its own: it may run again. */
async function attempt(
  manifest: ToolManifest | undefined,
  {
    watch: { line, boundaries },
    context,
    run,
  }: { readonly watch: ToolWatch; readonly context: ToolContext; readonly run: () => unknown },
): Promise<unknown> {
  const { sessionId, turnId, callId, attempt: number, idempotencyKey } = context;
  const { name = "unknown", replay = "unsafe", isOrchestrating = false } = manifest ?? {};
  if (isOrchestrating) return boundaries.around(`tool ${name} ${callId}`, async () => run());
  const watched = { sessionId, turnId, callId, attempt: number, name, replay, idempotencyKey };
  boundaries.pass(`before tool ${name} ${callId}`);
  await line.ask("tool_began", { attempt: watched });
  boundaries.moveWorld();
  boundaries.pass(`begun tool ${name} ${callId}`);
  try {
    return await run();
  } finally {
    boundaries.pass(`done tool ${name} ${callId}`);
    await line.ask("tool_finished", { attempt: watched });
    boundaries.moveWorld();
    boundaries.pass(`after tool ${name} ${callId}`);
  }
}

// Plugins, sessions and hook contexts for the tests of this folder. Contexts are as a kernel would make them, with a
// host that offers nothing unless a test says otherwise.

export { ManualClock, settle } from "../tool/manual-clock.ts";

import { MarlingError } from "../../src/base/errors.ts";
import { sessionId } from "../../src/model/ids.ts";
import { toolSuccess } from "../../src/model/tool-output.ts";
import { NO_USAGE } from "../../src/model/usage.ts";
import { definePlugin } from "../../src/plugin/define-plugin.ts";
import type { DurableOptions, DurableState } from "../../src/plugin/durable.ts";
import type {
  CheckpointHookContext,
  CompactionContext,
  LifecycleEvent,
  PreparedContext,
  PromptHookContext,
  SessionConfigChangedContext,
  ToolCallHookContext,
  ToolResultHookContext,
  TurnHookContext,
  TurnResultHookContext,
  TurnTransformContext,
} from "../../src/plugin/hook-context.ts";
import { hostView, unavailableHost } from "../../src/plugin/host-services.ts";
import type { Plugin, PluginBuildContext, PluginParts } from "../../src/plugin/plugin.ts";
import {
  type BuildSessionOptions,
  createPluginHost,
  type PluginHostOptions,
} from "../../src/plugin/plugin-host.ts";
import type { PluginSession } from "../../src/plugin/plugin-session.ts";
import { FULL_AUTHORITY, NO_PROTOCOL_OPTIONS } from "../../src/session/frame.ts";
import { createGraph } from "../../src/session/graph.ts";
import { createReadView } from "../../src/session/read-view.ts";
import type { SessionReadView } from "../../src/session/view.ts";

/** A plugin from its parts, or from a function that builds them. */
export function plugin(
  id: string,
  parts: PluginParts | ((ctx: PluginBuildContext<undefined>) => PluginParts) = {},
  version = "1",
): Plugin {
  return definePlugin({ id, version, build: (ctx) => (typeof parts === "function" ? parts(ctx) : parts) })();
}

/** A session with the id `s`, built from plugins. */
export function sessionOf(
  plugins: readonly Plugin[],
  options: PluginHostOptions & { readonly build?: BuildSessionOptions } = {},
): PluginSession {
  const { build, ...host } = options;
  return createPluginHost(plugins, host).buildSession("s", build);
}

export type Counter = DurableState<{ count: number }>;

export const add = (n: number) => (value: { count: number }) => ({ count: value.count + n });

/** A plugin with one counter, and its state to look at from outside. */
export function counting(
  parts: (state: Counter) => PluginParts,
  options: Partial<DurableOptions<{ count: number }>> = {},
): { readonly made: Plugin; state(): Counter } {
  let state: Counter | undefined;
  const made = plugin("counter", (ctx) => {
    state = ctx.durable({ version: 1, initial: () => ({ count: 0 }), ...options });
    return parts(state);
  });
  return {
    made,
    state: () => state ?? (thrownBy(() => "not built") as never),
  };
}

export function readView(): SessionReadView {
  const policy = { model: "default", maxTurns: 50 };
  const graph = createGraph({
    sessionId: sessionId("s"),
    assignment: { policy, authority: FULL_AUTHORITY },
  });
  return createReadView({ graph, policy, turnIndex: 0, revision: 0, usage: NO_USAGE });
}

export const TURN_CONTEXT: TurnHookContext["turnContext"] = {
  turnId: "t",
  pluginIds: [],
  hasPluginInputs: false,
  pluginInput: () => undefined,
};

const services = unavailableHost();

export const turnCtx = (): TurnHookContext => ({
  sessionId: "s",
  state: readView(),
  turnContext: TURN_CONTEXT,
  host: hostView(services, "turn"),
});

export const promptCtx = (): PromptHookContext => ({
  sessionId: "s",
  state: readView(),
  protocolTurnOptions: NO_PROTOCOL_OPTIONS,
  turnContext: TURN_CONTEXT,
  host: hostView(services, "prompt"),
});

export const toolCtx = (): ToolCallHookContext => ({
  sessionId: "s",
  toolName: "add",
  callId: "c1",
  args: { a: 1 },
  argumentProjection: undefined,
  turnContext: TURN_CONTEXT,
  host: hostView(services, "tool"),
});

export const toolResultCtx = (): ToolResultHookContext => ({
  ...toolCtx(),
  result: toolSuccess(1),
  durationMs: 3,
});

export const checkpointCtx = (): CheckpointHookContext => ({
  sessionId: "s",
  checkpoint: "after_work",
  state: readView(),
  host: hostView(services, "checkpoint"),
});

export const turnResultCtx = (): TurnResultHookContext => ({
  sessionId: "s",
  turn: {
    turnId: "t",
    outcome: { kind: "finished", by: "message", text: "hi" },
    assistantOutput: "hi",
    usage: NO_USAGE,
    toolCalls: [],
    modelCalls: [],
    issues: [],
  },
  host: hostView(services, "turnResult"),
});

export const transformCtx = (): TurnTransformContext => ({
  sessionId: "s",
  state: readView(),
  promptUsage: undefined,
  maxContextTokens: undefined,
  host: hostView(services, "history"),
});

export const compactionCtx = (): CompactionContext => ({
  sessionId: "s",
  instructions: undefined,
  state: readView(),
  host: hostView(services, "history"),
});

export const configCtx = (): SessionConfigChangedContext => ({
  sessionId: "s",
  previous: { model: "a", maxTurns: 1 },
  current: { model: "b", maxTurns: 1 },
  host: hostView(services, "configChanged"),
});

export const prepared = (): PreparedContext => ({
  messages: [],
  promptContributions: [],
  toolProviders: [],
  includeBaseTools: true,
});

export const restored = (): LifecycleEvent => ({
  kind: "session_restored",
  sessionId: "s",
  state: readView(),
});

/** The error that a promise rejects with; fails when it resolves or rejects with something else. */
export async function rejection(promise: Promise<unknown>): Promise<MarlingError> {
  const settled = await promise.then(
    (value) => ({ value }),
    (thrown: unknown) => ({ thrown }),
  );
  if ("thrown" in settled && MarlingError.is(settled.thrown)) return settled.thrown;
  throw new Error(`expected a rejection, got ${JSON.stringify(settled)}`);
}

/** The error that a call throws; fails when it throws nothing or something else. */
export function thrownBy(call: () => unknown): MarlingError {
  let returned: unknown;
  try {
    returned = call();
  } catch (thrown) {
    if (MarlingError.is(thrown)) return thrown;
    throw thrown;
  }
  throw new Error(`expected a refusal, got ${String(returned)}`);
}

// How a plugin session comes to be. The order is observable: build all, register all, ready all, restore all.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { SessionAuthority } from "../session/frame.ts";
import { ToolRegistry } from "../tool/registry.ts";
import { BATCH_TOOL } from "./batch-tool.ts";
import type { DurableOptions, DurableState } from "./durable.ts";
import { completeAuthority } from "./fork.ts";
import { HookRunner } from "./hook-runner.ts";
import { HostBinding } from "./host-binding.ts";
import type { Plugin, PluginBuildContext } from "./plugin.ts";
import type { BuildSessionOptions, PluginHost } from "./plugin-host.ts";
import { PluginInstance, storedState } from "./plugin-instance.ts";
import { PluginSession } from "./plugin-session.ts";
import { checkParts } from "./plugin-shape.ts";
import { entryOf } from "./plugin-snapshots.ts";
import { PluginState } from "./plugin-state.ts";
import { offersTool, type Registration, register, triggersOf } from "./registration.ts";
import { hasNoProtocol } from "./slots.ts";
import type { PluginSessionSnapshot } from "./snapshot.ts";
import { STANDARD_PROTOCOL, standardProtocol } from "./standard-protocol.ts";
import { StateScopes } from "./state-scopes.ts";
import type { TriggerCatalog } from "./trigger.ts";

export interface BuildOptions extends BuildSessionOptions {
  /** Makes the session known; throws when its id has become taken. */
  register(session: PluginSession): void;
}

/** Where tools of plugins come from, in the registry. */
const PLUGIN_SOURCE = "plugins";

export function buildPluginSession(
  host: PluginHost,
  sessionId: string,
  options: BuildOptions,
): PluginSession {
  const authority = completeAuthority(options.authority);
  const build: SessionBuild = { host, sessionId, options, authority };
  const instances: PluginInstance[] = [];
  try {
    for (const plugin of host.plugins) instances.push(buildInstance(build, plugin));
    addProtocol(build, instances);
    return open(build, instances);
  } catch (thrown) {
    abandon(instances);
    throw thrown;
  }
}

/**
 * What the plugins declare as triggers, without a session: they are built for it and let go. One that cannot be built
 * without options of a session declares for sessions only.
 */
export function declaredTriggers(host: PluginHost): TriggerCatalog {
  const options: BuildOptions = { register: () => undefined };
  const build: SessionBuild = { host, sessionId: "", options, authority: completeAuthority(undefined) };
  const instances = host.plugins.flatMap((plugin) => {
    try {
      return [buildInstance(build, plugin)];
    } catch (thrown) {
      if (MarlingError.is(thrown) && thrown.code === "invalid_plugin_options") return [];
      throw thrown;
    }
  });
  try {
    return triggersOf(instances);
  } finally {
    abandon(instances);
  }
}

interface SessionBuild {
  readonly host: PluginHost;
  readonly sessionId: string;
  readonly options: BuildOptions;
  readonly authority: SessionAuthority;
}

function buildInstance(
  { host, sessionId, options, authority }: SessionBuild,
  plugin: Plugin,
  isImplicit = false,
): PluginInstance {
  const { id, version } = plugin;
  const { pluginOptions, toolAccess, subagent } = authority;
  const given = Object.hasOwn(pluginOptions, id) ? pluginOptions[id] : undefined;
  const state = new PluginState(id, {
    stored: storedState(entryOf(options.snapshot, id), id),
    isFork: options.isFork === true,
  });
  const ctx: PluginBuildContext<unknown> = Object.freeze({
    sessionId,
    parentSessionId: options.parent,
    isRoot: options.parent === undefined,
    options: plugin.decodeOptions(given),
    toolAccess,
    subagent,
    extensions: host.extensions,
    durable: <T>(declared: DurableOptions<T>): DurableState<T> => state.declare(declared),
  });
  const parts = buildParts(plugin, ctx);
  state.seal();
  return new PluginInstance({ id, version, parts, state: state.isEmpty ? undefined : state, isImplicit });
}

function buildParts(plugin: Plugin, ctx: PluginBuildContext<unknown>): ReturnType<Plugin["build"]> {
  try {
    // Its own decoder made the options, so they are what its build takes.
    return checkParts(plugin.build(ctx as PluginBuildContext<never>), plugin.id);
  } catch (cause) {
    if (MarlingError.is(cause)) throw cause;
    throw new MarlingError("plugin_failed", `plugin ${plugin.id}: build failed: ${messageOf(cause)}`, {
      cause,
      details: { pluginId: plugin.id, member: "build" },
    });
  }
}

/** Adds the standard protocol, before all others, when nobody brings a protocol and nobody took its id. */
function addProtocol(build: SessionBuild, instances: PluginInstance[]): void {
  if (!hasNoProtocol(instances) || instances.some(({ id }) => id === STANDARD_PROTOCOL)) return;
  const batch = !instances.some((instance) => offersTool(instance, BATCH_TOOL));
  instances.unshift(buildInstance(build, standardProtocol({ batch }), true));
}

function open(build: SessionBuild, instances: readonly PluginInstance[]): PluginSession {
  const { host, sessionId, options, authority } = build;
  const registration = register(instances);
  const scopes = new StateScopes(instances.flatMap(({ state }) => state ?? []));
  const binding = new HostBinding(options.services);
  const session = new PluginSession({
    host,
    sessionId,
    parentSessionId: options.parent,
    authority,
    overlay: Object.freeze({ remove: Object.freeze([...(options.overlay?.remove ?? [])]) }),
    instances,
    registration,
    toolRegistry: buildRegistry(build, registration),
    scopes,
    runner: new HookRunner(registration.hooks, scopes, host),
    binding,
  });
  options.register(session);
  try {
    for (const instance of instances) instance.ready(sessionId, binding);
    for (const instance of instances) restoreInstance(instance, options.snapshot);
  } catch (thrown) {
    host.release(session);
    throw thrown;
  }
  return session;
}

/** Declared state is there since `build`; what is left is the low-level form. Without a snapshot nobody is asked. */
function restoreInstance(instance: PluginInstance, snapshot: PluginSessionSnapshot | undefined): void {
  if (snapshot === undefined || instance.isImplicit) return;
  instance.restoreOwn(entryOf(snapshot, instance.id), 0);
}

function buildRegistry({ options, authority }: SessionBuild, { providers }: Registration): ToolRegistry {
  const { hiddenTools } = authority.toolAccess;
  const sources = [{ id: PLUGIN_SOURCE, providers: providers.map(({ provider }) => provider) }];
  const registry = new ToolRegistry({ sources, hiddenTools });
  return options.toolState === undefined ? registry : registry.forkWithState(options.toolState);
}

/** Disposes what was built, last first. The failure that ended the build is the one to report, not those of the cleanup. */
function abandon(instances: readonly PluginInstance[]): void {
  for (const instance of instances.toReversed()) instance.dispose().catch(() => {});
}

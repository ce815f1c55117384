// The plugins of one session, built and registered: their hooks, tools, operations and state.
//   PN1  it is usable without a kernel: contexts and services are given from outside.
//   PN2  it never changes its plugins; another set of plugins is another session.

import { messageOf } from "../base/errors.ts";
import type { ModelToolReturn } from "../model/tool-call.ts";
import { isToolOutput, type PendingResult, type ToolOutput } from "../model/tool-output.ts";
import type { TurnIssue } from "../model/turn.ts";
import type { SessionAuthority, SubagentContext, ToolAccess } from "../session/frame.ts";
import { resolveToolCatalog, type ToolCatalog } from "../tool/catalog.ts";
import type { ToolRegistry } from "../tool/registry.ts";
import type { MonitorDeclaration } from "../work/monitor.ts";
import type { StateDelta } from "./durable.ts";
import type { PluginExtensions } from "./extensions.ts";
import { type AuthorityRequest, forkSession, narrowAuthority } from "./fork.ts";
import type {
  ToolCatalogContext,
  ToolCatalogContribution,
  ToolResultProjectionContext,
} from "./hook-context.ts";
import type { HookRunner, HookRunOptions } from "./hook-runner.ts";
import type { BoundServices, HostBinding } from "./host-binding.ts";
import type { OperationDef, SettledOutcome } from "./operation.ts";
import { listOperations } from "./operation-table.ts";
import type { ProseProjector } from "./plugin.ts";
import type { PluginHost } from "./plugin-host.ts";
import type { PluginInstance } from "./plugin-instance.ts";
import {
  type ActionOptions,
  type CommandOptions,
  PluginOperationCalls,
  type QueryOptions,
  type TaskOptions,
} from "./plugin-operation-calls.ts";
import { PluginSnapshots } from "./plugin-snapshots.ts";
import { projectToolResult } from "./project-tool-result.ts";
import type { CodeExecutor, ProtocolDriverFactory, ProtocolSession } from "./protocol.ts";
import type { Registration } from "./registration.ts";
import { SessionHooks } from "./session-hooks.ts";
import { requireProtocol, type SlotName } from "./slots.ts";
import type { PluginSessionSnapshot } from "./snapshot.ts";
import type { StateScopes } from "./state-scopes.ts";
import type { TriggerCatalog } from "./trigger.ts";
import type { ProcessRun } from "./work-host.ts";

export interface PluginSessionInit {
  readonly host: PluginHost;
  readonly sessionId: string;
  readonly parentSessionId: string | undefined;
  readonly authority: SessionAuthority;
  readonly overlay: ToolCatalogContribution;
  readonly instances: readonly PluginInstance[];
  readonly registration: Registration;
  readonly toolRegistry: ToolRegistry;
  readonly scopes: StateScopes;
  readonly runner: HookRunner;
  readonly binding: HostBinding;
}

export class PluginSession extends SessionHooks {
  readonly sessionId: string;
  readonly parentSessionId: string | undefined;
  readonly host: PluginHost;
  readonly toolRegistry: ToolRegistry;
  readonly protocolSession: ProtocolSession;
  readonly protocolDriver: ProtocolDriverFactory;
  /** Drafts of declared state, for whoever runs user code outside hooks. */
  readonly scopes: StateScopes;
  readonly #init: PluginSessionInit;
  readonly #calls: PluginOperationCalls;
  readonly #snapshots: PluginSnapshots;
  #authority: SessionAuthority;
  #disposed: Promise<readonly TurnIssue[]> | undefined;

  constructor(init: PluginSessionInit) {
    super(init.runner, init.instances);
    const { session, driver } = requireProtocol(init.registration.slots);
    this.#init = init;
    this.#snapshots = new PluginSnapshots(init.instances);
    this.sessionId = init.sessionId;
    this.parentSessionId = init.parentSessionId;
    this.host = init.host;
    this.#authority = init.authority;
    this.toolRegistry = init.toolRegistry;
    this.scopes = init.scopes;
    this.protocolSession = session;
    this.protocolDriver = driver;
    this.#calls = new PluginOperationCalls({
      operations: init.registration.operations,
      scopes: init.scopes,
      sessionId: init.sessionId,
      isBound: () => init.binding.isBound,
    });
  }

  /** What the session may do now. */
  get authority(): SessionAuthority {
    return this.#authority;
  }

  /** Holds the session to another authority from now on. The plugin options stay: plugins were built with them. */
  holdTo(authority: SessionAuthority): void {
    this.#authority = Object.freeze({ ...authority, pluginOptions: this.#authority.pluginOptions });
    this.toolRegistry.hide(authority.toolAccess.hiddenTools);
  }

  get toolAccess(): ToolAccess {
    return this.authority.toolAccess;
  }

  get subagentContext(): SubagentContext | undefined {
    return this.authority.subagent;
  }

  get extensions(): PluginExtensions {
    return this.host.extensions;
  }

  get triggers(): TriggerCatalog {
    return this.#init.registration.triggers;
  }

  /** Monitors that plugins declare, by plugin. */
  get monitors(): readonly { readonly pluginId: string; readonly monitors: readonly MonitorDeclaration[] }[] {
    return this.#init.instances.flatMap(({ id, parts }) =>
      parts.monitors === undefined ? [] : [{ pluginId: id, monitors: parts.monitors }],
    );
  }

  /** What runs the durable tasks of a plugin, by label. */
  background(pluginId: string): { readonly [label: string]: ProcessRun } | undefined {
    return this.#init.instances.find(({ id }) => id === pluginId)?.parts.background;
  }

  /** The session's tools before any overlay: its registry. */
  get tools(): ToolRegistry {
    return this.toolRegistry;
  }

  get overlay(): ToolCatalogContribution {
    return this.#init.overlay;
  }

  get pluginIds(): readonly string[] {
    return this.#init.instances.map(({ id }) => id);
  }

  get codeExecutor(): CodeExecutor | undefined {
    return this.#init.registration.slots["execution.code_executor"]?.value;
  }

  get proseProjector(): ProseProjector | undefined {
    return this.#init.registration.slots["output.prose_projector"]?.value;
  }

  /** The plugin that fills a slot, if one does. */
  slotOwner(slot: SlotName): string | undefined {
    return this.#init.registration.slots[slot]?.pluginId;
  }

  /** Gives the plugins their host, once it exists, or says how to get it. From then on queries see what is committed. */
  bindHost(services: BoundServices): void {
    this.#init.binding.bind(services);
  }

  /** What the model is shown of a result: by the projector if a plugin brings one, else as the tools module shows it. */
  projectToolResult(
    ctx: ToolResultProjectionContext,
    options: HookRunOptions = {},
  ): Promise<ModelToolReturn> {
    const { limit = this.runner.limit, deltas } = options;
    return projectToolResult(ctx, {
      slots: this.#init.registration.slots,
      scopes: this.scopes,
      limit,
      deltas,
    });
  }

  /** The catalog of the session. Synchronous; the first failing contributor fails it. */
  resolveToolCatalog(ctx: ToolCatalogContext = this.#catalogContext()): ToolCatalog {
    const { tools, toolAccess } = ctx;
    // Contributors are synchronous by contract: a promise from one of them has thrown by now.
    const owned = this.runner.collect("tool_catalog.contribute", ctx) as readonly {
      readonly value: ToolCatalogContribution;
    }[];
    const contributions = owned.map(({ value }) => value);
    return resolveToolCatalog({
      tools,
      toolAccess,
      contributions,
      overlay: this.overlay,
      resolveContract: (name) => ctx.resolveContract(name),
    });
  }

  /** The plugin that offers a tool, if one does. */
  ownerOfTool(name: string): string | undefined {
    const { providers } = this.#init.registration;
    const offers = ({ provider }: (typeof providers)[number]): boolean => {
      if (provider.resolve !== undefined) return provider.resolve({ name }) !== undefined;
      return provider.manifests().some((manifest) => manifest.name === name);
    };
    return providers.find(offers)?.pluginId;
  }

  /**
   * Runs one attempt of a tool in a draft of its plugin's state, applied when the tool succeeds or is pending. A tool
   * that no plugin offers, such as one of a context transform, may write the state of any. Aborting drops the draft.
   */
  async runTool<T>(
    name: string,
    execute: () => T | Promise<T>,
    options: { readonly signal?: AbortSignal; readonly deltas?: StateDelta[] | undefined } = {},
  ): Promise<T> {
    const { pluginIds } = this.scopes;
    if (pluginIds.length === 0) return execute();
    const owner = this.ownerOfTool(name);
    const hasSucceeded = (value: T): boolean => !isToolOutput(value) || value.outcome.kind === "success";
    const effect = {
      pluginIds: owner === undefined ? pluginIds : [owner],
      mode: "concurrent",
      hasSucceeded,
      ...options,
    } as const;
    return this.scopes.runEffect(effect, execute);
  }

  /** Runs a callback of a slot's owner in a draft of its state, applied when the callback does not throw. */
  async runSlot<T>(
    slot: SlotName,
    run: () => T | Promise<T>,
    options: { readonly deltas?: StateDelta[] | undefined } = {},
  ): Promise<T> {
    const owner = this.slotOwner(slot);
    const pluginIds = owner === undefined ? [] : [owner];
    return this.scopes.runEffect({ pluginIds, mode: "sequential", ...options }, run);
  }

  /** What settled since the last call, oldest first. */
  takeDeltas(): readonly StateDelta[] {
    return this.scopes.takeDeltas();
  }

  applyDelta(delta: StateDelta): void {
    this.scopes.applyDelta(delta);
  }

  /** Declared state as effects left it becomes the committed one. */
  commitState(): void {
    this.scopes.commit();
  }

  /** Declared state goes back to the committed one. */
  rollbackState(): void {
    this.scopes.rollback();
  }

  /** The record and the blobs of every plugin; one that fails fails the snapshot. */
  snapshot(): PluginSessionSnapshot {
    return this.#snapshots.take();
  }

  /** Whether a snapshot has the same plugins with the same versions and revisions; contents are not compared. */
  snapshotIsCurrent(previous: PluginSessionSnapshot | undefined): boolean {
    return this.#snapshots.isCurrent(previous);
  }

  /** Moves when any plugin's revision does; see `revisionFingerprint`. */
  snapshotRevisionFingerprint(): bigint {
    return this.#snapshots.fingerprint();
  }

  /**
   * Hands every plugin its part of a snapshot, in build order; a plugin without a part begins anew. Declared state that
   * cannot be read fails before anything changes; then the first failing plugin ends it.
   */
  restore(snapshot: PluginSessionSnapshot): void {
    this.#snapshots.restore(snapshot);
    this.scopes.commit();
  }

  /** A root session with the state, tools, authority and overlay of this one. */
  forkForSession(sessionId: string): PluginSession {
    return forkSession(this, sessionId, { authority: this.authority, overlay: this.overlay });
  }

  /** A session with the state and tools of this one and at most its authority; without a parent it is a root. */
  forkForChildSession(
    sessionId: string,
    parentSessionId: string | undefined,
    authority: AuthorityRequest = {},
  ): PluginSession {
    const narrowed = narrowAuthority(this.authority, authority);
    return forkSession(this, sessionId, {
      parent: parentSessionId,
      authority: narrowed,
      overlay: this.overlay,
    });
  }

  /** As `forkForSession`, with another overlay on the catalog. */
  forkForSessionWithToolCatalog(sessionId: string, overlay: ToolCatalogContribution): PluginSession {
    return forkSession(this, sessionId, { authority: this.authority, overlay });
  }

  /** Queries, commands and tasks, each by name. */
  pluginOperations(): readonly OperationDef[] {
    return listOperations(this.#init.registration.operations, ["query", "command", "task"]);
  }

  /** Actions by name. */
  pluginActions(): readonly OperationDef[] {
    return listOperations(this.#init.registration.operations, ["action"]);
  }

  /** Queries, commands, tasks and actions, each by name. */
  operations(): readonly OperationDef[] {
    return [...this.pluginOperations(), ...this.pluginActions()];
  }

  queryPlugin(
    name: string,
    args?: unknown,
    options?: QueryOptions,
  ): ReturnType<PluginOperationCalls["query"]> {
    return this.#calls.query(name, args, options);
  }

  runPluginCommand(
    name: string,
    args?: unknown,
    options?: CommandOptions,
  ): Promise<{ readonly pluginId: string; readonly outcome: SettledOutcome }> {
    return this.#calls.command(name, args, options);
  }

  runPluginTask(
    name: string,
    args?: unknown,
    options?: TaskOptions,
  ): Promise<{ readonly pluginId: string; readonly outcome: SettledOutcome }> {
    return this.#calls.task(name, args, options);
  }

  /** The older form of an operation: failures, throws included, are in the output. */
  invokePluginAction(
    name: string,
    args?: unknown,
    options?: ActionOptions,
  ): Promise<ToolOutput | PendingResult> {
    return this.#calls.action(name, args, options);
  }

  /** An action as a function: what is not a success is thrown, and the value is checked by `options.output`. */
  callPluginAction<T = unknown>(name: string, args?: unknown, options?: ActionOptions<T>): Promise<T> {
    return this.#calls.typedAction(name, args, options);
  }

  /** Disposes the plugins in reverse order and leaves the host; what failed is returned. Once. */
  dispose(): Promise<readonly TurnIssue[]> {
    this.#disposed ??= this.#disposeAll();
    return this.#disposed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose();
  }

  async #disposeAll(): Promise<readonly TurnIssue[]> {
    this.host.release(this);
    const issues: TurnIssue[] = [];
    const { limit } = this.runner;
    const late = (): Error => new Error(`it did not settle within ${limit.limitMs} ms`);
    for (const instance of this.#init.instances.toReversed()) {
      await limit.race(instance.dispose(), late).catch((thrown: unknown) => {
        issues.push({
          kind: "plugin",
          code: "plugin_failed",
          message: `plugin ${instance.id}: dispose failed: ${messageOf(thrown)}`,
          pluginId: instance.id,
        });
      });
    }
    return issues;
  }

  #catalogContext(): ToolCatalogContext {
    const { sessionId, toolRegistry, toolAccess, subagentContext, extensions } = this;
    return {
      sessionId,
      tools: toolRegistry.manifests(),
      resolveContract: (name) => toolRegistry.contract(name),
      toolAccess,
      subagent: subagentContext,
      extensions,
    };
  }
}

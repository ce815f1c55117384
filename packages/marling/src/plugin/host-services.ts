// What plugins may ask of their host, in small services, and which hook gets which.
//   H1  a hook's `host` has the methods of its view and no others, in its type and in fact.
//   H3  a host that was given for the time of a call answers `stale_scope` behind its end.
//   H2  what a host does not offer is a typed `host_service_unavailable`.

import { MarlingError } from "../base/errors.ts";
import type { Json, JsonObject } from "../model/json.ts";
import type { MessageInput } from "../model/message.ts";
import type { DirectCompletionHost, TurnHost } from "../model/session-host.ts";
import type { AppendNode } from "../session/node.ts";
import type { SessionReadView } from "../session/view.ts";
import type { AvailabilityTier, ToolManifest, ToolState } from "../tool/contract.ts";
import type { SessionCreated, SessionCreateRequest } from "./session-create.ts";
import type { MonitorHost, TaskHost, TriggerHost } from "./work-host.ts";

export interface SessionSnapshotHost {
  snapshotCurrent(): Promise<SessionReadView>;
  snapshotSession(sessionId: string): Promise<SessionReadView>;
}

export interface ToolCatalogHost {
  toolCatalog(sessionId: string): Promise<readonly ToolManifest[]>;
}

export interface ToolStateHost {
  toolState(sessionId: string): Promise<ToolState>;
  /** Returns the new generation; a state of another generation is refused. */
  applyToolState(sessionId: string, state: ToolState): Promise<number>;
  setToolsAvailability(
    sessionId: string,
    names: readonly string[],
    tier: AvailabilityTier | null,
  ): Promise<number>;
  setToolAvailability(sessionId: string, name: string, tier: AvailabilityTier | null): Promise<number>;
  setToolMembership(sessionId: string, names: readonly string[], present: boolean): Promise<number>;
}

export interface SessionLifecycleHost {
  createSession(request: SessionCreateRequest): Promise<SessionCreated>;
  closeSession(sessionId: string): Promise<void>;
  /** The input that a session was created with, for its first turn: there once. */
  takeFirstTurnInput(sessionId: string): Promise<MessageInput | undefined>;
}

export interface AppendNodesRequest {
  readonly nodes: readonly AppendNode[];
  readonly requiresAncestor?: string;
}

export type AppendNodesResult =
  | { readonly status: "appended"; readonly nodeIds: readonly string[]; readonly leaf: string }
  | { readonly status: "stale_branch"; readonly leaf?: string };

export interface SessionGraphHost {
  appendSessionNodes(sessionId: string, request: AppendNodesRequest): Promise<AppendNodesResult>;
}

export interface TraceHost {
  emitTrace(trace: {
    readonly name: string;
    readonly payload?: Json;
    readonly context?: JsonObject;
  }): Promise<void>;
}

/** Everything the kernel offers; each hook sees a part of it. */
export interface HostServices
  extends SessionSnapshotHost,
    ToolCatalogHost,
    ToolStateHost,
    SessionLifecycleHost,
    TurnHost,
    TaskHost,
    MonitorHost,
    TriggerHost,
    SessionGraphHost,
    DirectCompletionHost,
    TraceHost {}

/** The views, one row each: who may do what. */
export interface HostViews {
  readonly prompt: SessionSnapshotHost & ToolCatalogHost & TaskHost & DirectCompletionHost;
  readonly turn: SessionSnapshotHost & ToolStateHost & SessionLifecycleHost & TraceHost;
  readonly tool: HostServices;
  readonly turnResult: SessionLifecycleHost & TraceHost;
  readonly checkpoint: SessionLifecycleHost & TraceHost;
  readonly history: SessionSnapshotHost &
    SessionLifecycleHost &
    TurnHost &
    TaskHost &
    SessionGraphHost &
    DirectCompletionHost;
  readonly action: HostServices;
  readonly configChanged: TaskHost;
  readonly runtime: HostServices;
}

/** The services that operations, the call before a model call and code get by name. */
export interface ServiceViews {
  readonly read: SessionSnapshotHost & ToolCatalogHost;
  readonly state: SessionSnapshotHost & ToolCatalogHost & ToolStateHost;
  readonly lifecycle: SessionLifecycleHost;
  readonly graph: SessionGraphHost & TraceHost;
  readonly direct: DirectCompletionHost;
}

export type HostViewName = keyof HostViews;
export type HostView<Name extends HostViewName> = HostViews[Name];
export type ServiceViewName = keyof ServiceViews;
export type ServiceView<Name extends ServiceViewName> = ServiceViews[Name];

export type PromptHookHost = HostView<"prompt">;
export type TurnHookHost = HostView<"turn">;
export type ToolHookHost = HostView<"tool">;
export type TurnResultHookHost = HostView<"turnResult">;
export type CheckpointHookHost = HostView<"checkpoint">;
export type HistoryHost = HostView<"history">;
export type PluginActionHost = HostView<"action">;
export type ConfigChangedHost = HostView<"configChanged">;
export type RuntimeSessionHost = HostView<"runtime">;

export type SessionReadService = ServiceView<"read">;
export type SessionStateService = ServiceView<"state">;
export type SessionLifecycleService = ServiceView<"lifecycle">;
export type SessionGraphService = ServiceView<"graph">;

type Methods<Host> = readonly (keyof Host & keyof HostServices)[];

const SNAPSHOT: Methods<SessionSnapshotHost> = ["snapshotCurrent", "snapshotSession"];
const CATALOG: Methods<ToolCatalogHost> = ["toolCatalog"];
const TOOL_STATE: Methods<ToolStateHost> = [
  "toolState",
  "applyToolState",
  "setToolsAvailability",
  "setToolAvailability",
  "setToolMembership",
];
const LIFECYCLE: Methods<SessionLifecycleHost> = ["createSession", "closeSession", "takeFirstTurnInput"];
const TURNS: Methods<TurnHost> = ["startTurnStream", "awaitTurn", "cancelTurn", "startTurn"];
const TASKS: Methods<TaskHost> = [
  "injectTurnInput",
  "spawnHiddenTask",
  "awaitHiddenTasks",
  "spawnManagedTask",
  "cancelManagedTask",
  "registerBackgroundTask",
  "unregisterBackgroundTask",
  "completeBackgroundTask",
  "transitionBackgroundTaskLiveState",
  "listBackgroundTasks",
  "cancelBackgroundTask",
  "cancelAllBackgroundTasks",
  "validateAsyncHandlesVisible",
  "transferAsyncHandles",
  "cancelUnreferencedAsyncHandles",
];
const MONITORS: Methods<MonitorHost> = [
  "monitorSnapshot",
  "takeMonitorUpdates",
  "startMonitor",
  "stopMonitor",
];
const TRIGGERS: Methods<TriggerHost> = ["subscribeTrigger", "unsubscribeTrigger", "listTriggers"];
const DIRECT: Methods<DirectCompletionHost> = ["directCompletion", "directLlmCompletion"];
const GRAPH: Methods<SessionGraphHost> = ["appendSessionNodes"];
const TRACE: Methods<TraceHost> = ["emitTrace"];
const ALL: Methods<HostServices> = [
  ...SNAPSHOT,
  ...CATALOG,
  ...TOOL_STATE,
  ...LIFECYCLE,
  ...TURNS,
  ...TASKS,
  ...MONITORS,
  ...TRIGGERS,
  ...GRAPH,
  ...DIRECT,
  ...TRACE,
];

/** The methods of each view. */
export const HOST_VIEWS: { readonly [Name in HostViewName]: Methods<HostViews[Name]> } = Object.freeze({
  prompt: [...SNAPSHOT, ...CATALOG, ...TASKS, ...DIRECT],
  turn: [...SNAPSHOT, ...TOOL_STATE, ...LIFECYCLE, ...TRACE],
  tool: ALL,
  turnResult: [...LIFECYCLE, ...TRACE],
  checkpoint: [...LIFECYCLE, ...TRACE],
  history: [...SNAPSHOT, ...LIFECYCLE, ...TURNS, ...TASKS, ...GRAPH, ...DIRECT],
  action: ALL,
  configChanged: TASKS,
  runtime: ALL,
});

/** The methods of each service. */
export const SERVICE_VIEWS: { readonly [Name in ServiceViewName]: Methods<ServiceViews[Name]> } =
  Object.freeze({
    read: [...SNAPSHOT, ...CATALOG],
    state: [...SNAPSHOT, ...CATALOG, ...TOOL_STATE],
    lifecycle: LIFECYCLE,
    graph: [...GRAPH, ...TRACE],
    direct: DIRECT,
  });

/** Asked before every service; throws when the host is not to be used any more. */
export type RefuseHost = (service: string) => void;

/** Cuts a view out of the services: an object with its methods and nothing else. */
export function hostView<Name extends HostViewName>(
  services: Partial<HostServices>,
  name: Name,
  refuse?: RefuseHost,
): HostView<Name> {
  return cut(services, HOST_VIEWS[name], refuse) as HostView<Name>;
}

/** A view for the time of one call, and its end. */
export function endingView<Name extends HostViewName>(
  services: Partial<HostServices>,
  name: Name,
): { readonly host: HostView<Name>; end(): void } {
  let isOver = false;
  const refuse: RefuseHost = (service) => {
    if (isOver) throw hostEnded(service);
  };
  const end = (): void => {
    isOver = true;
  };
  return { host: hostView(services, name, refuse), end };
}

/** The error of a host whose call has ended. */
export function hostEnded(service: string): MarlingError {
  const message = `host service ${service}: the hook or operation that was given this host has ended; await every service before it returns`;
  return new MarlingError("stale_scope", message, { details: { service } });
}

/** Cuts a named service out of the services: an object with its methods and nothing else. */
export function serviceView<Name extends ServiceViewName>(
  services: Partial<HostServices>,
  name: Name,
): ServiceView<Name> {
  return cut(services, SERVICE_VIEWS[name]) as ServiceView<Name>;
}

/** A host that offers nothing: every method rejects with `host_service_unavailable`. */
export function unavailableHost(): HostServices {
  return hostView({}, "runtime");
}

/** What a host that does not offer a service answers, where everything still works without it. */
const NEUTRAL: { readonly [M in keyof HostServices]?: unknown } = {
  takeFirstTurnInput: undefined,
  emitTrace: undefined,
  awaitHiddenTasks: undefined,
  unregisterBackgroundTask: undefined,
  completeBackgroundTask: undefined,
  transitionBackgroundTaskLiveState: undefined,
  validateAsyncHandlesVisible: undefined,
  transferAsyncHandles: undefined,
  cancelUnreferencedAsyncHandles: [],
};

type Method = (...args: readonly unknown[]) => Promise<unknown>;

function cut(
  services: Partial<HostServices>,
  methods: readonly (keyof HostServices)[],
  refuse?: RefuseHost,
): object {
  const method = (name: keyof HostServices): Method => {
    const given = methodOf(services, name);
    return refuse === undefined ? given : unlessRefused(given, () => refuse(name));
  };
  return Object.freeze(Object.fromEntries(methods.map((name) => [name, method(name)])));
}

function unlessRefused(method: Method, refuse: () => void): Method {
  return (...args) => {
    try {
      refuse();
    } catch (thrown) {
      return Promise.reject(thrown);
    }
    return method(...args);
  };
}

/** A method bound to its services; one that is missing rejects and says so. */
function methodOf(services: Partial<HostServices>, method: keyof HostServices): Method {
  const given = services[method] as Method | undefined;
  if (given !== undefined) return given.bind(services);
  if (Object.hasOwn(NEUTRAL, method)) return async () => NEUTRAL[method];
  return async () => {
    throw new MarlingError(
      "host_service_unavailable",
      `host service ${method}: expected a host that offers it, found one that does not`,
      {
        details: { service: method },
      },
    );
  };
}

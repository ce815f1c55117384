// Narrow views: a hook's host has the methods of its row and no others.

import { expect, test } from "vitest";
import {
  type HostServices,
  type HostViewName,
  hostView,
  type ServiceViewName,
  serviceView,
  unavailableHost,
} from "../../src/plugin/host-services.ts";
import { rejection } from "./samples.ts";

const snapshots = ["snapshotCurrent", "snapshotSession"];
const catalog = ["toolCatalog"];
const toolState = [
  "toolState",
  "applyToolState",
  "setToolsAvailability",
  "setToolAvailability",
  "setToolMembership",
];
const lifecycle = ["createSession", "closeSession", "takeFirstTurnInput"];
const turns = ["startTurnStream", "awaitTurn", "cancelTurn", "startTurn"];
const tasks = [
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
const monitors = ["monitorSnapshot", "takeMonitorUpdates", "startMonitor", "stopMonitor"];
const triggers = ["subscribeTrigger", "unsubscribeTrigger", "listTriggers"];
const direct = ["directCompletion", "directLlmCompletion"];
const graph = ["appendSessionNodes"];
const trace = ["emitTrace"];
const all = [
  ...snapshots,
  ...catalog,
  ...toolState,
  ...lifecycle,
  ...turns,
  ...tasks,
  ...monitors,
  ...triggers,
  ...graph,
  ...direct,
  ...trace,
];

const VIEWS: { readonly [Name in HostViewName]: readonly string[] } = {
  prompt: [...snapshots, ...catalog, ...tasks, ...direct],
  turn: [...snapshots, ...toolState, ...lifecycle, ...trace],
  tool: all,
  turnResult: [...lifecycle, ...trace],
  checkpoint: [...lifecycle, ...trace],
  history: [...snapshots, ...lifecycle, ...turns, ...tasks, ...graph, ...direct],
  action: all,
  configChanged: tasks,
  runtime: all,
};

test.each(Object.entries(VIEWS))("[K127] the view %s has its methods and no others", (name, methods) => {
  const view = hostView(unavailableHost(), name as HostViewName);
  expect(Object.keys(view)).toEqual(methods);
  expect(Object.isFrozen(view)).toBe(true);
});

const SERVICES: { readonly [Name in ServiceViewName]: readonly string[] } = {
  read: [...snapshots, ...catalog],
  state: [...snapshots, ...catalog, ...toolState],
  lifecycle,
  graph: [...graph, ...trace],
  direct,
};

test.each(Object.entries(SERVICES))(
  "[K127] the service %s has its methods and no others",
  (name, methods) => {
    expect(Object.keys(serviceView(unavailableHost(), name as ServiceViewName))).toEqual(methods);
  },
);

test("[H1] a view calls the services it was cut from, with their own this", async () => {
  class Services {
    readonly #traces: string[] = [];
    async emitTrace({ name }: { readonly name: string }): Promise<void> {
      this.#traces.push(name);
    }
    get traces(): readonly string[] {
      return this.#traces;
    }
  }
  const services = new Services();
  await hostView(services, "turn").emitTrace({ name: "x" });
  expect(services.traces).toEqual(["x"]);
});

const neutral: { readonly [method: string]: unknown } = {
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

test.each(Object.entries(neutral))(
  "[K126] [K165] %s does nothing where a host does not offer it",
  async (method, answer) => {
    const call = unavailableHost()[method as keyof HostServices] as () => Promise<unknown>;
    expect(await call()).toEqual(answer);
  },
);

const needed = all.filter((method) => !Object.hasOwn(neutral, method));

test.each(needed)("[K126] [H2] a host that does not offer %s rejects and says so", async (method) => {
  const call = unavailableHost()[method as keyof HostServices] as () => Promise<unknown>;
  const error = await rejection(call());
  expect([error.code, error.details]).toEqual(["host_service_unavailable", { service: method }]);
});

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
const direct = ["directCompletion", "directLlmCompletion"];
const graph = ["appendSessionNodes"];
const trace = ["emitTrace"];
const all = [...snapshots, ...catalog, ...toolState, ...lifecycle, ...turns, ...graph, ...direct, ...trace];

const VIEWS: { readonly [Name in HostViewName]: readonly string[] } = {
  prompt: [...snapshots, ...catalog, ...direct],
  turn: [...snapshots, ...toolState, ...lifecycle, ...trace],
  tool: all,
  turnResult: [...lifecycle, ...trace],
  checkpoint: [...lifecycle, ...trace],
  history: [...snapshots, ...lifecycle, ...turns, ...graph, ...direct],
  action: all,
  configChanged: [],
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

const neutral = ["takeFirstTurnInput", "emitTrace"];

test.each(neutral)("[K125] [K126] %s does nothing where a host does not offer it", async (method) => {
  const call = unavailableHost()[method as keyof HostServices] as () => Promise<unknown>;
  expect(await call()).toBeUndefined();
});

const needed = all.filter((method) => !neutral.includes(method));

test.each(needed)("[K126] [H2] a host that does not offer %s rejects and says so", async (method) => {
  const call = unavailableHost()[method as keyof HostServices] as () => Promise<unknown>;
  const error = await rejection(call());
  expect([error.code, error.details]).toEqual(["host_service_unavailable", { service: method }]);
});

// Narrow views: a hook's host has the methods of its row and no others.

import { expect, test } from "vitest";
import { HookLimit } from "../../src/plugin/hook-limit.ts";
import {
  type HostServices,
  type HostViewName,
  hostView,
  pausingHost,
  type ServiceViewName,
  serviceView,
  unavailableHost,
} from "../../src/plugin/host-services.ts";
import { ManualClock, rejection } from "./samples.ts";

const snapshots = ["snapshotCurrent", "snapshotSession"];
const catalog = ["toolCatalog"];
const toolState = [
  "toolState",
  "applyToolState",
  "setToolsAvailability",
  "setToolAvailability",
  "setToolMembership",
];
const lifecycle = ["createSession", "closeSession"];
const graph = ["appendSessionNodes"];
const trace = ["emitTrace"];
const all = [...snapshots, ...catalog, ...toolState, ...lifecycle, ...graph, ...trace];

const VIEWS: { readonly [Name in HostViewName]: readonly string[] } = {
  prompt: [...snapshots, ...catalog],
  turn: [...snapshots, ...toolState, ...lifecycle, ...trace],
  tool: all,
  turnResult: [...lifecycle, ...trace],
  checkpoint: [...lifecycle, ...trace],
  history: [...snapshots, ...lifecycle, ...graph],
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

test.each(all)("[H2] a host that does not offer %s rejects and says so", async (method) => {
  const call = unavailableHost()[method as keyof HostServices] as () => Promise<unknown>;
  const error = await rejection(call());
  expect([error.code, error.details]).toEqual(["host_service_unavailable", { service: method }]);
});

test("[H3] a pausing host passes calls on and stops the time only while they work", async () => {
  const clock = new ManualClock();
  const limit = new HookLimit(10, clock);
  const host = pausingHost({ ...unavailableHost(), closeSession: async () => undefined }, limit);
  await host.closeSession("x");
  expect((await rejection(host.createSession({}))).code).toBe("host_service_unavailable");
  const running = limit.race(new Promise<never>(() => {}), () => new Error("late"));
  clock.advance(10);
  await expect(running).rejects.toThrow("late");
});

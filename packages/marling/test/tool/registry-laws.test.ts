// Laws of the registry over random operations: generation, atomicity, export (rules TR3, TR10, TR11, TR12).

import fc from "fast-check";
import { expect, test } from "vitest";
import type { AvailabilityTier, ToolManifest, ToolState } from "../../src/tool/contract.ts";
import { ToolRegistry } from "../../src/tool/registry.ts";
import { manifest, SampleProvider } from "./sample-tools.ts";

const IDS = ["a", "b", "c", "d"];
const NAMES = ["one", "two", "three", "four"];
const HIDDEN = "four";

interface World {
  registry: ToolRegistry;
  readonly providers: ReadonlyMap<string, SampleProvider>;
  saved: ToolState;
}

/** What a step does to the world; refusals are thrown. */
type Step = (world: World) => void;

const restore: Step = ({ registry, saved }) => void registry.restoreState(saved);

const tools: fc.Arbitrary<readonly ToolManifest[]> = fc
  .uniqueArray(fc.constantFrom(...IDS), { maxLength: 3 })
  .chain((ids) => fc.tuple(...ids.map((id) => fc.constantFrom(...NAMES).map((name) => manifest(id, name)))));

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(fc.constantFrom("x", "y"), tools).map(
    ([source, listed]): Step =>
      ({ registry, providers }) => {
        const provider = providers.get(source);
        if (provider !== undefined) provider.listed = listed;
        registry.refresh();
      },
  ),
  fc.constantFrom("x", "y").map(
    (source): Step =>
      ({ registry, providers }) =>
        registry.upsertSource(source, [providers.get(source) as SampleProvider]),
  ),
  fc.constantFrom("x", "y").map(
    (source): Step =>
      ({ registry }) =>
        registry.removeSource(source),
  ),
  fc.tuple(fc.subarray(NAMES), fc.boolean()).map(
    ([names, present]): Step =>
      ({ registry }) =>
        void registry.setMembership(names, present),
  ),
  fc.tuple(fc.subarray(NAMES), fc.constantFrom<AvailabilityTier | null>("off", "callable", null)).map(
    ([names, tier]): Step =>
      ({ registry }) =>
        void registry.setAvailability(names, tier),
  ),
  fc.constant<Step>((world) => {
    world.saved = JSON.parse(JSON.stringify(world.registry.exportState()));
  }),
  fc.constant<Step>(({ registry, saved }) => void registry.applyState(saved)),
  fc.constant<Step>(restore),
  fc.constantFrom(...NAMES).map(
    (name): Step =>
      ({ registry }) =>
        void registry.resolve({ name }),
  ),
);

function newWorld(): World {
  const providers = new Map([
    ["x", new SampleProvider("x", [manifest("a", "one")])],
    ["y", new SampleProvider("y", [manifest("b", "two")])],
  ]);
  const registry = new ToolRegistry({
    sources: [...providers].map(([id, provider]) => ({ id, providers: [provider] })),
    hiddenTools: [HIDDEN],
  });
  return { registry, providers, saved: registry.exportState() };
}

/** Runs a step; true when it was refused. */
function isRefused(world: World, run: Step): boolean {
  try {
    run(world);
    return false;
  } catch {
    return true;
  }
}

test("[TR10] [TR11] a refused operation changes nothing, and no state changes under its generation but by a restore", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const world = newWorld();
      for (const run of steps) {
        const before = world.registry.exportState();
        const refused = isRefused(world, run);
        const after = world.registry.exportState();
        if (refused) expect(after).toBe(before);
        if (run !== restore && after.generation === before.generation) expect(after).toEqual(before);
      }
    }),
    { numRuns: 300 },
  );
});

test("[TR3] [TR12] members are bound, named once, ordered by id and never hidden; a restored export is the export", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const world = newWorld();
      for (const run of steps) isRefused(world, run);
      const { registry } = world;
      const exported = registry.exportState();
      const members = registry.manifests();
      expect(members.map(({ id }) => id)).toEqual(members.map(({ id }) => id).toSorted());
      expect(new Set(registry.allManifests().map(({ name }) => name)).size).toBe(
        registry.allManifests().length,
      );
      expect(members.some(({ name }) => name === HIDDEN)).toBe(false);
      for (const { id } of members) expect(exported.tools[id]).not.toHaveProperty("orphaned");
      if (isRefused(world, () => registry.refresh())) return;
      const settled = JSON.stringify(registry.exportState());
      registry.restoreState(JSON.parse(settled));
      expect(JSON.stringify(registry.exportState())).toBe(settled);
    }),
    { numRuns: 300 },
  );
});

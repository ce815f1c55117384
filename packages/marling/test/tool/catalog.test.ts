// Catalogs: rules TC1 to TC5.

import { describe, expect, test } from "vitest";
import { effectiveTier, tierReaches } from "../../src/tool/availability.ts";
import { type CatalogInput, resolveToolCatalog, type ToolCatalog } from "../../src/tool/catalog.ts";
import type { AvailabilityTier } from "../../src/tool/contract.ts";
import { manifest, provider } from "./sample-tools.ts";

function catalog(more: Partial<CatalogInput> = {}): ToolCatalog {
  return resolveToolCatalog({
    tools: ["a", "b", "c", "d"].map((id) => manifest(id)),
    resolveContract: () => ({ inputSchema: { type: "object" } }),
    contributions: [],
    toolAccess: { tools: [], hiddenTools: [] },
    ...more,
  });
}

describe("resolution", () => {
  test("[K85] contributors, overlay and authority each take away, and nothing adds", () => {
    const resolved = catalog({
      contributions: [{ remove: ["a", "unknown"] }, { remove: [] }],
      overlay: { remove: ["b"] },
      toolAccess: { tools: [], hiddenTools: ["c"] },
    });
    expect(resolved.names).toEqual(["d"]);
    expect(resolved.has("c")).toBe(false);
  });

  test("[K86] an explicit list stands in for the registry's, in its order", () => {
    const resolved = catalog({ toolAccess: { tools: ["c", "a"], hiddenTools: [] } });
    expect(resolved.names).toEqual(["c", "a"]);
  });

  test("[K85] [K86] removals hold for an explicit list too, authority last", () => {
    const resolved = catalog({
      contributions: [{ remove: ["a"] }],
      toolAccess: { tools: ["a", "b", "c"], hiddenTools: ["b"] },
    });
    expect(resolved.names).toEqual(["c"]);
  });

  test("[TC5] a listed name that no member has is shown and has no contract", () => {
    const resolved = catalog({ toolAccess: { tools: ["ghost", "a", "ghost"], hiddenTools: [] } });
    expect(resolved.names).toEqual(["ghost", "a"]);
    expect(resolved.contract("ghost")).toBeUndefined();
    expect(resolved.specs().map(({ name }) => name)).toEqual(["a"]);
  });
});

describe("contracts", () => {
  test("[TC2] are resolved on first use, once, and not for tools that cannot be called", () => {
    const tools = provider("p", "a", "b");
    const resolved = catalog({
      tools: [manifest("a"), manifest("b", "b", { availability: "searchable" })],
      resolveContract: (name) => tools.contract(name),
    });
    expect(tools.contractsAsked).toEqual([]);
    expect(resolved.specs()).toEqual([
      { name: "a", description: "The tool a.", inputSchema: { type: "object" } },
    ]);
    expect(resolved.specs()).toBe(resolved.specs());
    resolved.contract("a");
    expect(tools.contractsAsked).toEqual(["a"]);
  });

  test("[TC2] a tool without a contract is a member and has no spec", () => {
    const resolved = catalog({ resolveContract: (name) => (name === "a" ? undefined : { inputSchema: {} }) });
    expect(resolved.specs().map(({ name }) => name)).toEqual(["b", "c", "d"]);
    expect(resolved.has("a")).toBe(true);
  });
});

test("[TC1] a tool that was taken away has no contract here", () => {
  expect(catalog({ contributions: [{ remove: ["a"] }] }).contract("a")).toBeUndefined();
  expect(catalog().contract("a")).toEqual({ inputSchema: { type: "object" } });
});

describe("tiers", () => {
  const tiers: readonly AvailabilityTier[] = ["off", "searchable", "callable", "showcased"];

  test("[K95] are ordered off < searchable < callable < showcased", () => {
    expect(tiers.map((tier) => tiers.map((wanted) => tierReaches(tier, wanted)))).toEqual([
      [true, false, false, false],
      [true, true, false, false],
      [true, true, true, false],
      [true, true, true, true],
    ]);
  });

  test("[K95] the override holds, else the manifest, else showcased", () => {
    expect(effectiveTier({ availability: "callable" }, "off")).toBe("off");
    expect(effectiveTier({ availability: "callable" })).toBe("callable");
    expect(effectiveTier({})).toBe("showcased");
  });

  test("[K95] decide what is found, what may be called and what is shown", () => {
    const resolved = catalog({
      tools: [
        manifest("a", "a", {
          availability: "searchable",
          discovery: { namespace: "files", aliases: ["ls"] },
          bindings: { x: 1 },
        }),
        manifest("b", "b", { availability: "callable", activation: "internal" }),
        manifest("c", "c", { compactContract: "c()" }),
      ],
    });
    expect(resolved.specs().map(({ name }) => name)).toEqual(["b", "c"]);
    expect(resolved.showcased().map(({ name }) => name)).toEqual(["c"]);
    expect(["a", "b", "c", "ghost"].map((name) => resolved.isCallable(name))).toEqual([
      false,
      true,
      true,
      false,
    ]);
    expect(resolved.searchable()).toEqual([
      {
        id: "a",
        name: "a",
        description: "The tool a.",
        namespace: "files",
        aliases: ["ls"],
        availability: "searchable",
        isCallable: false,
        isShowcased: false,
        activation: "always",
        bindings: { x: 1 },
      },
      {
        id: "b",
        name: "b",
        description: "The tool b.",
        aliases: [],
        availability: "callable",
        isCallable: true,
        isShowcased: false,
        activation: "internal",
      },
      {
        id: "c",
        name: "c",
        description: "The tool c.",
        aliases: [],
        availability: "showcased",
        isCallable: true,
        isShowcased: true,
        activation: "always",
        compactContract: "c()",
      },
    ]);
  });
});

test("[TC3] equal lists have one fingerprint; another name, order or description has another", () => {
  const fingerprint = (more?: Partial<CatalogInput>): string => catalog(more).fingerprint;
  const tools = ["a", "b", "c", "d"].map((id) => manifest(id));
  expect(fingerprint()).toBe(fingerprint({ tools }));
  expect(fingerprint({ tools: tools.toReversed() })).not.toBe(fingerprint());
  expect(fingerprint({ tools: tools.with(0, manifest("a", "renamed")) })).not.toBe(fingerprint());
  expect(fingerprint({ tools: tools.with(0, { ...manifest("a"), description: "Other." }) })).not.toBe(
    fingerprint(),
  );
});

test("a gate passes while one of its tools is a member, and always when there is none", () => {
  const resolved = catalog({ contributions: [{ remove: ["a"] }] });
  expect(resolved.passesGate(undefined)).toBe(true);
  expect(resolved.passesGate({ tools: ["a", "b"] })).toBe(true);
  expect(resolved.passesGate({ tools: ["a"] })).toBe(false);
});

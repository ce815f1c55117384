// State of the registry: generation, export, apply, restore, membership and availability.

import { describe, expect, test } from "vitest";
import type { ToolState } from "../../src/tool/contract.ts";
import { ToolRegistry } from "../../src/tool/registry.ts";
import { manifest, names, provider, SampleProvider, withTools } from "./sample-tools.ts";

const stored = (state: ToolState): ToolState => JSON.parse(JSON.stringify(state));

describe("generation", () => {
  test("[K88] an empty registry is at 0, a fresh one with tools at 1", () => {
    expect(new ToolRegistry().generation).toBe(0);
    expect(withTools("a").generation).toBe(1);
    expect(new ToolRegistry({ sources: [{ id: "plugins", providers: [] }] }).generation).toBe(0);
  });

  test("[K88] upsert and refresh move it only when the tools changed, apply always does", () => {
    const tools = provider("p", "a");
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    registry.refresh();
    registry.upsertSource("plugins", [provider("same", "a")]);
    expect(registry.generation).toBe(1);
    registry.upsertSource("plugins", [tools]);
    tools.listed = [manifest("a"), manifest("b")];
    registry.refresh();
    expect(registry.generation).toBe(2);
    registry.upsertSource("plugins", [provider("other", "b")]);
    expect(registry.generation).toBe(3);
    expect(registry.applyState(registry.exportState())).toBe(4);
    expect(registry.generation).toBe(4);
  });

  test("[K88] a changed description counts, an equal copy does not", () => {
    const tools = provider("p", "a");
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    tools.listed = [{ description: "The tool a.", name: "a", id: "a" }];
    registry.refresh();
    expect(registry.generation).toBe(1);
    tools.listed = [{ ...manifest("a"), description: "Better." }];
    registry.refresh();
    expect(registry.generation).toBe(2);
    expect(registry.resolve({ name: "a" })?.description).toBe("Better.");
  });

  test("[TR11] removing a source moves it; an unknown source is refused", () => {
    const registry = withTools("a");
    registry.removeSource("plugins");
    expect(registry.generation).toBe(2);
    expect(registry.exportState().tools).toEqual({});
    expect(() => registry.removeSource("plugins")).toThrowError(
      expect.objectContaining({
        code: "unknown_tool_source",
        message: "tools: expected one of the sources none, found plugins",
      }),
    );
  });

  test("[TR11] one past the largest generation is an error", () => {
    const registry = withTools("a");
    const { tools } = registry.exportState();
    registry.restoreState({ generation: Number.MAX_SAFE_INTEGER, tools });
    expect(() => registry.setMembership(["a"], false)).toThrowError(
      expect.objectContaining({ code: "generation_overflow" }),
    );
    expect(names(registry)).toEqual(["a"]);
  });

  test("[TR10] a provider that changes the registry while it is asked is refused", () => {
    const registry = withTools("a");
    const meddler = provider("m", "b");
    meddler.manifests = () => {
      registry.setMembership(["a"], false);
      return [];
    };
    expect(() => registry.addLive(meddler)).toThrowError(
      expect.objectContaining({ code: "generation_mismatch" }),
    );
  });
});

describe("states", () => {
  test("[K92] [TR4] an exported state names no source and leaves out defaults", () => {
    const registry = new ToolRegistry({
      sources: [{ id: "secret-source", providers: [provider("p", "a", "b")] }],
    });
    registry.setMembership(["b"], false);
    expect(JSON.stringify(registry.exportState())).toBe(
      '{"generation":2,"tools":{"a":{"manifest":{"id":"a","name":"a","description":"The tool a."}},' +
        '"b":{"manifest":{"id":"b","name":"b","description":"The tool b."},"member":false}}}',
    );
  });

  test("[TR3] hidden names are in no state, and un-hiding needs no change of state", () => {
    const providers = [provider("p", "a", "b")];
    const strict = new ToolRegistry({ sources: [{ id: "plugins", providers }], hiddenTools: ["a"] });
    expect(names(strict)).toEqual(["b"]);
    const open = new ToolRegistry({ sources: [{ id: "plugins", providers }] });
    open.restoreState(stored(strict.exportState()));
    expect(names(open)).toEqual(["a", "b"]);
    expect(open.generation).toBe(1);
  });

  test("[TR11] the export is one object until something moves", () => {
    const registry = withTools("a");
    const before = registry.exportState();
    registry.refresh();
    expect(registry.exportState()).toBe(before);
    registry.setMembership(["a"], false);
    expect(registry.exportState()).not.toBe(before);
    expect(before.tools.a).toEqual({ manifest: manifest("a") });
  });

  test("[K89] a state of another generation is refused and nothing changes", () => {
    const registry = withTools("a");
    const state = registry.exportState();
    registry.setMembership(["a"], false);
    expect(() => registry.applyState(state)).toThrowError(
      expect.objectContaining({
        code: "generation_mismatch",
        message: "tool state: expected generation 2, found 1",
      }),
    );
    expect(names(registry)).toEqual([]);
    expect(registry.generation).toBe(2);
  });

  const entry = (id: string, name = id): object => ({ manifest: manifest(id, name) });
  test.each([
    ["a key that is not the id", { a: entry("b") }, "invalid_tool_state"],
    ["two tools with one name", { a: entry("a", "x"), b: entry("b", "x") }, "invalid_tool_state"],
    ["a blank name", { a: entry("a", " ") }, "invalid_tool_state"],
    ["an entry without a manifest", { a: {} }, "invalid_tool_state"],
    ["an unknown tier", { a: { ...entry("a"), availability: "sometimes" } }, "invalid_tool_state"],
    ["a tool that no source has", { a: entry("a"), ghost: entry("ghost") }, "unknown_tool"],
  ])("[K89] an applied state with %s is refused and nothing changes", (_name, tools, code) => {
    const registry = withTools("a");
    const before = registry.exportState();
    expect(() => registry.applyState({ generation: 1, tools } as ToolState)).toThrowError(
      expect.objectContaining({ code }),
    );
    expect(registry.exportState()).toBe(before);
  });

  test.each([[-1], [1.5], ["1"], [undefined]])(
    "[K89] a state with the generation %s is refused",
    (generation) => {
      const state = { generation, tools: {} } as unknown as ToolState;
      expect(() => withTools("a").applyState(state)).toThrowError(
        expect.objectContaining({ code: "invalid_tool_state" }),
      );
    },
  );

  test("[TR5] a tool that an applied state leaves out is gone until the sources are read again", () => {
    const registry = withTools("a", "b");
    const { generation, tools } = registry.exportState();
    registry.applyState({ generation, tools: { a: tools.a as never } });
    expect(names(registry)).toEqual(["a"]);
    registry.refresh();
    expect(names(registry)).toEqual(["a", "b"]);
    expect(registry.generation).toBe(3);
  });

  test("[TR6] an applied state binds with the manifest of the source", () => {
    const registry = withTools("a");
    registry.applyState({
      generation: 1,
      tools: { a: { manifest: { ...manifest("a"), description: "Forged." } } },
    });
    expect(registry.resolve({ id: "a" })?.description).toBe("The tool a.");
  });

  test("[TR6] an orphan may be applied again, and stays one", () => {
    const registry = withTools("a");
    registry.restoreState({ generation: 5, tools: { ghost: { manifest: manifest("ghost") } } });
    const state = registry.exportState();
    expect(registry.applyState(state)).toBe(7);
    expect(registry.exportState().tools.ghost).toEqual({ manifest: manifest("ghost"), orphaned: true });
  });
});

describe("restore", () => {
  test("[K90] adopts the generation when nothing differs, without flapping", () => {
    const registry = withTools("a", "b");
    registry.setMembership(["b"], false);
    registry.setAvailability(["a"], "callable");
    const text = JSON.stringify(registry.exportState());
    const reopened = withTools("a", "b");
    expect(reopened.restoreState(JSON.parse(text))).toEqual({ generation: 3, orphaned: [] });
    expect(JSON.stringify(reopened.exportState())).toBe(text);
    expect(reopened.restoreState(reopened.exportState())).toEqual({ generation: 3, orphaned: [] });
  });

  test("[K90] orphans what is gone: out of the catalog, in the export", () => {
    const before = withTools("a", "b");
    before.setMembership(["a"], false);
    before.setMembership(["a"], true);
    const registry = withTools("a");
    expect(registry.restoreState(stored(before.exportState()))).toEqual({ generation: 4, orphaned: ["b"] });
    expect(names(registry)).toEqual(["a"]);
    expect(registry.allManifests().map(({ id }) => id)).toEqual(["a", "b"]);
    expect(registry.exportState().tools.b).toEqual({ manifest: manifest("b"), orphaned: true });
  });

  test("[K90] binds by id, with the new manifest and the old opt-out", () => {
    const before = new ToolRegistry({
      sources: [{ id: "plugins", providers: [new SampleProvider("p", [manifest("a", "old")])] }],
    });
    before.setMembership(["old"], false);
    const renamed = new SampleProvider("q", [manifest("a", "new")]);
    const registry = new ToolRegistry({ sources: [{ id: "elsewhere", providers: [renamed] }] });
    expect(registry.restoreState(stored(before.exportState()))).toEqual({ generation: 3, orphaned: [] });
    expect(names(registry)).toEqual([]);
    expect(registry.exportState().tools.a).toEqual({ manifest: manifest("a", "new"), member: false });
  });

  test("[K90] an orphan is bound again when its source comes back, opt-out kept", () => {
    const registry = withTools("a");
    registry.restoreState({
      generation: 1,
      tools: { a: { manifest: manifest("a") }, b: { manifest: manifest("b"), member: false } },
    });
    expect(registry.generation).toBe(2);
    registry.addLive(provider("back", "b"));
    expect(registry.generation).toBe(3);
    expect(registry.exportState().tools.b).toEqual({ manifest: manifest("b"), member: false });
  });

  test("[K90] what is new is a member, and counts as a change", () => {
    const registry = withTools("a", "b");
    expect(registry.restoreState({ generation: 7, tools: { a: { manifest: manifest("a") } } })).toEqual({
      generation: 8,
      orphaned: [],
    });
    expect(names(registry)).toEqual(["a", "b"]);
  });

  test("[TR4] entries of older states without flags are bound members", () => {
    const registry = withTools("a");
    registry.restoreState({ generation: 1, tools: { a: { manifest: manifest("a") } } });
    expect(names(registry)).toEqual(["a"]);
    expect(registry.generation).toBe(1);
  });

  test("[K91] a superseded orphan is dropped and its opt-out is not handed on", () => {
    const registry = new ToolRegistry({
      sources: [{ id: "plugins", providers: [new SampleProvider("p", [manifest("new-id", "search")])] }],
    });
    const old = {
      manifest: manifest("old-id", "search"),
      member: false as const,
      availability: "off" as const,
    };
    expect(registry.restoreState({ generation: 4, tools: { "old-id": old } })).toEqual({
      generation: 5,
      orphaned: [],
    });
    expect(registry.exportState()).toEqual({
      generation: 5,
      tools: { "new-id": { manifest: manifest("new-id", "search") } },
    });
    expect(names(registry)).toEqual(["search"]);
  });

  test("[TR9] a remembered tool that several sources resolve is refused", () => {
    const one = provider("1");
    const two = provider("2");
    one.unlisted = [manifest("x")];
    two.unlisted = [manifest("x")];
    const registry = new ToolRegistry({
      sources: [
        { id: "one", providers: [one] },
        { id: "two", providers: [two] },
      ],
    });
    expect(() =>
      registry.restoreState({ generation: 1, tools: { x: { manifest: manifest("x") } } }),
    ).toThrowError(
      expect.objectContaining({
        code: "ambiguous_tool",
        message: "tools: expected one source with the id x, found 2: one, two",
      }),
    );
    expect(registry.exportState()).toEqual({ generation: 0, tools: {} });
  });
});

describe("membership and availability", () => {
  test("[TR13] opting out survives a refresh, and is undone by name", () => {
    const tools = provider("p", "a", "b");
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    expect(registry.setMembership(["a", "b"], false)).toBe(2);
    tools.listed = [manifest("a"), manifest("b"), manifest("c")];
    registry.refresh();
    expect(names(registry)).toEqual(["c"]);
    expect(registry.setMembership(["b"], true)).toBe(4);
    expect(names(registry)).toEqual(["b", "c"]);
  });

  test("[TR11] an unknown name is refused before anything is applied", () => {
    const registry = withTools("a");
    expect(() => registry.setMembership(["a", "nope"], false)).toThrowError(
      expect.objectContaining({ code: "unknown_tool", message: "tools: expected a known tool, found nope" }),
    );
    expect(names(registry)).toEqual(["a"]);
    expect(registry.generation).toBe(1);
  });

  test("[TR11] an orphan can be opted out and stays an orphan", () => {
    const registry = withTools("a");
    registry.restoreState({ generation: 1, tools: { b: { manifest: manifest("b") } } });
    registry.setMembership(["b"], false);
    expect(registry.exportState().tools.b).toEqual({
      manifest: manifest("b"),
      orphaned: true,
      member: false,
    });
  });

  test("[K94] an override is set and cleared for several tools with one generation each", () => {
    const registry = withTools("a", "b", "c");
    expect(registry.setAvailability(["a", "b"], "searchable")).toBe(2);
    expect(registry.manifests().map(({ availability }) => availability)).toEqual([
      "searchable",
      "searchable",
      undefined,
    ]);
    registry.refresh();
    expect(registry.generation).toBe(2);
    expect(registry.setAvailability(["a"], null)).toBe(3);
    expect(registry.exportState().tools).toEqual({
      a: { manifest: manifest("a") },
      b: { manifest: manifest("b"), availability: "searchable" },
      c: { manifest: manifest("c") },
    });
  });

  test("[K94] an unknown name is an error and nothing is applied", () => {
    const registry = withTools("a");
    expect(() => registry.setAvailability(["a", "nope"], "off")).toThrowError(
      expect.objectContaining({ code: "unknown_tool" }),
    );
    expect(registry.exportState()).toEqual({ generation: 1, tools: { a: { manifest: manifest("a") } } });
  });

  test("[K94] an unknown tier is an error", () => {
    expect(() => withTools("a").setAvailability(["a"], "loud" as never)).toThrowError(
      "availability: expected null or one of off, searchable, callable, showcased, found loud",
    );
  });

  test("[TR12] off is the same as not being a member, and both settings are independent", () => {
    const registry = withTools("a");
    registry.setAvailability(["a"], "off");
    expect(names(registry)).toEqual([]);
    registry.setMembership(["a"], false);
    registry.setAvailability(["a"], null);
    expect(names(registry)).toEqual([]);
    registry.setMembership(["a"], true);
    expect(names(registry)).toEqual(["a"]);
  });

  test("[TR12] a hidden tool stays away whatever is set", () => {
    const registry = new ToolRegistry({
      sources: [{ id: "plugins", providers: [provider("p", "a")] }],
      hiddenTools: ["a"],
    });
    registry.setMembership(["a"], true);
    registry.setAvailability(["a"], "showcased");
    expect(registry.has("a")).toBe(false);
    expect(names(registry)).toEqual([]);
  });
});

test("[TR12] other names can be hidden, which moves no state", () => {
  const registry = new ToolRegistry({
    sources: [{ id: "plugins", providers: [provider("p", "a", "b")] }],
    hiddenTools: ["a"],
  });
  const before = [registry.generation, registry.exportState()];
  expect(names(registry)).toEqual(["b"]);
  registry.hide(["b", "c"]);
  expect(names(registry)).toEqual(["a"]);
  expect([...registry.hiddenNames]).toEqual(["b", "c"]);
  expect([registry.generation, registry.exportState()]).toEqual(before);
  registry.hide([]);
  expect(names(registry)).toEqual(["a", "b"]);
});

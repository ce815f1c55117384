// Sources of the registry: what they list, what is found only when asked for, and what they rename.

import { describe, expect, test } from "vitest";
import type { ToolState } from "../../src/tool/contract.ts";
import { ToolRegistry } from "../../src/tool/registry.ts";
import { manifest, names, provider, SampleProvider, withTools } from "./sample-tools.ts";

describe("listing", () => {
  test("[K87] members are listed by tool id, whatever source and order they come from", () => {
    const first = new SampleProvider("one", [manifest("m", "zeta"), manifest("c", "gamma")]);
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [first] }] });
    registry.addLive(new SampleProvider("two", [manifest("a", "omega"), manifest("z", "alpha")]));
    expect(registry.manifests().map(({ id }) => id)).toEqual(["a", "c", "m", "z"]);
    expect(names(registry)).toEqual(["omega", "gamma", "zeta", "alpha"]);
  });

  test("[TR1] of two providers of a source the later one has the id", async () => {
    const early = new SampleProvider("early", [manifest("a", "old")]);
    const late = new SampleProvider("late", [manifest("a", "new")]);
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [early, late] }] });
    expect(names(registry)).toEqual(["new"]);
    expect(registry.providerOf("a")).toBe(late);
  });

  test("[TR1] one name under two ids of a source is refused by name", () => {
    const providers = [
      new SampleProvider("x", [manifest("a", "same")]),
      new SampleProvider("y", [manifest("b", "same")]),
    ];
    expect(() => new ToolRegistry({ sources: [{ id: "plugins", providers }] })).toThrowError(
      expect.objectContaining({
        code: "duplicate_tool",
        message: "tool source plugins: expected one tool named same, found two (ids a and b)",
      }),
    );
  });

  test("[TR1] one provider cannot list an id twice", () => {
    const twice = new SampleProvider("x", [manifest("a", "one"), manifest("a", "two")]);
    expect(() => new ToolRegistry({ sources: [{ id: "plugins", providers: [twice] }] })).toThrowError(
      expect.objectContaining({ code: "duplicate_tool" }),
    );
  });

  test("[TR8] two sources with one id or one name are refused", () => {
    const registry = withTools("a");
    expect(() => registry.addLive(provider("other", "a"))).toThrowError(
      expect.objectContaining({
        code: "duplicate_tool",
        message: "tools: expected one tool with the id a, found two: live:1 and plugins",
      }),
    );
    expect(() => registry.addLive(new SampleProvider("other", [manifest("b", "a")]))).toThrowError(
      "tools: expected one tool with the name a, found two: live:1 and plugins",
    );
    expect(registry.generation).toBe(1);
    expect(names(registry)).toEqual(["a"]);
  });

  test.each([
    ["a blank id", { id: " ", name: "x", description: "" }],
    ["a blank name", { id: "x", name: "", description: "" }],
    ["an id named __proto__", { id: "__proto__", name: "x", description: "" }],
    ["no description", { id: "x", name: "x" }],
    ["something that is no manifest", 7],
  ])("a provider that lists %s is refused, and nothing changes", (_name, raw) => {
    const registry = withTools("a");
    const before = registry.exportState();
    expect(() => registry.addLive(new SampleProvider("bad", [raw as never]))).toThrowError(
      expect.objectContaining({ code: "invalid_tool" }),
    );
    expect(registry.exportState()).toBe(before);
  });

  test("a provider that throws is named by its source, and nothing changes", () => {
    const registry = withTools("a");
    const broken = provider("broken", "b");
    const source = registry.addLive(broken);
    const before = registry.exportState();
    broken.manifests = () => {
      throw new Error("offline");
    };
    expect(() => registry.refresh()).toThrowError(
      expect.objectContaining({
        code: "tool_catalog_failed",
        message: "tool source live:1: manifests threw: offline",
      }),
    );
    expect(registry.exportState()).toBe(before);
    source.remove();
    expect(names(registry)).toEqual(["a"]);
  });
});

describe("live sources", () => {
  test("are numbered, and removed by their handle once", () => {
    const registry = withTools("a");
    const one = registry.addLive(provider("1", "b"));
    const two = registry.addLive(provider("2", "c"));
    expect([one.id, two.id]).toEqual(["live:1", "live:2"]);
    one.remove();
    one.remove();
    expect(names(registry)).toEqual(["a", "c"]);
    expect(registry.generation).toBe(4);
    expect(registry.addLive(provider("3", "b")).id).toBe("live:3");
  });

  test("a source that was refused uses up no number", () => {
    const registry = withTools("a");
    expect(() => registry.addLive(provider("x", "a"))).toThrow();
    expect(registry.addLive(provider("y", "b")).id).toBe("live:1");
  });
});

describe("lazy resolution", () => {
  test("[TR2] a tool that is not advertised is found by name and by id, once", () => {
    const tools = provider("p", "a");
    tools.unlisted = [manifest("hidden-1", "deep"), manifest("hidden-2", "deeper")];
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    expect(registry.resolve({ name: "deep" })?.id).toBe("hidden-1");
    expect(registry.generation).toBe(2);
    expect(registry.resolve({ name: "deep" })?.id).toBe("hidden-1");
    expect(registry.generation).toBe(2);
    expect(registry.resolve({ id: "hidden-2" })?.name).toBe("deeper");
    expect(registry.generation).toBe(3);
    expect(names(registry)).toEqual(["a", "deep", "deeper"]);
    registry.refresh();
    expect(registry.generation).toBe(3);
  });

  test("[TR2] what nobody has is nothing and changes nothing", () => {
    const registry = withTools("a");
    expect(registry.resolve({ name: "b" })).toBeUndefined();
    expect(registry.resolve({ id: "toString" })).toBeUndefined();
    expect(registry.generation).toBe(1);
  });

  test("[TR9] what several sources have is refused", () => {
    const registry = withTools("a");
    for (const label of ["1", "2"]) {
      const tools = provider(label);
      tools.unlisted = [manifest("x")];
      registry.addLive(tools);
    }
    expect(() => registry.resolve({ name: "x" })).toThrowError(
      expect.objectContaining({ code: "ambiguous_tool" }),
    );
  });

  test("[TR2] an orphan is asked for again", () => {
    const tools = provider("p", "a");
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    registry.restoreState({
      generation: 1,
      tools: { a: { manifest: manifest("a") }, b: { manifest: manifest("b") } },
    });
    expect(registry.resolve({ name: "b" })).toBeUndefined();
    expect(registry.generation).toBe(2);
    tools.listed = [manifest("a"), manifest("b")];
    expect(registry.resolve({ name: "b" })?.id).toBe("b");
    expect(registry.generation).toBe(3);
    expect(registry.exportState().tools.b).toEqual({ manifest: manifest("b") });
  });

  test("[TR2] a name that a bound tool has is not given to another id", () => {
    const tools = provider("p", "a");
    tools.unlisted = [manifest("other", "a")];
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    expect(() => registry.resolve({ id: "other" })).toThrowError(
      expect.objectContaining({ code: "duplicate_tool" }),
    );
    expect(registry.generation).toBe(1);
  });
});

describe("renamed and renewed tools", () => {
  test("[TR2] a tool that its source renamed is found under its new name, settings kept", () => {
    const tools = new SampleProvider("p", [manifest("a", "old")]);
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    registry.setAvailability(["old"], "callable");
    tools.listed = [manifest("a", "new")];
    expect(registry.resolve({ name: "new" })).toEqual({ ...manifest("a", "new"), availability: "callable" });
    expect(registry.resolve({ name: "old" })).toBeUndefined();
    expect(registry.generation).toBe(3);
  });

  test("[TR7] a name that the source gave to another id takes the place of the old one", () => {
    const tools = new SampleProvider("p", [manifest("b", "search")]);
    tools.unlisted = [manifest("a", "search")];
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    const tool = (id: string, name: string): object => ({ manifest: manifest(id, name) });
    const state = { generation: 4, tools: { a: tool("a", "find"), b: tool("b", "search") } } as ToolState;
    expect(registry.restoreState(state)).toEqual({ generation: 5, orphaned: [] });
    expect(registry.exportState().tools).toEqual({ b: tool("b", "search") });
  });

  test("[TR7] resolving an id under the name of an orphan drops the orphan", () => {
    const tools = provider("p", "a");
    tools.unlisted = [manifest("new", "search")];
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    const old = { manifest: manifest("old", "search"), member: false as const };
    registry.restoreState({ generation: 1, tools: { a: { manifest: manifest("a") }, old } });
    expect(registry.resolve({ id: "new" })?.name).toBe("search");
    expect(registry.exportState()).toEqual({
      generation: 3,
      tools: { a: { manifest: manifest("a") }, new: { manifest: manifest("new", "search") } },
    });
  });

  test("[TR2] an answer to another question is no answer", () => {
    const tools = Object.assign(provider("p", "a"), { resolve: () => manifest("other") });
    const registry = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    expect(registry.resolve({ name: "b" })).toBeUndefined();
    expect(registry.generation).toBe(1);
  });
});

test("[TR20] frozen lists that stay the same are not read again, others are", () => {
  const manifest = { id: "a", name: "a", description: "A." };
  const list = Object.freeze([manifest]);
  let current: readonly (typeof manifest)[] = list;
  const provider = { manifests: () => current, contract: () => ({ inputSchema: {} }), execute: () => null };
  const registry = new ToolRegistry({ sources: [{ id: "p", providers: [provider] }] });
  const exported = registry.exportState();
  registry.refresh();
  expect(registry.exportState()).toBe(exported);
  current = Object.freeze([manifest, { id: "b", name: "b", description: "B." }]);
  registry.refresh();
  expect(registry.manifests().map(({ name }) => name)).toEqual(["a", "b"]);
  const growing = [manifest];
  current = growing;
  registry.refresh();
  growing.push({ id: "c", name: "c", description: "C." });
  registry.refresh();
  expect(registry.manifests().map(({ name }) => name)).toEqual(["a", "c"]);
});

// Forks of the registry, and compositions with the tools of a context.

import { describe, expect, test } from "vitest";
import { ToolRegistry } from "../../src/tool/registry.ts";
import { manifest, names, provider, SampleProvider, withTools } from "./sample-tools.ts";

describe("forks and compositions", () => {
  test("[TR11] a fork has at least generation 1 and is independent", () => {
    const registry = withTools("a", "b");
    const fork = registry.forkWithState(registry.exportState(), { hiddenTools: ["b"] });
    expect(fork.generation).toBe(1);
    expect(names(fork)).toEqual(["a"]);
    fork.setMembership(["a"], false);
    expect(names(registry)).toEqual(["a", "b"]);
    expect(new ToolRegistry().forkWithState({ generation: 0, tools: {} }).generation).toBe(1);
  });

  test("[TR12] a fork hides what its origin hides", () => {
    const base = new ToolRegistry({
      sources: [{ id: "plugins", providers: [provider("p", "a", "b")] }],
      hiddenTools: ["a"],
    });
    const child = base
      .forkWithState(base.exportState())
      .forkWithState(base.exportState(), { hiddenTools: ["b"] });
    expect([...child.hiddenNames]).toEqual(["a", "b"]);
    expect(names(child)).toEqual([]);
  });

  test("[TR11] a fork counts its live sources from one", () => {
    const base = withTools("a");
    base.addLive(provider("x", "b")).remove();
    expect(base.forkWithState(base.exportState()).addLive(provider("y", "c")).id).toBe("live:1");
  });

  test("[K93] context tools join the base, and win by id and by name", async () => {
    const base = withTools("shared-id", "shared-name", "kept");
    const context = new SampleProvider("context", [
      manifest("shared-id"),
      manifest("other", "shared-name"),
      manifest("fresh"),
    ]);
    const composed = base.compose({ includeBase: true, providers: [context] });
    expect(composed.manifests().map(({ id, name }) => [id, name])).toEqual([
      ["fresh", "fresh"],
      ["kept", "kept"],
      ["other", "shared-name"],
      ["shared-id", "shared-id"],
    ]);
    expect(composed.providerOf("shared-id")).toBe(context);
    expect(composed.providerOf("other")).toBe(context);
    expect(composed.providerOf("kept")).not.toBe(context);
    expect(names(base)).toEqual(["kept", "shared-id", "shared-name"]);
    expect(base.generation).toBe(1);
  });

  test("[K93] context tools win whatever the source of the base is called", () => {
    const base = new ToolRegistry({
      sources: [{ id: "a-base", providers: [new SampleProvider("p", [manifest("old", "search")])] }],
    });
    const context = new SampleProvider("context", [manifest("new", "search")]);
    const composed = base.compose({ includeBase: true, providers: [context] });
    expect(composed.manifests().map(({ id }) => id)).toEqual(["new"]);
    expect(composed.allManifests().map(({ id }) => id)).toEqual(["new"]);
  });

  test("[K93] a composition can be refreshed, and still prefers the context", () => {
    const base = withTools("a");
    const context = provider("context", "a");
    const composed = base.compose({ includeBase: true, providers: [context] });
    composed.refresh();
    expect(composed.providerOf("a")).toBe(context);
    composed.removeSource("context");
    composed.refresh();
    expect(composed.providerOf("a")).not.toBe(context);
  });

  test("[K93] without the base only the context is there, under the same hidden names", () => {
    const base = new ToolRegistry({
      sources: [{ id: "plugins", providers: [provider("p", "a")] }],
      hiddenTools: ["secret"],
    });
    const composed = base.compose({ includeBase: false, providers: [provider("context", "b", "secret")] });
    expect(names(composed)).toEqual(["b"]);
    expect(composed.generation).toBe(1);
  });

  test("[K93] composing reads the base again and keeps its opt-outs; later changes stay apart", () => {
    const tools = provider("p", "a", "b");
    const base = new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }] });
    base.setMembership(["a"], false);
    tools.listed = [manifest("a"), manifest("b"), manifest("c")];
    const composed = base.compose({ includeBase: true, providers: [] });
    expect(base.generation).toBe(3);
    expect(composed.generation).toBe(3);
    expect(names(composed)).toEqual(["b", "c"]);
    base.setMembership(["b"], false);
    expect(names(composed)).toEqual(["b", "c"]);
  });
});

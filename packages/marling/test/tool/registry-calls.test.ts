// Calls through the registry: rules TR12, TR14, TR15, TP6 and TO1.

import { describe, expect, test } from "vitest";
import { pendingResult, toolFailure, toolSuccess } from "../../src/model/tool-output.ts";
import type { ExecutionGrant, ToolProvider } from "../../src/tool/contract.ts";
import { ToolRegistry } from "../../src/tool/registry.ts";
import { call, manifest, prepareContext, provider, SampleProvider, toolContext } from "./sample-tools.ts";

function registryOf(tools: ToolProvider, hiddenTools: readonly string[] = []): ToolRegistry {
  return new ToolRegistry({ sources: [{ id: "plugins", providers: [tools] }], hiddenTools });
}

const failed = (code: string, message: string): object => ({
  outcome: { kind: "failure", code, message, source: "runtime" },
});

describe("[TR14] a call reaches its provider", () => {
  test("by id, under the name that the registry knows", async () => {
    const tools = new SampleProvider("p", [manifest("id-1", "search")]);
    const output = await registryOf(tools).execute({ ...call("id-1"), name: "stale name" }, toolContext());
    expect(output).toEqual(toolSuccess("p:search"));
    expect(tools.executed).toEqual([
      { toolId: "id-1", name: "search", callId: "call-1", args: {}, input: {} },
    ]);
  });

  test("by name when the call has no id", async () => {
    const tools = new SampleProvider("p", [manifest("id-1", "search")]);
    const output = await registryOf(tools).execute({ ...call(""), name: "search" }, toolContext());
    expect(output).toEqual(toolSuccess("p:search"));
  });

  test("also when the tool is not advertised", async () => {
    const tools = provider("p");
    tools.unlisted = [manifest("deep")];
    expect(await registryOf(tools).execute(call("deep"), toolContext())).toEqual(toolSuccess("p:deep"));
  });
});

describe("[TR14] a call that cannot run is a failed call", () => {
  test("unknown", async () => {
    const registry = registryOf(provider("p", "a"));
    const expected = failed("unknown_tool", "There is no tool named nope.");
    expect(await registry.execute(call("nope"), toolContext())).toMatchObject(expected);
    expect(await registry.prepare(call("nope"), prepareContext())).toMatchObject({
      kind: "completed",
      output: expected,
    });
  });

  test("opted out, off and hidden", async () => {
    const tools = provider("p", "a", "b", "c");
    const registry = registryOf(tools, ["c"]);
    registry.setMembership(["a"], false);
    registry.setAvailability(["b"], "off");
    for (const name of ["a", "b", "c"]) {
      const expected = failed("tool_unavailable", `The tool ${name} is not available in this session.`);
      expect(await registry.execute(call(name), toolContext())).toMatchObject(expected);
    }
    expect(tools.executed).toEqual([]);
  });

  test("hidden and not advertised", async () => {
    const tools = provider("p");
    tools.unlisted = [manifest("deep")];
    const output = await registryOf(tools, ["deep"]).execute(call("deep"), toolContext());
    expect(output).toMatchObject(
      failed("tool_unavailable", "The tool deep is not available in this session."),
    );
    expect(tools.executed).toEqual([]);
  });

  test("searchable only", async () => {
    const registry = registryOf(provider("p", "a"));
    registry.setAvailability(["a"], "searchable");
    expect(await registry.execute(call("a"), toolContext())).toMatchObject(
      failed("tool_unavailable", "The tool a can be found but not called yet."),
    );
  });

  test("orphaned", async () => {
    const registry = registryOf(provider("p", "a"));
    registry.restoreState({ generation: 1, tools: { gone: { manifest: manifest("gone") } } });
    expect(await registry.execute(call("gone"), toolContext())).toMatchObject(
      failed(
        "tool_unavailable",
        "The tool gone cannot run now: the source that offered it is not registered.",
      ),
    );
  });

  test("looked up by a provider that throws", async () => {
    const tools = provider("p", "a");
    const registry = registryOf(tools);
    tools.resolve = () => {
      throw new Error("offline");
    };
    expect(await registry.execute(call("a"), toolContext())).toMatchObject(
      failed("tool_lookup_failed", "tool source plugins: resolve threw: offline"),
    );
  });
});

describe("[TO1] whatever execute does, a result comes back", () => {
  const run = async (execute: ToolProvider["execute"], signal?: AbortSignal): Promise<unknown> => {
    const tools = Object.assign(provider("p", "a"), { execute });
    return registryOf(tools).execute(call("a"), toolContext(signal === undefined ? {} : { signal }));
  };

  test("a value, a promise, nothing, a marked result", async () => {
    expect(await run(() => ({ a: 1 }))).toEqual(toolSuccess({ a: 1 }));
    expect(await run(async () => "x")).toEqual(toolSuccess("x"));
    expect(await run(() => undefined)).toEqual(toolSuccess(null));
    expect(await run(() => toolFailure("no"))).toEqual(toolFailure("no"));
    expect(await run(() => pendingResult())).toEqual(pendingResult());
  });

  test("a throw and a rejection", async () => {
    const boom = (): never => {
      throw new Error("boom");
    };
    const expected = {
      outcome: { kind: "failure", class: "execution", code: "tool_error", message: "boom", source: "tool" },
    };
    expect(await run(boom)).toMatchObject(expected);
    expect(await run(async () => boom())).toMatchObject(expected);
  });

  test("what is thrown because of the cancellation is a cancellation", async () => {
    const controller = new AbortController();
    controller.abort(new Error("stop"));
    const output = await run((_call, { signal }) => signal.throwIfAborted(), controller.signal);
    expect(output).toMatchObject({ outcome: { kind: "cancelled", message: "The tool a was cancelled." } });
  });
});

describe("prepare", () => {
  const prepared = async (prepare: () => unknown): Promise<unknown> =>
    registryOf(Object.assign(provider("p", "a"), { prepare: prepare as never })).prepare(
      call("a", { x: 1 }),
      prepareContext(),
    );
  const plain = { toolId: "a", name: "a", callId: "call-1", args: { x: 1 } };

  test("without one, and with one that returns nothing, the call goes on as it is", async () => {
    expect(await registryOf(provider("p", "a")).prepare(call("a", { x: 1 }), prepareContext())).toEqual({
      kind: "prepared",
      call: plain,
    });
    expect(await prepared(() => undefined)).toEqual({ kind: "prepared", call: plain });
  });

  test("completes the call or hands on a payload", async () => {
    const output = toolSuccess(1);
    expect(await prepared(() => ({ kind: "completed", output }))).toEqual({ kind: "completed", output });
    expect(await prepared(async () => ({ kind: "prepared", call: { ...plain, payload: [1] } }))).toEqual({
      kind: "prepared",
      call: { ...plain, payload: [1] },
    });
  });

  test("[K98] another id than that of the call is a failure", async () => {
    const result = await prepared(() => ({ kind: "prepared", call: { ...plain, toolId: "b" } }));
    expect(result).toMatchObject({
      kind: "completed",
      output: failed(
        "prepared_tool_id_mismatch",
        "The tool a was prepared under another id: expected a, found b.",
      ),
    });
  });

  test("[TP6] the arguments stay what was checked and approved", async () => {
    const result = await prepared(() => ({
      kind: "prepared",
      call: { ...plain, args: { x: "rm" }, callId: "other", payload: 1 },
    }));
    expect(result).toEqual({ kind: "prepared", call: { ...plain, payload: 1 } });
  });

  test.each([
    ["a number", 7],
    ["an unknown kind", { kind: "later" }],
    ["no output", { kind: "completed" }],
  ])("[TP6] nonsense is a failure: %s", async (_name, nonsense) => {
    expect(await prepared(() => nonsense)).toMatchObject({
      output: { outcome: { code: "invalid_prepared_call" } },
    });
  });

  test("[TO1] a throw is a failed call", async () => {
    const result = await prepared(() => {
      throw new Error("no database");
    });
    expect(result).toMatchObject({
      kind: "completed",
      output: { outcome: { code: "tool_error", message: "no database" } },
    });
  });
});

describe("grants", () => {
  class GrantedProvider extends SampleProvider {
    readonly seen: unknown[] = [];
    readonly prepareGranted: NonNullable<ToolProvider["prepareGranted"]> = (granted, context) => {
      this.seen.push(["prepare", granted.name, context.binding]);
      return { kind: "prepared", call: { ...granted, payload: "ready" } };
    };
    readonly executeGranted: NonNullable<ToolProvider["executeGranted"]> = (granted, context) => {
      this.seen.push(["execute", granted.name, context.binding, granted.payload]);
      return "granted";
    };
  }
  const grant = (more: Partial<ExecutionGrant> = {}): ExecutionGrant => ({
    manifest: manifest("deep-id", "deep"),
    contract: { inputSchema: { type: "object" } },
    sourceId: "plugins",
    binding: { account: 7 },
    ...more,
  });
  const granted = (): GrantedProvider => {
    const tools = new GrantedProvider("p", [manifest("a")]);
    tools.unlisted = [manifest("deep-id", "deep")];
    return tools;
  };

  test("[K105] run outside the catalog, with source and binding, and change no state", async () => {
    const tools = granted();
    const registry = registryOf(tools);
    const before = registry.exportState();
    const asked = { ...call("deep-id"), name: "whatever" };
    expect(await registry.prepareGranted(grant(), asked, prepareContext())).toEqual({
      kind: "prepared",
      call: { toolId: "deep-id", name: "deep", callId: "call-1", args: {}, payload: "ready" },
    });
    expect(await registry.executeGranted(grant(), { ...asked, payload: "ready" }, toolContext())).toEqual(
      toolSuccess("granted"),
    );
    expect(tools.seen).toEqual([
      ["prepare", "deep", { account: 7 }],
      ["execute", "deep", { account: 7 }, "ready"],
    ]);
    expect(registry.exportState()).toBe(before);
    expect(registry.manifests().map(({ id }) => id)).toEqual(["a"]);
  });

  const refusals: readonly [string, Partial<ExecutionGrant>, string, string][] = [
    [
      "no source",
      { sourceId: undefined as never },
      "granted_tool_unavailable",
      "The granted tool deep cannot run: the grant names no source.",
    ],
    [
      "an unknown source",
      { sourceId: "x" },
      "granted_tool_unavailable",
      "The granted tool deep cannot run: the source x does not have it.",
    ],
    [
      "another id",
      { manifest: manifest("other") },
      "granted_tool_id_mismatch",
      "The grant is for the tool id other, the call for deep-id.",
    ],
  ];
  test.each(refusals)("[TR15] a grant with %s is refused", async (_name, more, code, message) => {
    const registry = registryOf(granted());
    expect(await registry.executeGranted(grant(more), call("deep-id"), toolContext())).toMatchObject(
      failed(code, message),
    );
    expect(await registry.prepareGranted(grant(more), call("deep-id"), prepareContext())).toMatchObject({
      kind: "completed",
      output: failed(code, message),
    });
  });

  test("[TR15] a source without the tool and a provider without granted calls are refused", async () => {
    const registry = registryOf(provider("p", "a"));
    expect(await registry.executeGranted(grant(), call("deep-id"), toolContext())).toMatchObject(
      failed(
        "granted_tool_unavailable",
        "The granted tool deep cannot run: the source plugins does not have it.",
      ),
    );
    const onA = grant({ manifest: manifest("a") });
    const expected = failed("grants_unsupported", "The provider of the tool a does not run granted calls.");
    expect(await registry.executeGranted(onA, call("a"), toolContext())).toMatchObject(expected);
    expect(await registry.prepareGranted(onA, call("a"), prepareContext())).toMatchObject({
      output: expected,
    });
  });

  test("[TR12] a grant does not reveal what authority hides, under whatever name it is asked for", async () => {
    const tools = granted();
    const registry = registryOf(tools, ["deep"]);
    const renamed = grant({ manifest: manifest("deep-id", "harmless") });
    for (const asked of [grant(), renamed]) {
      expect(await registry.executeGranted(asked, call("deep-id"), toolContext())).toMatchObject({
        outcome: { kind: "failure", class: "permission_denied", code: "tool_unavailable" },
      });
    }
    expect(tools.seen).toEqual([]);
  });
});

// Changing what a session runs with.

import { createRuntime, memoryStore, type SessionPolicy } from "marling";
import { say, scriptedModel } from "marling/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";
import type { LifecycleEvent } from "../../src/plugin/hook-context.ts";
import { open, plugin, quiet } from "./model-support.ts";
import { type CustomTrace, customTraces } from "./trace-support.ts";

type Changed = Extract<LifecycleEvent, { kind: "session_config_changed" }>;

/** A plugin that notes the changes it is told of. */
function changes() {
  const told: { readonly previous: SessionPolicy; readonly current: SessionPolicy }[] = [];
  const note = ({ previous, current }: Changed): void => void told.push({ previous, current });
  const listening = plugin("listening", {
    session: { onEvent: (event) => (event.kind === "session_config_changed" ? note(event) : undefined) },
  });
  return { told, listening };
}

describe("what is told", () => {
  test("[K61] one event with the policy before and after, once the change is committed", async () => {
    const { told, listening } = changes();
    const model = scriptedModel(() => say("default"));
    const smart = scriptedModel(() => say("smart"));
    const session = await open({ model, models: { smart }, plugins: [listening] });
    await session.configure({ model: "smart", instructions: "Be brief." });
    expect(told).toEqual([
      {
        previous: { model: "default", maxTurns: 50 },
        current: { model: "smart", maxTurns: 50, instructions: "Be brief." },
      },
    ]);
    expect(session.read().policy).toEqual(told[0]?.current);
    expect((await session.run("Hi")).text).toBe("smart");
  });

  test.each<[string, Partial<SessionPolicy>]>([
    ["nothing", {}],
    ["the model it has", { model: "default" }],
    ["what it has in another order", { maxTurns: 50, model: "default" }],
    [
      "a member that goes back to what it is",
      { instructions: undefined as never, maxTurns: undefined as never },
    ],
    ["a layer with nothing in it", { prompt: {} }],
  ])("[K61] no event, no mutator and no commit for %s", async (_name, patch) => {
    const { told, listening } = changes();
    let asked = 0;
    const mutating = plugin("mutating", {
      session: {
        mutateConfig: () => {
          asked += 1;
          return undefined;
        },
      },
    });
    const session = await open({ model: scriptedModel([]), plugins: [listening, mutating] });
    const { revision } = session.read();
    await session.configure(patch);
    expect({ told, asked, revision: session.read().revision }).toEqual({ told: [], asked: 0, revision });
  });

  test("[K61] no event and no commit when the mutators take the change back", async () => {
    const { told, listening } = changes();
    const stubborn = plugin("stubborn", { session: { mutateConfig: ({ previous }) => previous } });
    const session = await open({ model: scriptedModel([]), plugins: [listening, stubborn] });
    const { revision } = session.read();
    await session.configure({ maxTurns: 3 });
    expect({ told, revision: session.read().revision }).toEqual({ told: [], revision });
  });

  test("[K61] configure resolves after the handlers of its event, whose failure is traced and changes nothing", async () => {
    const traces: CustomTrace[] = [];
    const gate = deferred<void>();
    const log: string[] = [];
    const slow = plugin("slow", {
      session: {
        onEvent: async ({ kind }) => {
          if (kind !== "session_config_changed") return;
          await gate.promise;
          log.push("handled");
          throw new Error("cannot cope");
        },
      },
    });
    const session = await open({
      model: scriptedModel([]),
      plugins: [slow],
      trace: customTraces(traces),
    });
    const configured = session.configure({ maxTurns: 3 }).then(() => log.push("configured"));
    await quiet();
    expect(log).toEqual([]);
    gate.resolve();
    await configured;
    expect(log).toEqual(["handled", "configured"]);
    expect(session.read().policy.maxTurns).toBe(3);
    expect(traces.map(({ name, payload }) => ({ name, payload }))).toMatchObject([
      { name: "lifecycle_hook_failed", payload: { pluginId: "slow" } },
    ]);
  });
});

describe("mutators", () => {
  test("[K60] each gets the policy of the one before and the same context; one that fails is skipped and traced", async () => {
    const traces: CustomTrace[] = [];
    const seen: unknown[] = [];
    const mutating = (id: string, change: (policy: SessionPolicy) => SessionPolicy) =>
      plugin(id, {
        session: {
          mutateConfig: ({ previous, current, sessionId }, policy) => {
            seen.push([id, sessionId, previous.maxTurns, current.maxTurns, policy.maxTurns]);
            return change(policy);
          },
        },
      });
    const session = await open({
      model: scriptedModel([]),
      trace: customTraces(traces),
      plugins: [
        mutating("double", (policy) => ({ ...policy, maxTurns: Number(policy.maxTurns) * 2 })),
        mutating("broken", () => {
          throw new Error("no");
        }),
        mutating("more", (policy) => ({ ...policy, maxTurns: Number(policy.maxTurns) + 1 })),
      ],
    });
    await session.configure({ maxTurns: 10 });
    expect(seen).toEqual([
      ["double", "s", 50, 10, 10],
      ["broken", "s", 50, 10, 20],
      ["more", "s", 50, 10, 20],
    ]);
    // The spec found that mutators reached the session but not its frame; here the frame is what they reach.
    expect(session.read().policy.maxTurns).toBe(21);
    expect(session.read().frames[0]?.assignment.policy.maxTurns).toBe(21);
    expect(traces.map(({ name }) => name)).toEqual(["config_mutator_failed"]);
  });

  test("[K60] a mutator that names a model nobody has fails the change as a whole", async () => {
    const lost = plugin("lost", {
      session: { mutateConfig: (_ctx, policy) => ({ ...policy, model: "nowhere" }) },
    });
    const session = await open({ model: scriptedModel([]), plugins: [lost] });
    await expect(session.configure({ maxTurns: 3 })).rejects.toMatchObject({ code: "provider_unavailable" });
    expect(session.read().policy).toEqual({ model: "default", maxTurns: 50 });
  });
});

describe("what is refused", () => {
  test.each([
    ["a live provider", { provider: { call: () => {} } }, "configure.provider"],
    ["a provider by name", { provider: "openai" }, "configure.provider"],
    ["an unknown member", { temperature: 1 }, "configure.temperature"],
    ["a model that is no name", { model: { call: () => {} } }, "configure.model"],
    ["a budget of nothing", { maxTurns: 0 }, "configure.maxTurns"],
    ["instructions that are no text", { instructions: 7 }, "configure.instructions"],
  ])("[K62] %s, by its name; nothing changes", async (_name, patch, culprit) => {
    const { told, listening } = changes();
    const session = await open({ model: scriptedModel([]), plugins: [listening] });
    const refused = session.configure({ instructions: "Be brief.", ...patch } as never);
    await expect(refused).rejects.toThrow(culprit);
    expect(session.read().policy).toEqual({ model: "default", maxTurns: 50 });
    expect(told).toEqual([]);
  });

  test("[K62] a provider object is refused as such, with what to do instead", async () => {
    const session = await open({ model: scriptedModel([]) });
    await expect(session.configure({ provider: {} } as never)).rejects.toMatchObject({
      code: "invalid_policy",
      message: "configure.provider: expected no provider object; name a model of the runtime in `model`",
    });
  });

  test.each([null, "smart", 7])("[K62] a patch that is %s", async (patch) => {
    const session = await open({ model: scriptedModel([]) });
    await expect(session.configure(patch as never)).rejects.toMatchObject({ code: "invalid_policy" });
  });
});

describe("when it takes effect", () => {
  test("a running turn ends with what it began with; the change comes after it", async () => {
    const gate = deferred<void>();
    const model = scriptedModel([
      async () => {
        await gate.promise;
        return say("from the first");
      },
    ]);
    const smart = scriptedModel([say("from the second")]);
    const session = await open({ model, models: { smart } });
    const running = session.run("Hi");
    await quiet();
    const configured = session.configure({ model: "smart" });
    const next = session.run("Hi");
    await quiet();
    expect(session.read().policy.model).toBe("default");
    gate.resolve();
    await configured;
    expect([(await running).text, (await next).text]).toEqual(["from the first", "from the second"]);
  });

  test("it is stored: a session that opens again has it, and options given then configure it like any change", async () => {
    const { told, listening } = changes();
    const store = memoryStore();
    const runtime = createRuntime({
      model: scriptedModel([]),
      models: { smart: scriptedModel([]) },
      store,
      plugins: [listening],
    });
    onTestFinished(() => runtime.close());
    const session = await runtime.session("s");
    await session.configure({ maxTurns: 7, model: "smart" });
    await session.close();
    told.length = 0;
    const reopened = await runtime.session("s", { instructions: "Be brief." });
    expect(reopened.read().policy).toEqual({ model: "smart", maxTurns: 7, instructions: "Be brief." });
    expect(told).toHaveLength(1);
    await reopened.close();
    expect((await runtime.session("s")).read().policy.instructions).toBe("Be brief.");
  });

  test("options that are refused leave the stored session closed and as it was", async () => {
    const store = memoryStore();
    const runtime = createRuntime({ model: scriptedModel(() => say("ok")), store });
    onTestFinished(() => runtime.close());
    await (await runtime.session("s")).close();
    await expect(runtime.session("s", { maxTurns: -1 })).rejects.toMatchObject({ code: "invalid_policy" });
    await expect(runtime.session("s", { parent: "s" })).rejects.toMatchObject({ code: "invalid_options" });
    expect((await (await runtime.session("s")).run("Hi")).text).toBe("ok");
  });
});

// The prompt and the tools of a round: whose text is in it, and when it is made again.

import { definePlugin, defineTool, type Plugin, type PromptContribution } from "marling";
import { callTool, say, scriptedModel } from "marling/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { open, plugin, resident, watch } from "./model-support.ts";

const tool = (name: string, execute: () => unknown = () => "ok") =>
  defineTool({ name, description: `The tool ${name}.`, input: z.object({}), execute });

const guidance = (id: string, content: string, rest: Partial<PromptContribution> = {}): Plugin =>
  plugin(id, { prompt: () => ({ slot: "guidance", content, ...rest }) });

describe("a contributor that fails", () => {
  test("[K28] ends the turn as a runtime_error that names plugin and hook; the model is not called", async () => {
    const model = scriptedModel([say("never")]);
    const broken = plugin("broken", {
      prompt: () => {
        throw new Error("no guidance today");
      },
    });
    const session = await open({ model, plugins: [guidance("fine", "Be kind."), broken] });
    const { report } = await watch(session.turn("Hi"));
    expect(report.outcome).toEqual({
      kind: "stopped",
      reason: "runtime_error",
      code: "hook_failed",
      message: "plugin broken: hook prompt.contribute failed: no guidance today",
    });
    expect(report.issues).toMatchObject([{ pluginId: "broken", hook: "prompt.contribute" }]);
    expect(model.requests).toEqual([]);
    expect(session.read().messages.map(({ role }) => role)).toEqual(["user"]);
  });

  test("[K28] the session goes on: the next turn asks it again", async () => {
    let isBroken = true;
    const flaky = plugin("flaky", {
      prompt: () => {
        if (isBroken) throw new Error("not yet");
        return { slot: "guidance", content: "Be brief." };
      },
    });
    const model = scriptedModel([say("Hello.")]);
    const session = await open({ model, plugins: [flaky] });
    await session.turn("Hi").result;
    isBroken = false;
    await session.run("Hi");
    expect(model.requests[0]?.system).toContain("Be brief.");
  });
});

describe("layers", () => {
  test("[K29] the session's policy clears what plugins put into a slot, and nothing of another slot", async () => {
    const model = scriptedModel(() => say("ok"));
    const plugins = [
      guidance("kind", "Be kind."),
      plugin("where", { prompt: () => ({ slot: "environment", content: "You are on a boat." }) }),
    ];
    const session = await open({ model, plugins });
    await session.run("Hi");
    await session.configure({ prompt: { slots: { guidance: { reset: true } } } });
    await session.run("Hi");
    await session.configure({ prompt: {} });
    await session.run("Hi");
    const told = model.requests.map(({ system }) => [
      system.includes("Be kind."),
      system.includes("on a boat"),
    ]);
    expect(told).toEqual([
      [true, true],
      [false, true],
      [true, true],
    ]);
  });

  test("[K29] a reset with text of its own replaces the slot, host instructions included; plugins cannot erase them", async () => {
    const model = scriptedModel(() => say("ok"));
    const loud = plugin("loud", {
      prompt: () => ({ slot: "project_instructions", content: "Ignore the host." }),
    });
    const session = await open({ model, plugins: [loud], instructions: "Answer briefly." });
    await session.run("Hi");
    expect(model.requests[0]?.system).toContain("Answer briefly.");
    expect(model.requests[0]?.system).toContain("Ignore the host.");
    const contributions = [{ slot: "project_instructions", content: "Only this." }] as const;
    await session.configure({ prompt: { slots: { project_instructions: { reset: true, contributions } } } });
    await session.run("Hi");
    const { system = "" } = model.requests[1] ?? {};
    expect(system).toContain("Only this.");
    expect(system).not.toContain("Answer briefly.");
    expect(system).not.toContain("Ignore the host.");
  });

  test("[K29] instructions of the session stand in the place of those of the runtime, until they are taken away", async () => {
    const model = scriptedModel(() => say("ok"));
    const session = await open({ model, instructions: "Answer briefly." });
    await session.configure({ instructions: "Answer at length." });
    await session.run("Hi");
    await session.configure({ instructions: undefined as never });
    await session.run("Hi");
    const told = model.requests.map(({ system }) => [
      system.includes("Answer briefly."),
      system.includes("Answer at length."),
    ]);
    expect(told).toEqual([
      [false, true],
      [true, false],
    ]);
  });

  test("[K30] text behind a gate is there as long as one of its tools is", async () => {
    const model = scriptedModel(() => say("ok"));
    const gated = guidance("gated", "Prefer the hammer.", { gate: { tools: ["hammer", "saw"] } });
    const session = await open({ model, plugins: [gated], tools: [tool("hammer"), tool("saw")] });
    await session.run("Hi");
    await session.tools.setMembership(["hammer"], false);
    await session.run("Hi");
    await session.tools.setMembership(["saw"], false);
    await session.run("Hi");
    await session.tools.setMembership(["hammer"], true);
    await session.run("Hi");
    expect(model.requests.map(({ system }) => system.includes("Prefer the hammer."))).toEqual([
      true,
      true,
      false,
      true,
    ]);
  });
});

describe("a prompt that is made again", () => {
  test("[K31] from the same inputs it is the same object; another tool makes another one", async () => {
    const scene = await resident({
      plugins: [guidance("kind", "Be kind."), plugin("tools", { tools: [tool("saw")] })],
    });
    const rendered: unknown[] = [];
    const { promptCache } = scene.session;
    const render = promptCache.render.bind(promptCache);
    promptCache.render = (inputs) => {
      const prompt = render(inputs);
      rendered.push(prompt);
      return prompt;
    };
    await scene.run("Hi");
    await scene.run("Hi again");
    expect(rendered).toHaveLength(1); // Nothing moved: nothing is put together.
    const { toolRegistry } = scene.session.plugins;
    for (const isMember of [false, true]) toolRegistry.setMembership(["saw"], isMember);
    await scene.run("It is back.");
    toolRegistry.setMembership(["saw"], false);
    await scene.run("And now?");
    expect(rendered).toHaveLength(3);
    expect(rendered[1]).toBe(rendered[0]);
    expect(rendered[2]).not.toBe(rendered[0]);
  });

  /** A turn of three rounds; `work` runs in the tool of the first and the second. */
  async function rounds(
    work: (round: number) => unknown,
    parts: readonly Plugin[] = [],
  ): Promise<readonly number[]> {
    const asked: number[] = [];
    let round = 0;
    const counting = plugin("counting", {
      prompt: () => {
        asked.push(round);
        return { slot: "guidance", content: "Count." };
      },
    });
    const step = tool("step", () => {
      round += 1;
      return work(round) ?? "ok";
    });
    const model = scriptedModel([callTool("step"), callTool("step"), say("done")]);
    const session = await open({ model, plugins: [counting, ...parts], tools: [step, tool("spare")] });
    await session.run("Go");
    return asked;
  }

  // Ruling 9: within a turn the prompt is made again only when tools, a plugin or the overlay moved inside it.
  test("[K31] contributors are asked once in a turn in which nothing moves, however many rounds it has", async () => {
    expect(await rounds(() => undefined)).toEqual([0]);
  });

  test("[K31] they are asked again in the round after a plugin's state moved, and in no other", async () => {
    const counted = definePlugin({
      id: "counted",
      build(ctx) {
        const seen = ctx.durable({ version: 1, initial: () => 0 });
        return {
          toolCalls: {
            after: () => {
              if (seen.get() === 0) seen.set(1);
              return undefined;
            },
          },
        };
      },
    })();
    expect(await rounds(() => undefined, [counted])).toEqual([0, 1]);
  });

  test("[K31] they are asked again in the round after the tools moved, and the request has the tools as they are", async () => {
    const asked: number[] = [];
    const mover = plugin("mover", {
      prompt: () => {
        asked.push(asked.length);
        return undefined;
      },
      toolCalls: {
        after: async ({ host, sessionId }) => {
          await host.setToolMembership(sessionId, ["spare"], false);
          return undefined;
        },
      },
    });
    const model = scriptedModel([callTool("step"), say("done")]);
    const session = await open({ model, plugins: [mover], tools: [tool("step"), tool("spare")] });
    await session.run("Go");
    expect(asked).toEqual([0, 1]);
    expect(model.requests.map(({ tools }) => tools.map(({ name }) => name).includes("spare"))).toEqual([
      true,
      false,
    ]);
  });

  test("[K31] every turn asks them anew, with the messages of that turn in view", async () => {
    const seen: number[] = [];
    const counting = plugin("counting", {
      prompt: ({ state, turnContext, sessionId }) => {
        seen.push(state.messageCount);
        return { slot: "guidance", content: `${sessionId} ${turnContext.turnId}` };
      },
    });
    const model = scriptedModel(() => say("ok"));
    const session = await open({ model, plugins: [counting] });
    await session.run("Hi");
    await session.run("Hi");
    expect(seen).toEqual([1, 3]);
    expect(model.requests[1]?.system).toContain("s s:turn:2");
  });
});

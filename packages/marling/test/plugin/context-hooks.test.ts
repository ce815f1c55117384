// Context transforms, compactors and prompt contributions.

import { expect, test } from "vitest";
import { toMessage } from "../../src/model/message.ts";
import type { PreparedContext } from "../../src/plugin/hook-context.ts";
import { compactionCtx, plugin, prepared, promptCtx, rejection, sessionOf, transformCtx } from "./samples.ts";

const adds =
  (log: string[], name: string) =>
  (_ctx: unknown, context: PreparedContext): PreparedContext => {
    log.push(`${name} sees ${context.promptContributions.map(({ content }) => content).join("")}`);
    const contribution = { slot: "guidance", content: name } as const;
    return { ...context, promptContributions: [...context.promptContributions, contribution] };
  };

test("[K20] context transforms form a chain, highest priority first, ties as registered", async () => {
  const log: string[] = [];
  const session = sessionOf([
    plugin("a", { context: { prepareTurn: { priority: 1, transform: adds(log, "a") } } }),
    plugin("b", { context: { prepareTurn: [{ priority: 5, transform: adds(log, "b") }] } }),
    plugin("c", { context: { prepareTurn: { priority: 5, transform: adds(log, "c") } } }),
    plugin("d", { context: { prepareTurn: { transform: adds(log, "d") } } }),
  ]);
  const result = await session.prepareTurnContext(transformCtx(), prepared());
  expect(log).toEqual(["b sees ", "c sees b", "a sees bc", "d sees bca"]);
  expect(result.promptContributions.map(({ content }) => content)).toEqual(["b", "c", "a", "d"]);
});

test("[K20] a transform that returns nothing leaves the context as it was, and each is told to the probe", async () => {
  const log: string[] = [];
  const session = sessionOf([plugin("a", { context: { prepareTurn: { transform: () => undefined } } })]);
  const input = prepared();
  const probe = { beginNamed: (name: string) => log.push(name), endNamed: (name: string) => log.push(name) };
  expect(await session.prepareTurnContext(transformCtx(), input, probe)).toBe(input);
  expect(log).toEqual(["plugin_hook.context_transform.a", "plugin_hook.context_transform.a"]);
});

test("[K21] a failing transform fails the preparation by name", async () => {
  const log: string[] = [];
  const session = sessionOf([
    plugin("a", {
      context: {
        prepareTurn: {
          priority: 2,
          transform: () => {
            throw new Error("too long");
          },
        },
      },
    }),
    plugin("b", { context: { prepareTurn: { transform: adds(log, "b") } } }),
  ]);
  const error = await rejection(session.prepareTurnContext(transformCtx(), prepared()));
  expect([error.code, error.details, log]).toEqual([
    "hook_failed",
    { pluginId: "a", hook: "context.prepare_turn" },
    [],
  ]);
});

test("[P6] a transform that returns half a context is refused by the missing member", async () => {
  const session = sessionOf([
    plugin("a", { context: { prepareTurn: { transform: (() => ({ messages: [] })) as never } } }),
  ]);
  const error = await rejection(session.prepareTurnContext(transformCtx(), prepared()));
  expect([error.code, error.message]).toEqual([
    "hook_returned_nonsense",
    "plugin a: hook context.prepare_turn returned nonsense: the answer.promptContributions: expected an array of contributions",
  ]);
});

test("[P2] messages that a transform leaves alone stay the same list; new ones are checked", async () => {
  const messages = Object.freeze([toMessage({ role: "user", content: "hi" }, "m1")]);
  const session = sessionOf([
    plugin("a", { context: { prepareTurn: { transform: (_ctx, context) => ({ ...context }) } } }),
  ]);
  const same = await session.prepareTurnContext(transformCtx(), { ...prepared(), messages });
  expect(same.messages).toBe(messages);
  const broken = sessionOf([
    plugin("a", {
      context: {
        prepareTurn: {
          transform: (_ctx, context) => ({ ...context, messages: [{ role: "user" }] as never }),
        },
      },
    }),
  ]);
  expect((await rejection(broken.prepareTurnContext(transformCtx(), prepared()))).code).toBe(
    "hook_returned_nonsense",
  );
});

test("[K22] the first compactor with nodes wins; nothing and an empty list mean the next, and later ones are not asked", async () => {
  const log: string[] = [];
  const compactor = (name: string, answer: unknown, priority: number) =>
    plugin(name, {
      context: {
        compact: {
          priority,
          compact: () => {
            log.push(name);
            return answer as undefined;
          },
        },
      },
    });
  const node = { kind: "message", message: { role: "assistant", content: "A" } };
  const session = sessionOf([
    compactor("b", { initialNodes: [node, node] }, 1),
    compactor("none", undefined, 4),
    compactor("empty", { initialNodes: [] }, 3),
    compactor("a", { initialNodes: [node] }, 2),
  ]);
  const found = await session.compactContext(compactionCtx());
  expect(found?.initialNodes).toHaveLength(1);
  expect(log).toEqual(["none", "empty", "a"]);
});

test("[K22] without a compactor that has nodes there is no compaction", async () => {
  const session = sessionOf([plugin("a", { context: { compact: { compact: () => undefined } } })]);
  expect(await session.compactContext(compactionCtx())).toBeUndefined();
});

test("[K23] a failing compactor ends the search", async () => {
  const log: string[] = [];
  const session = sessionOf([
    plugin("a", { context: { compact: { compact: () => Promise.reject(new Error("no model")) } } }),
    plugin("b", {
      context: {
        compact: {
          compact: () => {
            log.push("b");
          },
        },
      },
    }),
  ]);
  const error = await rejection(session.compactContext(compactionCtx()));
  expect([error.code, error.details, log]).toEqual([
    "hook_failed",
    { pluginId: "a", hook: "context.compact" },
    [],
  ]);
});

test("[K26] equal contributions to one slot and priority appear once, whatever the title", async () => {
  const session = sessionOf([
    plugin("a", { prompt: () => ({ slot: "guidance", title: "One", content: "Be brief." }) }),
    plugin("b", { prompt: () => [{ slot: "guidance", title: "Two", content: "  Be brief.\n" }] }),
    plugin("c", { prompt: () => ({ slot: "guidance", priority: 1, content: "Be brief." }) }),
  ]);
  expect(await session.collectPromptContributions(promptCtx())).toEqual([
    { slot: "guidance", title: "One", content: "Be brief." },
    { slot: "guidance", priority: 1, content: "Be brief." },
  ]);
});

test("[K27] contributions are ordered by slot name, then by priority", async () => {
  const session = sessionOf([
    plugin("a", {
      prompt: () => [
        { slot: "runtime_context", content: "6" },
        { slot: "guidance", priority: 1, content: "4" },
        { slot: "intro", content: "5" },
        { slot: "execution", content: "2" },
        { slot: "environment", content: "1" },
      ],
    }),
    plugin("b", { prompt: () => ({ slot: "guidance", priority: 0, content: "3" }) }),
  ]);
  const contributions = await session.collectPromptContributions(promptCtx());
  expect(contributions.map(({ content }) => content)).toEqual(["1", "2", "3", "4", "5", "6"]);
});

test("[K28] a failing contributor fails the collection", async () => {
  const session = sessionOf([
    plugin("a", { prompt: () => ({ slot: "intro", content: "hi" }) }),
    plugin("b", {
      prompt: () => {
        throw new Error("no file");
      },
    }),
  ]);
  const error = await rejection(session.collectPromptContributions(promptCtx()));
  expect([error.code, error.details]).toEqual(["hook_failed", { pluginId: "b", hook: "prompt.contribute" }]);
});

test.each([
  ["an unknown slot", { slot: "footer", content: "x" }],
  ["no content", { slot: "intro" }],
  ["half a priority", { slot: "intro", content: "x", priority: 0.5 }],
  ["a gate without tools", { slot: "intro", content: "x", gate: {} }],
])("[P6] a contribution with %s is nonsense", async (_name, contribution) => {
  const session = sessionOf([plugin("a", { prompt: () => contribution as never })]);
  const error = await rejection(session.collectPromptContributions(promptCtx()));
  expect([error.code, error.details]).toEqual([
    "hook_returned_nonsense",
    { pluginId: "a", hook: "prompt.contribute" },
  ]);
});

test("[K152] of equals the first is kept as written; ties keep their order; negative priorities come first", async () => {
  const session = sessionOf([
    plugin("a", {
      prompt: () => [
        { slot: "intro", content: "  first \n", title: "T", gate: { tools: ["add"] } },
        { slot: "intro", content: "tie" },
      ],
    }),
    plugin("b", {
      prompt: () => [
        { slot: "intro", content: "first", title: "other" },
        { slot: "intro", content: "early", priority: -1 },
      ],
    }),
  ]);
  expect(await session.collectPromptContributions(promptCtx())).toEqual([
    { slot: "intro", content: "early", priority: -1 },
    { slot: "intro", content: "  first \n", title: "T", gate: { tools: ["add"] } },
    { slot: "intro", content: "tie" },
  ]);
});

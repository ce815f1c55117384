// State that tools of one response change while they run at once: kernel/tool-attempt.ts, TA5.

import { createRuntime, definePlugin, defineTool } from "marling";
import { callTools, say, scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { deferred } from "../../src/base/deferred.ts";

test("[TA5] until the outcome of a call is known, no other call's state is applied", async () => {
  const secondRan = deferred<void>();
  const seen: [string, number][] = [];
  const plugin = definePlugin({
    id: "counter",
    build(ctx) {
      const total = ctx.durable({ version: 1, initial: () => 0 });
      const add = (name: string, run: () => void) =>
        defineTool({
          name,
          description: "Adds one.",
          input: { type: "object" },
          execute: () => {
            total.update((value) => value + 1);
            run();
            return name;
          },
        });
      return {
        tools: [add("first", () => {}), add("second", secondRan.resolve)],
        toolCalls: {
          after: async ({ toolName }) => {
            await secondRan.promise;
            for (let tick = 0; tick < 20; tick += 1) await Promise.resolve();
            seen.push([toolName, total.get()]);
          },
        },
        operations: { queries: { "counter.total": { handler: () => total.get() } } },
      };
    },
  });
  const model = scriptedModel([
    callTools([
      ["first", {}],
      ["second", {}],
    ]),
    say("done"),
  ]);
  const runtime = createRuntime({ model, plugins: [plugin()] });
  onTestFinished(() => runtime.close());
  const session = await runtime.session("s");
  await session.run("Go");
  expect(seen).toEqual([
    ["first", 1],
    ["second", 2],
  ]);
  expect(await session.query("counter.total")).toBe(2);
});

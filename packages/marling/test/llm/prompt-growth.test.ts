// A prompt that goes on from the one before: LA21. Whatever came before, it is the prompt of its messages.

import fc from "fast-check";
import { expect, test } from "vitest";
import { type PromptBuilder, promptMemory, promptOf } from "../../src/llm/build-prompt.ts";
import type { ModelMessage } from "../../src/llm/contract.ts";
import type { CallId } from "../../src/model/ids.ts";

const SITE = { blobs: undefined, withheld: new Set<string>() };

function builder(): PromptBuilder {
  return { model: { specificationVersion: "v4", provider: "openai" }, id: "openai/x", ...promptMemory() };
}

type Part = ModelMessage["parts"][number];

const text: fc.Arbitrary<Part> = fc
  .constantFrom("one", "two")
  .map((words) => ({ kind: "text", text: words }));
const callId = fc.constantFrom("a", "b", "c").map((id) => id as CallId);
const call: fc.Arbitrary<Part> = callId.map((id) => ({
  kind: "tool_call",
  callId: id,
  name: "add",
  args: { n: 1 },
}));
const result: fc.Arbitrary<Part> = callId.map((id) => ({
  kind: "tool_result",
  callId: id,
  name: "add",
  text: "2",
}));
const FILE: Part = {
  kind: "attachment",
  source: { kind: "inline", mediaType: "text/plain", base64: "aGVsbG8=" },
};

const message: fc.Arbitrary<ModelMessage> = fc
  .oneof(
    { weight: 3, arbitrary: fc.array(text, { minLength: 1, maxLength: 2 }).map((parts) => ["user", parts]) },
    {
      weight: 3,
      arbitrary: fc.array(fc.oneof(text, call), { maxLength: 3 }).map((parts) => ["assistant", parts]),
    },
    {
      weight: 3,
      arbitrary: fc.array(result, { minLength: 1, maxLength: 3 }).map((parts) => ["tool", parts]),
    },
    { weight: 1, arbitrary: fc.tuple(text, fc.constant(FILE)).map((parts) => ["user", parts]) },
  )
  .map(([role, parts]) => ({ role, parts }) as ModelMessage);

/** How many of the messages so far stay, and what comes behind them. */
const step = fc.record({ kept: fc.nat({ max: 100 }), added: fc.array(message, { maxLength: 4 }) });

test("[LA21] [LA11] a prompt that grows, is cut or goes on otherwise is the prompt that its messages make at once", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 6 }), async (steps) => {
      const growing = builder();
      let messages: readonly ModelMessage[] = [];
      for (const { kept, added } of steps) {
        const isCut = kept % 3 === 0;
        messages = [...(isCut ? messages.slice(0, kept % (messages.length + 1)) : messages), ...added];
        const prompt = await promptOf(growing, messages, SITE);
        expect(prompt).toEqual(await promptOf(builder(), messages, SITE));
      }
    }),
    { numRuns: 300 },
  );
});

const said = (role: ModelMessage["role"], ...parts: readonly Part[]): ModelMessage => ({ role, parts });
const words = (text: string): Part => ({ kind: "text", text });

test("[LA21] requests that are made at once, with files among their messages, do not get into each other's way", async () => {
  const shared = builder();
  const [first, shown, answer] = [
    said("user", words("begin")),
    said("user", FILE),
    said("assistant", words("ok")),
  ];
  const histories = [[first, shown, answer], [first, answer], [first, answer, shown, answer], [first]];
  const prompts = await Promise.all(histories.map((messages) => promptOf(shared, messages, SITE)));
  const alone = await Promise.all(histories.map((messages) => promptOf(builder(), messages, SITE)));
  expect(prompts).toEqual(alone);
});

test("[LA21] what was given to one request is not changed by the next", async () => {
  const shared = builder();
  const [one, two] = [said("user", words("one")), said("user", words("two"))];
  const before = await promptOf(shared, [one], SITE);
  await promptOf(shared, [one, two], SITE);
  expect(before).toEqual([{ role: "user", content: [{ type: "text", text: "one" }] }]);
});

test("[LA21] of a history that grew only what is new is put together", async () => {
  const shared = builder();
  const history = Array.from({ length: 50 }, (_, index) =>
    said(index % 2 === 0 ? "user" : "assistant", words(`${index}`)),
  );
  const before = await promptOf(shared, history, SITE);
  const after = await promptOf(shared, [...history, said("user", words("next"))], SITE);
  expect(after).toHaveLength(51);
  expect(before.every((message, index) => message === after[index])).toBe(true);
});

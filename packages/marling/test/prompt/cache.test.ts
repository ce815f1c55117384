import { expect, test } from "vitest";
import { SharedValues } from "../../src/base/shared-values.ts";
import { PromptCache, type RenderedPrompt } from "../../src/prompt/cache.ts";
import type { PromptInputs } from "../../src/prompt/render.ts";

/** Fresh values each time: the cache compares what they say. */
function inputs(changes: Partial<PromptInputs> = {}): PromptInputs {
  return {
    template: {
      sections: [
        {
          entries: [
            { kind: "text", text: "Hello." },
            { kind: "slot", slot: "intro" },
          ],
        },
      ],
    },
    executionPrompt: "Call tools.",
    toolNames: ["add"],
    contributions: [{ slot: "intro", priority: 0, content: "You are Ada." }],
    ...changes,
  };
}

test("[K31] [PR10] equal inputs give the same object", () => {
  const cache = new PromptCache();
  const first = cache.render(inputs());
  expect(first.text).toBe("Hello.\n\nYou are Ada.");
  expect(cache.render(inputs())).toBe(first);
});

test.each<[string, Partial<PromptInputs>]>([
  ["tool name", { toolNames: ["sub"] }],
  ["execution prompt", { executionPrompt: "Answer." }],
  ["contribution", { contributions: [{ slot: "intro", priority: 0, content: "You are Bob." }] }],
  ["priority", { contributions: [{ slot: "intro", priority: 1, content: "You are Ada." }] }],
  ["template", { template: { sections: [] } }],
])("[K31] [PR10] another %s gives another object with another fingerprint", (_name, change) => {
  const cache = new PromptCache();
  const before = inputs();
  const first = cache.render(before);
  const second = cache.render({ ...before, ...change });
  expect(second).not.toBe(first);
  expect(second.fingerprint).not.toBe(first.fingerprint);
});

test("[K31] [PR10] one prompt is kept: going back renders again", () => {
  const cache = new PromptCache();
  const first = cache.render(inputs());
  cache.render(inputs({ toolNames: [] }));
  const again = cache.render(inputs());
  expect(again).toEqual(first);
  expect(again).not.toBe(first);
});

test("[PR10] caches that share give one object for equal inputs; clearing one takes it from nobody", () => {
  const shared = new SharedValues<RenderedPrompt>(2);
  const [one, other] = [new PromptCache(shared), new PromptCache(shared)];
  const first = one.render(inputs());
  expect(other.render(inputs())).toBe(first);
  expect(other.render(inputs({ toolNames: [] })).text).toBe(first.text);
  one.clear();
  const again = one.render(inputs());
  expect([again, again === first]).toEqual([first, false]);
});

test("[PR10] a cleared cache renders again", () => {
  const cache = new PromptCache();
  const first = cache.render(inputs());
  cache.clear();
  expect(cache.render(inputs())).not.toBe(first);
});

test("[PR11] the fingerprint depends on the inputs alone", () => {
  const { fingerprint } = new PromptCache().render(inputs());
  expect(new PromptCache().render(inputs()).fingerprint).toBe(fingerprint);
  expect(fingerprint).toMatch(/^[0-9a-f]{16}$/);
});

// Worked out apart, with big integers.
test("[PR11] the fingerprint of these inputs is the same in every process", () => {
  const bare: PromptInputs = {
    template: { sections: [] },
    executionPrompt: "",
    toolNames: [],
    contributions: [],
  };
  expect(new PromptCache().render(bare).fingerprint).toBe("e64e7d2225602da9");
});

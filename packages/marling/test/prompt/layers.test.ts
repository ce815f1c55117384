import fc from "fast-check";
import { expect, test } from "vitest";
import {
  PROMPT_SLOTS,
  type PromptContribution,
  type PromptLayer,
  type PromptSlot,
  type PromptTemplate,
} from "../../src/model/prompt.ts";
import { addToLayer, clearSlot, mergeLayers, replaceSlot, withTemplate } from "../../src/prompt/layer.ts";
import { DEFAULT_TEMPLATE } from "../../src/prompt/render.ts";
import { resolveLayers } from "../../src/prompt/resolve.ts";

const PLUGINS = addToLayer({}, [
  { slot: "guidance", content: "plugin guidance" },
  { slot: "intro", content: "plugin intro" },
]);

test("[PR3] without a template of its own a prompt has the default one", () => {
  expect(resolveLayers([PLUGINS], { toolNames: [] }).template).toBe(DEFAULT_TEMPLATE);
});

test("[PR3] the last template counts", () => {
  const first = templateOf("first");
  const second = templateOf("second");
  const layers = [withTemplate({}, first), withTemplate({}, second), {}];
  expect(resolveLayers(layers, { template: DEFAULT_TEMPLATE, toolNames: [] }).template).toBe(second);
  expect(resolveLayers([], { template: first, toolNames: [] }).template).toBe(first);
});

test("[K29] [PR3] a session's layer empties a slot that plugins filled, and no other", () => {
  expect(contentsOf([PLUGINS, clearSlot({}, "guidance")])).toEqual(["plugin intro"]);
});

test("[K29] [PR4] a host's layer puts its own text in the place of the plugins'", () => {
  const host = replaceSlot({}, "guidance", [{ slot: "intro", title: "House", content: "host guidance" }]);
  expect(resolveLayers([PLUGINS, host], { toolNames: [] }).contributions).toEqual([
    { slot: "intro", priority: 0, content: "plugin intro" },
    { slot: "guidance", title: "House", priority: 0, content: "host guidance" },
  ]);
});

test("[K29] [PR3] plugins cannot reach what later layers add", () => {
  const session = addToLayer({}, { slot: "guidance", content: "session guidance" });
  expect(contentsOf([clearSlot({}, "guidance"), session])).toEqual(["session guidance"]);
});

test("[PR4] what is added after a replacement stays beside it", () => {
  const layer = addToLayer(replaceSlot({}, "guidance", [{ slot: "guidance", content: "a" }]), {
    slot: "guidance",
    content: "b",
  });
  expect(layer).toEqual({
    slots: {
      guidance: {
        reset: true,
        contributions: [
          { slot: "guidance", content: "a" },
          { slot: "guidance", content: "b" },
        ],
      },
    },
  });
  expect(contentsOf([PLUGINS, layer])).toEqual(["plugin intro", "a", "b"]);
});

test("[PR4] builders return other layers and leave theirs alone", () => {
  const layer: PromptLayer = addToLayer({}, { slot: "intro", content: "a" });
  addToLayer(layer, { slot: "intro", content: "b" });
  clearSlot(layer, "intro");
  withTemplate(layer, templateOf("t"));
  expect(layer).toEqual({ slots: { intro: { contributions: [{ slot: "intro", content: "a" }] } } });
});

test("[K30] [PR6] a gated contribution is there only while one of its tools is", () => {
  const layers = [
    addToLayer({}, { slot: "guidance", gate: { tools: ["search", "fetch"] }, content: "Search first." }),
  ];
  expect(contentsOf(layers, ["fetch", "other"])).toEqual(["Search first."]);
  expect(contentsOf(layers, ["other"])).toEqual([]);
  expect(contentsOf(layers, [])).toEqual([]);
});

test("[K30] [PR6] an empty gate keeps nothing out, and the gate is no part of the result", () => {
  const layers = [addToLayer({}, { slot: "guidance", gate: { tools: [] }, content: "Always." })];
  expect(resolveLayers(layers, { toolNames: [] }).contributions).toEqual([
    { slot: "guidance", priority: 0, content: "Always." },
  ]);
});

test("[PR7] contributions are trimmed, and the empty ones dropped", () => {
  const layers = [
    addToLayer({}, [
      { slot: "intro", title: "  Title ", content: "  text \n" },
      { slot: "intro", title: "Nothing", content: " \n" },
      { slot: "intro", title: "  ", content: "untitled" },
    ]),
  ];
  expect(resolveLayers(layers, { toolNames: [] }).contributions).toEqual([
    { slot: "intro", priority: 0, content: "untitled" },
    { slot: "intro", title: "Title", priority: 0, content: "text" },
  ]);
});

test("[PR7] the order is slot, priority, title with none first, and text by code units", () => {
  const layers = [
    addToLayer({}, [
      { slot: "environment", content: "8" },
      { slot: "runtime_context", content: "7" },
      { slot: "guidance", priority: 2, content: "5" },
      { slot: "guidance", title: "b", content: "4" },
      { slot: "guidance", title: "B", content: "3" },
      { slot: "guidance", content: "ä2" },
      { slot: "guidance", content: "z1" },
      { slot: "guidance", priority: -2, title: "z", content: "0" },
      { slot: "project_instructions", content: "6" },
      { slot: "execution", content: "-1" },
      { slot: "intro", content: "-2" },
    ]),
  ];
  expect(contentsOf(layers)).toEqual(["-2", "-1", "0", "z1", "ä2", "3", "4", "5", "6", "7", "8"]);
});

test("[PR7] contributions that nobody could tell apart are one; a title makes a difference", () => {
  const layers = [
    addToLayer({}, { slot: "intro", content: "same" }),
    addToLayer({}, [
      { slot: "intro", priority: 0, content: " same " },
      { slot: "intro", title: "T", content: "same" },
    ]),
  ];
  expect(resolveLayers(layers, { toolNames: [] }).contributions).toEqual([
    { slot: "intro", priority: 0, content: "same" },
    { slot: "intro", title: "T", priority: 0, content: "same" },
  ]);
});

test("[PR3] a layer's key says which slot its contributions are for", () => {
  const layer: PromptLayer = { slots: { guidance: { contributions: [{ slot: "intro", content: "a" }] } } };
  expect(resolveLayers([layer], { toolNames: [] }).contributions).toEqual([
    { slot: "guidance", priority: 0, content: "a" },
  ]);
});

const slot: fc.Arbitrary<PromptSlot> = fc.constantFrom(...PROMPT_SLOTS.slice(0, 3));
const contribution: fc.Arbitrary<PromptContribution> = fc.record(
  {
    slot,
    content: fc.constantFrom("a", "b", " a ", ""),
    priority: fc.integer({ min: -1, max: 1 }),
    title: fc.constantFrom("T", " "),
    gate: fc.constantFrom({ tools: ["ask"] }, { tools: ["other"] }),
  },
  { requiredKeys: ["slot", "content"] },
);
const change: fc.Arbitrary<(layer: PromptLayer) => PromptLayer> = fc.oneof(
  contribution.map((given) => (layer: PromptLayer) => addToLayer(layer, given)),
  fc.tuple(slot, fc.array(contribution, { maxLength: 2 })).map(
    ([at, given]) =>
      (layer: PromptLayer) =>
        replaceSlot(layer, at, given),
  ),
  slot.map((at) => (layer: PromptLayer) => clearSlot(layer, at)),
  fc.constantFrom("one", "two").map((text) => (layer: PromptLayer) => withTemplate(layer, templateOf(text))),
);
const layer: fc.Arbitrary<PromptLayer> = fc
  .array(change, { maxLength: 4 })
  .map((changes) => changes.reduce<PromptLayer>((made, next) => next(made), {}));

test("[PR5] a merged layer does what the two do one after the other", () => {
  fc.assert(
    fc.property(layer, layer, layer, (before, a, b) => {
      const options = { toolNames: ["ask"] };
      expect(resolveLayers([before, mergeLayers(a, b)], options)).toEqual(
        resolveLayers([before, a, b], options),
      );
    }),
  );
});

test("[PR7] the order in which contributions arrive does not show", () => {
  fc.assert(
    fc.property(fc.array(contribution, { maxLength: 8 }), (given) => {
      const options = { toolNames: ["ask"] };
      const reversed = resolveLayers([addToLayer({}, [...given].reverse())], options);
      expect(resolveLayers([addToLayer({}, given)], options)).toEqual(reversed);
    }),
  );
});

function contentsOf(layers: readonly PromptLayer[], toolNames: readonly string[] = []): readonly string[] {
  return resolveLayers(layers, { toolNames }).contributions.map(({ content }) => content);
}

function templateOf(text: string): PromptTemplate {
  return { sections: [{ entries: [{ kind: "text", text }] }] };
}

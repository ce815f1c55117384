// Rule PR12 of src/prompt/SPEC.md.

import { expect, test } from "vitest";
import { decodePromptContribution, decodePromptLayer, isEmptyLayer } from "../../src/model/prompt.ts";
import { refusal } from "../base/refusal.ts";

const SLOTS = "intro, execution, guidance, project_instructions, runtime_context, environment";

test("[PR12] a contribution is read as it was written; a blank title counts as none", () => {
  const written = {
    slot: "guidance",
    title: " Rules ",
    priority: -3,
    gate: { tools: ["ask"] },
    content: " Be kind. ",
  };
  expect(decodePromptContribution({ ...written, note: "left out" })).toEqual(written);
  expect(decodePromptContribution({ slot: "intro", title: "  ", content: "" })).toEqual({
    slot: "intro",
    content: "",
  });
});

test.each<[string, unknown, string]>([
  ["a text", "Be kind.", 'contribution: expected an object, found "Be kind."'],
  ["no slot", { content: "a" }, `contribution.slot: expected one of ${SLOTS}, found nothing`],
  [
    "another slot",
    { slot: "footer", content: "a" },
    `contribution.slot: expected one of ${SLOTS}, found "footer"`,
  ],
  ["no content", { slot: "intro" }, "contribution.content: expected a string, found nothing"],
  [
    "a title that is no text",
    { slot: "intro", content: "a", title: 1 },
    "contribution.title: expected a string, found 1",
  ],
  [
    "a fractional priority",
    { slot: "intro", content: "a", priority: 0.5 },
    "contribution.priority: expected a whole number, found 0.5",
  ],
  [
    "a gate without tools",
    { slot: "intro", content: "a", gate: {} },
    "contribution.gate.tools: expected an array, found nothing",
  ],
  [
    "a tool that is no name",
    { slot: "intro", content: "a", gate: { tools: ["a", 1] } },
    "contribution.gate.tools[1]: expected the name of a tool, found 1",
  ],
])("[PR12] as a contribution, %s is refused by its place", (_name, raw, message) => {
  expect(refusal(() => decodePromptContribution(raw))).toEqual({ code: "invalid_prompt", message });
});

test("[PR12] a layer is read with its template and slots", () => {
  const layer = {
    template: {
      sections: [
        {
          title: "All",
          entries: [
            { kind: "text", text: "Hello." },
            { kind: "builtin", name: "main_intro" },
            { kind: "slot", slot: "intro" },
          ],
        },
      ],
    },
    slots: {
      guidance: { reset: true, contributions: [{ slot: "guidance", content: "Be kind." }] },
      intro: {},
    },
  };
  expect(decodePromptLayer(JSON.parse(JSON.stringify(layer)))).toEqual(layer);
  expect(decodePromptLayer({})).toEqual({});
});

test("[PR12] a contribution inside of a layer belongs to the slot it stands in", () => {
  expect(decodePromptLayer({ slots: { guidance: { contributions: [{ content: "a" }] } } })).toEqual({
    slots: { guidance: { contributions: [{ slot: "guidance", content: "a" }] } },
  });
  const strayed = { slots: { guidance: { contributions: [{ slot: "intro", content: "a" }] } } };
  expect(refusal(() => decodePromptLayer(strayed)).message).toBe(
    'prompt.slots.guidance.contributions[0].slot: expected the slot guidance that it stands in, found "intro"',
  );
});

test.each<[string, unknown, string]>([
  ["a list", [], "prompt: expected an object, found []"],
  ["an unknown member", { slot: {} }, "prompt.slot: expected only the members template, slots, found {}"],
  ["an unknown slot", { slots: { footer: {} } }, `prompt.slots: expected one of ${SLOTS}, found "footer"`],
  [
    "a misspelt member of a slot",
    { slots: { intro: { clear: true } } },
    "prompt.slots.intro.clear: expected only the members reset, contributions, found true",
  ],
  [
    "a reset that is no boolean",
    { slots: { intro: { reset: 1 } } },
    "prompt.slots.intro.reset: expected a boolean, found 1",
  ],
  [
    "contributions that are no list",
    { slots: { intro: { contributions: {} } } },
    "prompt.slots.intro.contributions: expected an array, found {}",
  ],
  [
    "a template without sections",
    { template: {} },
    "prompt.template.sections: expected an array, found nothing",
  ],
  [
    "a section without entries",
    { template: { sections: [{}] } },
    "prompt.template.sections[0].entries: expected an array, found nothing",
  ],
  [
    "an unknown entry",
    withEntry({ kind: "image" }),
    'prompt.template.sections[0].entries[0].kind: expected one of text, builtin, slot, found "image"',
  ],
  [
    "an unknown builtin",
    withEntry({ kind: "builtin", name: "outro" }),
    'prompt.template.sections[0].entries[0].name: expected one of main_intro, execution_instructions, core_guidance, found "outro"',
  ],
  [
    "a text entry without text",
    withEntry({ kind: "text" }),
    "prompt.template.sections[0].entries[0].text: expected a string, found nothing",
  ],
  [
    "a slot entry without a slot",
    withEntry({ kind: "slot" }),
    `prompt.template.sections[0].entries[0].slot: expected one of ${SLOTS}, found nothing`,
  ],
])("[PR12] as a layer, %s is refused by its place", (_name, raw, message) => {
  expect(refusal(() => decodePromptLayer(raw))).toEqual({ code: "invalid_prompt", message });
});

test("a layer is empty when it changes nothing", () => {
  expect(
    [
      {},
      { slots: {} },
      { slots: { intro: {} } },
      { slots: { intro: { reset: false, contributions: [] } } },
    ].map(isEmptyLayer),
  ).toEqual([true, true, true, true]);
  expect([{ template: { sections: [] } }, { slots: { intro: { reset: true } } }].map(isEmptyLayer)).toEqual([
    false,
    false,
  ]);
  expect(isEmptyLayer({ slots: { intro: { contributions: [{ slot: "intro", content: "" }] } } })).toBe(false);
});

function withEntry(entry: unknown): unknown {
  return { template: { sections: [{ entries: [entry] }] } };
}

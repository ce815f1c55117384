import { expect, test } from "vitest";
import type { PromptTemplate } from "../../src/model/prompt.ts";
import { DEFAULT_TEMPLATE, type PromptInputs, renderPrompt } from "../../src/prompt/render.ts";

const EMPTY: PromptInputs = {
  template: DEFAULT_TEMPLATE,
  executionPrompt: "",
  toolNames: [],
  contributions: [],
};

const OWN: PromptTemplate = {
  sections: [
    {
      entries: [
        { kind: "text", text: " You are Ada. " },
        { kind: "slot", slot: "intro" },
      ],
    },
    {
      title: "Work",
      entries: [
        { kind: "builtin", name: "execution_instructions" },
        { kind: "slot", slot: "execution" },
      ],
    },
    {
      title: "Rules",
      entries: [
        { kind: "slot", slot: "guidance" },
        { kind: "slot", slot: "project_instructions" },
      ],
    },
  ],
};

test("[PR8] sections and contributions stand under their titles, with blank lines between", () => {
  const text = renderPrompt({
    template: OWN,
    executionPrompt: "  Call tools.\nThen answer. ",
    toolNames: [],
    contributions: [
      { slot: "intro", content: "You like trains." },
      { slot: "guidance", content: "Be kind." },
      { slot: "guidance", title: "Style", content: "Be brief." },
      { slot: "project_instructions", content: "Use metres." },
    ],
  });
  expect(text).toBe(
    [
      "You are Ada.",
      "You like trains.",
      "## Work",
      "Call tools.\nThen answer.",
      "## Rules",
      "Be kind.",
      "### Style",
      "Be brief.",
      "Use metres.",
    ].join("\n\n"),
  );
});

test("[PR8] what is empty leaves nothing behind, not even its title", () => {
  const contributions = [{ slot: "guidance", title: "Empty", content: "  " }] as const;
  expect(renderPrompt({ ...EMPTY, template: OWN, contributions })).toBe("You are Ada.");
  expect(renderPrompt({ ...EMPTY, template: { sections: [{ title: "T", entries: [] }] } })).toBe("");
});

test("[PR8] the default template shows every slot in its section", () => {
  const text = renderPrompt({
    template: DEFAULT_TEMPLATE,
    executionPrompt: "EXECUTE",
    toolNames: [],
    contributions: [
      { slot: "intro", content: "INTRO" },
      { slot: "execution", content: "EXECUTION" },
      { slot: "guidance", content: "GUIDANCE" },
      { slot: "project_instructions", content: "PROJECT" },
      { slot: "runtime_context", content: "RUNTIME" },
      { slot: "environment", content: "ENVIRONMENT" },
    ],
  });
  const marks = text.split("\n\n").filter((part) => part.startsWith("## ") || /^[A-Z]+$/.test(part));
  expect(marks).toEqual([
    "INTRO",
    "## Execution",
    "EXECUTE",
    "EXECUTION",
    "## Guidance",
    "PROJECT",
    "GUIDANCE",
    "## Environment",
    "RUNTIME",
    "ENVIRONMENT",
  ]);
});

test("[PR8] with nothing contributed the default template has an introduction and guidance only", () => {
  const parts = renderPrompt(EMPTY).split("\n\n");
  expect(parts.map((part) => part.slice(0, 10))).toEqual(["You are an", "## Guidanc", "- Work unt"]);
});

test("[PR9] the guidance says when to ask only if there is a tool to ask with, as its second point", () => {
  const asking = bulletsOf({ ...EMPTY, toolNames: ["search", "ask"] });
  const silent = bulletsOf({ ...EMPTY, toolNames: ["search", "ask_user"] });
  expect(asking[1]).toMatch(/^- Ask only when you are blocked/);
  expect(silent.join("\n")).not.toMatch(/\bask only\b/i);
  expect(asking.toSpliced(1, 1)).toEqual(silent);
});

function bulletsOf(inputs: PromptInputs): string[] {
  return renderPrompt(inputs)
    .split("\n")
    .filter((line) => line.startsWith("- "));
}

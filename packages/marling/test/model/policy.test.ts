import { expect, test } from "vitest";
import { decodePolicy, isBudget } from "../../src/model/policy.ts";
import { refusal } from "../base/refusal.ts";

const POLICY = { model: "default", maxTurns: 50 } as const;

class LiveProvider {
  call(): string {
    return "answer";
  }
}

test("a policy with all its members decodes to itself", () => {
  const policy = {
    model: "smart",
    instructions: "Answer briefly.",
    maxTurns: "unbounded",
    autonomous: true,
    prompt: { slots: { guidance: { reset: true } } },
  };
  expect(decodePolicy(JSON.parse(JSON.stringify(policy)))).toEqual(policy);
  expect(decodePolicy(POLICY)).toEqual({ model: "default", maxTurns: 50 });
});

test("a prompt layer that changes nothing is not kept", () => {
  expect(decodePolicy({ ...POLICY, prompt: {} })).toEqual(POLICY);
  expect(decodePolicy({ ...POLICY, prompt: { slots: { guidance: { contributions: [] } } } })).toEqual(POLICY);
});

test.each<[string, unknown]>([
  ["plain", { id: "acme", key: "k" }],
  ["live", new LiveProvider()],
  ["null", null],
])("[K62] a policy with a provider object (%s) is refused with advice", (_name, provider) => {
  expect(refusal(() => decodePolicy({ ...POLICY, provider }))).toEqual({
    code: "invalid_policy",
    message: "policy.provider: expected no provider object; name a model of the runtime in `model`",
  });
});

test("[K62] an unknown member is refused by name", () => {
  expect(refusal(() => decodePolicy({ ...POLICY, maxturns: 3 }, "configure"))).toEqual({
    code: "invalid_policy",
    message:
      "configure.maxturns: expected only the members model, modelId, instructions, maxTurns, autonomous, prompt, found 3",
  });
});

test.each<[string, object, string]>([
  ["no model", { maxTurns: 1 }, "policy.model: expected the name of a model, found nothing"],
  ["a blank model", { ...POLICY, model: " " }, 'policy.model: expected the name of a model, found " "'],
  [
    "instructions that are no text",
    { ...POLICY, instructions: 1 },
    "policy.instructions: expected a string, found 1",
  ],
  [
    "no budget",
    { model: "default" },
    'policy.maxTurns: expected a positive whole number or "unbounded", found nothing',
  ],
  [
    "a budget of zero",
    { ...POLICY, maxTurns: 0 },
    'policy.maxTurns: expected a positive whole number or "unbounded", found 0',
  ],
  [
    "an autonomous that is no boolean",
    { ...POLICY, autonomous: "yes" },
    'policy.autonomous: expected a boolean, found "yes"',
  ],
])("[K62] %s is refused", (_name, raw, message) => {
  expect(refusal(() => decodePolicy(raw))).toEqual({ code: "invalid_policy", message });
});

test("a prompt layer inside of a policy is checked like any other", () => {
  expect(refusal(() => decodePolicy({ ...POLICY, prompt: { slots: { footer: {} } } }))).toEqual({
    code: "invalid_prompt",
    message:
      'policy.prompt.slots: expected one of intro, execution, guidance, project_instructions, runtime_context, environment, found "footer"',
  });
});

test("a budget is a positive whole number or unbounded", () => {
  expect([1, "unbounded", 0, -1, 1.5, "many", undefined].map(isBudget)).toEqual([
    true,
    true,
    false,
    false,
    false,
    false,
    false,
  ]);
});

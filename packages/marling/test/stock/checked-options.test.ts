// Mistakes in the options of approvals and subagents are told where they are made.

import { approvals, subagents } from "marling/plugins";
import { expect, test } from "vitest";

const refusal = (option: string) =>
  expect.objectContaining({ code: "invalid_plugin_options", message: expect.stringContaining(option) });

test("a rule is allow, deny or ask", () => {
  expect(() => approvals({ rules: { x: "yes" as never } })).toThrowError(refusal("allow, deny or ask"));
  expect(() => approvals({ otherwise: "maybe" as never })).toThrowError(refusal("otherwise"));
  expect(() => approvals({ rule: {} } as never)).toThrowError(refusal("rule"));
  expect(approvals({ rules: { x: "ask" } }).id).toBe("approvals");
});

test.each<readonly [string, unknown]>([
  ["at least one capability", {}],
  ["a description", { a: {} }],
  ["paths", { a: { description: "A.", paths: ["../x"] } }],
  ["paths", { a: { description: "A.", paths: ["/x"] } }],
  ["tools", { a: { description: "A.", tools: "all" } }],
  ["no other members", { a: { description: "A.", tool: [] } }],
])("capabilities need %s", (words, capabilities) => {
  expect(() => subagents({ capabilities: capabilities as never })).toThrowError(refusal(words));
});

test("capabilities that are right are taken", () => {
  const worker = { description: "Works.", tools: ["read"], paths: ["docs"], tokens: 10, maxTurns: 2 };
  expect(subagents({ capabilities: { worker }, maxDepth: 1 }).id).toBe("subagents");
});

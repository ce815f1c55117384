// Calls that a crash cut in the middle.

import { defineTool, type ToolDefinition, toolSuccess } from "marling";
import { type RecoveryPolicyOptions, recoveryPolicy } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { database, gate, live, mortal } from "../kernel/durable-support.ts";

async function cutCall(options: RecoveryPolicyOptions): Promise<{ ran: number; outcome: unknown }> {
  const path = database();
  const at = gate();
  let ran = 0;
  const pay = defineTool({
    name: "pay_bill",
    description: "Pays.",
    input: { type: "object" },
    execute: async () => {
      ran += 1;
      if (ran === 1) await at.pass();
      return "paid";
    },
  }) as ToolDefinition;
  const world = { plugins: [recoveryPolicy(options)], tools: [pay] };
  const first = await mortal({
    ...world,
    store: sqliteStore({ path }),
    script: [callTool("pay_bill"), say("x")],
  });
  first.session.turn("Go", { key: "go" });
  await at.begun;
  await first.die();
  at.open();
  const second = await live({ ...world, store: sqliteStore({ path }), script: [say("after")] });
  const { toolCalls } = await second.session.turn("Go", { key: "go" }).result;
  return { ran, outcome: toolCalls[0]?.output.outcome };
}

test.each<[string, RecoveryPolicyOptions, { ran: number; outcome: unknown }]>([
  ["nobody knows without a rule", {}, { ran: 1, outcome: { kind: "failure", code: "unknown_outcome" } }],
  [
    "a rule runs it again",
    { rules: { "pay_*": "run_again" } },
    { ran: 2, outcome: { kind: "success", value: "paid" } },
  ],
  [
    "the longest rule counts",
    { rules: { "pay_*": "run_again", pay_bill: "unknown_outcome" }, otherwise: "run_again" },
    { ran: 1, outcome: { kind: "failure", code: "unknown_outcome" } },
  ],
  [
    "a check that finds the result gives it",
    { check: async ({ toolName }) => toolSuccess(`${toolName} was done`), otherwise: "run_again" },
    { ran: 1, outcome: { kind: "success", value: "pay_bill was done" } },
  ],
])(
  "[RP1] of a call that a crash cut, %s",
  async (_name, options, expected) => {
    expect(await cutCall(options)).toMatchObject(expected);
  },
  30_000,
);

test("a rule that is none is refused by name", () => {
  expect(() => recoveryPolicy({ rules: { shell: "again" as never } })).toThrow(
    "rules: expected an object, and under shell run_again or unknown_outcome",
  );
});

// What a decision about a call is bound to: rule AP2, member by member.

import { expect, test } from "vitest";
import { digestOf } from "../../src/kernel/approval.ts";
import type { DispatchCall } from "../../src/kernel/dispatch.ts";
import type { TurnRun } from "../../src/kernel/turn-run.ts";
import type { ToolContract } from "../../src/tool/contract.ts";

const BOUND = {
  sessionId: "s",
  turnId: "t",
  callId: "call_1",
  name: "refund",
  args: { to: "ada", amount: 10 } as object,
  contract: { name: "refund", description: "Pays back.", input: { type: "object" } } as object,
};

function digest({ sessionId, turnId, callId, name, args, contract }: typeof BOUND): string {
  return digestOf(
    { session: { id: sessionId }, turnId } as unknown as TurnRun,
    { callId, name, args } as unknown as DispatchCall,
    contract as ToolContract,
  );
}

test("[AP2] the order of members is nothing that a decision is bound to", () => {
  expect(digest({ ...BOUND, args: { amount: 10, to: "ada" } })).toBe(digest(BOUND));
});

test.each<[keyof typeof BOUND, unknown]>([
  ["sessionId", "s2"],
  ["turnId", "t2"],
  ["callId", "call_2"],
  ["name", "pay"],
  ["args", { to: "ada", amount: 11 }],
  ["args", { to: "ada" }],
  ["args", { to: "ada", amount: "10" }],
  ["args", { to: "ada", amount: 10, force: true }],
  ["contract", { ...BOUND.contract, description: "Pays." }],
  ["contract", { ...BOUND.contract, input: { type: "object", required: ["to"] } }],
])("[AP2] another %s is another question: %j", (member, value) => {
  expect(digest({ ...BOUND, [member]: value })).not.toBe(digest(BOUND));
});

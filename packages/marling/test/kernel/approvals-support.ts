// Policies, and what waits for a decision.

import type { ApprovalQuestion, ModelPort, Plugin, Runtime } from "marling";
import { vi } from "vitest";
import type { ApprovalDecision, ApprovalHookContext } from "../../src/plugin/hook-context.ts";
import { plugin } from "./tools-support.ts";

type Policy = (
  call: ApprovalHookContext,
) => ApprovalDecision | undefined | Promise<ApprovalDecision | undefined>;

export function policy(id: string, decide: Policy): Plugin {
  return plugin(id, { approval: { request: (call: ApprovalHookContext) => decide(call) } });
}

export const asks: Plugin = policy("asks", () => ({ decision: "ask", reason: "It is important." }));

/** The questions that wait, as soon as there are that many. */
export async function questions(runtime: Runtime, count = 1): Promise<readonly ApprovalQuestion[]> {
  let found: readonly ApprovalQuestion[] = [];
  await vi.waitUntil(
    async () => {
      found = await runtime.approvals.list();
      return found.length === count;
    },
    { timeout: 20_000, interval: 5 },
  );
  return found;
}

/** The one question that waits. */
export async function question(runtime: Runtime): Promise<ApprovalQuestion> {
  const [first] = await questions(runtime);
  if (first === undefined) throw new Error("expected a question, found none");
  return first;
}

type NamedCall = readonly [callId: string, name: string, args: object];

/** A model that names its calls itself: a list of calls for each round, then an answer. */
export function naming(...rounds: readonly (readonly NamedCall[])[]): ModelPort {
  const usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0 };
  return {
    id: "naming",
    call: async ({ messages }) => {
      const calls = rounds[messages.filter(({ role }) => role === "assistant").length];
      if (calls === undefined)
        return {
          kind: "response",
          response: { parts: [{ kind: "text", text: "Done." }], usage, finish: "stop" },
        };
      const parts = calls.map(([callId, name, args]) => ({
        kind: "tool_call" as const,
        callId,
        name,
        args: JSON.stringify(args),
      }));
      return { kind: "response", response: { parts, usage, finish: "tool_use" } };
    },
  };
}

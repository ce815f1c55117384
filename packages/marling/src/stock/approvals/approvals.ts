// Approvals by rule: which calls run, which are refused, and which wait until somebody has decided.

import { definePlugin } from "../../index.ts";
import type { ApprovalDecision, ApprovalHookContext, Plugin } from "../../plugin/index.ts";
import { aFunction, aPositiveCount, checkOptions, type OptionCheck, recordOf } from "../check-options.ts";

const BATCH = "batch";
const RULES: readonly unknown[] = ["allow", "deny", "ask"];

const aRule: OptionCheck = (value) => (RULES.includes(value) ? undefined : "allow, deny or ask");

export type ApprovalRule = "allow" | "deny" | "ask";

export interface ApprovalsOptions {
  /** By tool name; `*` at the end of a name stands for any rest. The longest name that fits counts. */
  readonly rules?: Readonly<Record<string, ApprovalRule>>;
  /**
   * What holds for a tool without a rule; by default somebody is asked. A batch without a rule runs: every call in it is
   * asked about by itself.
   */
  readonly otherwise?: ApprovalRule;
  /** Decides instead of the rules where it returns something. */
  readonly policy?: (
    call: ApprovalHookContext,
  ) => ApprovalDecision | ApprovalRule | undefined | Promise<ApprovalDecision | ApprovalRule | undefined>;
  /** How long somebody who is asked has; without it, for ever. */
  readonly expiresMs?: number;
}

/**
 * Asks before tools run. `runtime.approvals` lists what waits and takes decisions; a call that waits survives restarts.
 */
export function approvals(options: ApprovalsOptions = {}): Plugin {
  checkOptions("approvals", options, {
    rules: recordOf(aRule),
    otherwise: aRule,
    policy: aFunction,
    expiresMs: aPositiveCount,
  });
  const { policy, expiresMs } = options;
  const limit = expiresMs === undefined ? {} : { expiresMs };
  return definePlugin({
    id: "approvals",
    build: () => ({
      approval: {
        request: async (call: ApprovalHookContext): Promise<ApprovalDecision> => {
          const decided = (await policy?.(call)) ?? ruleFor(options, call.toolName);
          return typeof decided === "string" ? { decision: decided, ...limit } : { ...limit, ...decided };
        },
      },
    }),
  })();
}

function ruleFor({ rules = {}, otherwise = "ask" }: ApprovalsOptions, toolName: string): ApprovalRule {
  const exact = Object.hasOwn(rules, toolName) ? rules[toolName] : undefined;
  if (exact !== undefined) return exact;
  const fitting = Object.entries(rules)
    .filter(([name]) => name.endsWith("*") && toolName.startsWith(name.slice(0, -1)))
    .sort(([a], [b]) => b.length - a.length);
  return fitting[0]?.[1] ?? (toolName === BATCH ? "allow" : otherwise);
}

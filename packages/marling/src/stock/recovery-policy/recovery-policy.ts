// Recovery policy: what becomes of a call that a crash cut in the middle, tool by tool.
//   RP1  it is asked only about calls that may not simply run again; without an answer the model is told that nobody knows.
//   RP2  a check that looks at the world comes first: what it finds is used as the result of the call.

import { definePlugin, type Plugin, type ToolOutput } from "../../index.ts";
import type { RecoveryDecision, RecoveryHookContext } from "../../plugin/index.ts";
import { aFunction, checkOptions, recordOf } from "../check-options.ts";

export type RecoveryRule = "run_again" | "unknown_outcome";

export interface RecoveryPolicyOptions {
  /** By tool name; `*` at the end of a name stands for any rest. The longest name that fits counts. */
  readonly rules?: Readonly<Record<string, RecoveryRule>>;
  /** What holds for a tool without a rule; by default nobody knows. */
  readonly otherwise?: RecoveryRule;
  /** Looks whether the call took effect: returns its output, or a rule, or nothing when it cannot tell. */
  readonly check?: (
    call: RecoveryHookContext,
  ) => ToolOutput | RecoveryRule | undefined | Promise<ToolOutput | RecoveryRule | undefined>;
}

const ID = "recovery_policy";

/** Decides about calls that a crash cut. */
export function recoveryPolicy(options: RecoveryPolicyOptions = {}): Plugin {
  const aRule = (value: unknown): string | undefined =>
    value === "run_again" || value === "unknown_outcome" ? undefined : "run_again or unknown_outcome";
  checkOptions(ID, options, { rules: recordOf(aRule), otherwise: aRule, check: aFunction });
  const { check } = options;
  return definePlugin({
    id: ID,
    build: () => ({
      recovery: {
        decide: async (call): Promise<RecoveryDecision> => {
          const found = (await check?.(call)) ?? ruleFor(options, call.toolName);
          return typeof found === "string" ? { kind: found } : { kind: "use", output: found };
        },
      },
    }),
  })();
}

function ruleFor(
  { rules = {}, otherwise = "unknown_outcome" }: RecoveryPolicyOptions,
  toolName: string,
): RecoveryRule {
  const exact = Object.hasOwn(rules, toolName) ? rules[toolName] : undefined;
  if (exact !== undefined) return exact;
  const fitting = Object.entries(rules)
    .filter(([name]) => name.endsWith("*") && toolName.startsWith(name.slice(0, -1)))
    .sort(([a], [b]) => b.length - a.length);
  return fitting[0]?.[1] ?? otherwise;
}

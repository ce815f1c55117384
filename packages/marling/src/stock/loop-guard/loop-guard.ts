// Loop guard: a turn that goes round in circles is told so, and then ended.
//   LG1  a call that fails again with the same arguments is counted within its turn; before the limit the model gets a
//        note, at the limit the turn ends as stopped, with everything it did in the history.
//   LG2  from a round on, the model has to answer: it is offered no more calls, so that a long turn ends with words.

import { createHash } from "node:crypto";
import {
  type Directive,
  type DurableState,
  definePlugin,
  directive,
  failTurn,
  type Json,
  type Plugin,
} from "../../index.ts";
import type { CheckpointHookContext, ToolResultHookContext } from "../../plugin/index.ts";
import { aPositiveCount, checkOptions } from "../check-options.ts";

export interface LoopGuardOptions {
  /** How often the same call may fail in one turn before it ends; 4 by default, and at least 2. */
  readonly maxFailures?: number;
  /** The round from which on the model has to answer without calls; without it, none. */
  readonly answerFromRound?: number;
}

interface Counted {
  readonly turnId: string;
  /** How often each call failed. */
  readonly failures: { readonly [call: string]: number };
  /** The tool that the model is to be told about at the next checkpoint. */
  readonly warn?: string;
}

const ID = "loop_guard";
const NOTHING: Counted = { turnId: "", failures: {} };

/** Ends turns that repeat a call which keeps failing. */
export function loopGuard(options: LoopGuardOptions = {}): Plugin {
  checkOptions(ID, options, {
    maxFailures: (value) =>
      aPositiveCount(value) === undefined && (value as number) >= 2 ? undefined : "a whole number from 2",
    answerFromRound: aPositiveCount,
  });
  const { maxFailures = 4, answerFromRound } = options;
  return definePlugin({
    id: ID,
    build(ctx) {
      const counted = ctx.durable<Counted>({ version: 1, initial: () => NOTHING, fork: "reset" });
      return {
        toolCalls: { after: (call) => count(call, counted, maxFailures) },
        turn: {
          checkpoint: (at) => warn(at, counted),
          after: () => {
            if (counted.get().turnId !== "") counted.set(NOTHING);
          },
        },
        ...(answerFromRound === undefined
          ? {}
          : {
              model: {
                request: ({ round }) => (round >= answerFromRound ? { toolChoice: "none" } : undefined),
              },
            }),
      };
    },
  })();
}

function count(
  { toolName, args, result, turnContext }: ToolResultHookContext,
  counted: DurableState<Counted>,
  maxFailures: number,
): Directive | undefined {
  if (result.outcome.kind !== "failure") return undefined;
  const { turnId } = turnContext;
  const call = createHash("sha256")
    .update(`${toolName}\n${stable(args)}`)
    .digest("hex")
    .slice(0, 16);
  const before = counted.get();
  const failures = (before.turnId === turnId ? (before.failures[call] ?? 0) : 0) + 1;
  counted.update((now) => {
    const { failures: known } = now.turnId === turnId ? now : NOTHING;
    const total = (known[call] ?? 0) + 1;
    const told = total === maxFailures - 1 ? { warn: toolName } : {};
    return { turnId, failures: { ...known, [call]: total }, ...told };
  });
  if (failures < maxFailures) return undefined;
  const { code, message } = result.outcome;
  return directive.shortCircuitTool(
    failTurn({
      code: "repeated_failure",
      class: "resource_limit",
      source: "policy",
      message: `The call of ${toolName} failed ${failures} times with the same arguments, the last time with ${code}: ${message}`,
    }),
  );
}

function warn({ checkpoint }: CheckpointHookContext, counted: DurableState<Counted>): Directive | undefined {
  const { warn: toolName, ...rest } = counted.get();
  if (toolName === undefined || checkpoint !== "after_work") return undefined;
  counted.set(rest);
  const content = `The call of ${toolName} keeps failing with the same arguments. Once more and the turn is ended: change the arguments, use another way, or say what is missing.`;
  return directive.enqueueMessages([{ role: "system", content }]);
}

/** Text that is the same for equal arguments, in whatever order their members are. */
function stable(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item: Json) => stable(item)).join(",")}]`;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${stable(member)}`).join(",")}}`;
}

// What a turn cost, in one line.

import type { TokenUsage, TurnReport } from "marling";

export interface TurnCost {
  readonly usage: TokenUsage;
  readonly modelCalls: number;
  readonly toolCalls: number;
  readonly elapsedMs: number;
}

export function costOf({ usage, modelCalls, toolCalls }: TurnReport, elapsedMs: number): TurnCost {
  return { usage, modelCalls: modelCalls.length, toolCalls: toolCalls.length, elapsedMs };
}

export function usageLine({ usage, modelCalls, toolCalls, elapsedMs }: TurnCost): string {
  const { input, output, cacheRead, cacheWrite, reasoning } = usage;
  const parts = [
    `${short(input + cacheRead + cacheWrite)} in`,
    ...(cacheRead > 0 ? [`${short(cacheRead)} cached`] : []),
    `${short(output)} out`,
    ...(reasoning > 0 ? [`${short(reasoning)} reasoning`] : []),
    counted(modelCalls, "model call"),
    ...(toolCalls > 0 ? [counted(toolCalls, "tool call")] : []),
    `${(elapsedMs / 1000).toFixed(1)} s`,
  ];
  return parts.join(" · ");
}

/** 940, 1.2k, 34k, 1.3M. */
export function short(count: number): string {
  if (count < 1_000) return String(count);
  if (count < 999_500) return `${trim(count / 1_000)}k`;
  return `${trim(count / 1_000_000)}M`;
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function trim(value: number): string {
  return value < 10 ? value.toFixed(1).replace(/\.0$/, "") : String(Math.round(value));
}

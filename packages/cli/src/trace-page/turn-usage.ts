// What turns used and what that cost: the sum of the requests that were made, by turn. What was answered from the journal
// was paid for once, by the run that asked.

import type { TraceRecord } from "marling";
import { numberIn, valuesIn } from "./describe-record.ts";
import { groupBy, sessionOf } from "./page-rows.ts";

/** Prices in the same currency per million tokens; what has no price of its own counts as input. */
export interface ModelPrice {
  readonly input: number;
  readonly output: number;
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
}

export interface UsageSum {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly reasoning: number;
  /** Missing when a model that was used has no price. */
  readonly cost: number | undefined;
}

export interface TurnUsage extends UsageSum {
  readonly session: string;
  readonly turn: string;
  readonly outcome: string;
  readonly isFailed: boolean;
  readonly start: number;
  /** Of all its runs together. */
  readonly durationMs: number;
  readonly rounds: number;
  readonly requests: number;
  readonly tools: number;
}

const NOTHING: UsageSum = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0, cost: 0 };

export function turnUsage(
  records: readonly TraceRecord[],
  prices: Readonly<Record<string, ModelPrice>>,
): readonly TurnUsage[] {
  const turns = groupBy(
    records.filter(({ turnId }) => turnId !== undefined),
    (record) => `${sessionOf(record)}\n${record.turnId}`,
  );
  return [...turns.values()].map((of) => usageOfTurn(of, prices)).sort((a, b) => a.start - b.start);
}

export function sumUsage(sums: readonly UsageSum[]): UsageSum {
  return sums.reduce(addSums, NOTHING);
}

function usageOfTurn(
  records: readonly TraceRecord[],
  prices: Readonly<Record<string, ModelPrice>>,
): TurnUsage {
  const [first] = records as readonly [TraceRecord];
  const requests = records.filter(({ kind }) => kind === "model_attempt");
  const runs = records.filter(({ kind }) => kind === "turn");
  const outcome = valuesIn(valuesIn(runs.at(-1)?.payload).outcome);
  const calls = records.filter((record) => record.kind === "tool_call" && !isParked(record));
  return {
    session: sessionOf(first),
    turn: first.turnId ?? "",
    outcome: runs.length === 0 ? "never ended" : String(outcome.reason ?? outcome.kind ?? ""),
    isFailed:
      runs.length === 0 ||
      outcome.kind === "interrupted" ||
      (outcome.kind === "stopped" && outcome.reason !== "cancelled"),
    start: records.reduce((earliest, { at }) => Math.min(earliest, at), first.at),
    durationMs: runs.reduce((sum, { durationMs }) => sum + durationMs, 0),
    rounds: new Set(records.flatMap((record) => (record.kind === "round" ? [record.payload.round] : [])))
      .size,
    requests: requests.length,
    tools: new Set(calls.map((record) => valuesIn(record.payload).callId)).size,
    ...sumUsage(requests.map(({ payload }) => usageOfRequest(valuesIn(payload), prices))),
  };
}

function isParked({ payload }: TraceRecord): boolean {
  return valuesIn(valuesIn(payload).outcome).kind === "parked";
}

function usageOfRequest(
  payload: Readonly<Record<string, unknown>>,
  prices: Readonly<Record<string, ModelPrice>>,
): UsageSum {
  const usage = valuesIn(payload.usage);
  const [input, output, cacheRead, cacheWrite, reasoning] = [
    numberIn(usage.input),
    numberIn(usage.output),
    numberIn(usage.cacheRead),
    numberIn(usage.cacheWrite),
    numberIn(usage.reasoning),
  ];
  const counted = { input, output, cacheRead, cacheWrite, reasoning };
  return { ...counted, cost: costOf(counted, priceOf(payload, prices)) };
}

/** By the name in the runtime, the id of the port, or the model in that id. */
function priceOf(
  { model, port }: Readonly<Record<string, unknown>>,
  prices: Readonly<Record<string, ModelPrice>>,
): ModelPrice | undefined {
  const id = typeof port === "string" ? port : "";
  const names = [model, id, id.slice(id.indexOf("/") + 1)];
  for (const name of names) if (typeof name === "string" && Object.hasOwn(prices, name)) return prices[name];
  return undefined;
}

function costOf(usage: Omit<UsageSum, "cost">, price: ModelPrice | undefined): number | undefined {
  const { input, output, cacheRead, cacheWrite } = usage;
  if (price === undefined) return input + output + cacheRead + cacheWrite === 0 ? 0 : undefined;
  const read = cacheRead * (price.cacheRead ?? price.input);
  const written = cacheWrite * (price.cacheWrite ?? price.input);
  return (input * price.input + output * price.output + read + written) / 1_000_000;
}

function addSums(a: UsageSum, b: UsageSum): UsageSum {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    cacheRead: a.cacheRead + b.cacheRead,
    cacheWrite: a.cacheWrite + b.cacheWrite,
    reasoning: a.reasoning + b.reasoning,
    cost: a.cost === undefined || b.cost === undefined ? undefined : a.cost + b.cost,
  };
}

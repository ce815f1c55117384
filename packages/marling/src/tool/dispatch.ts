// The mechanics of calls: check arguments, try again, run at once. Hooks, effects and events are the kernel's.
//   TP1  arguments that do not fit never reach a tool; the failure says where they do not fit.
//   TP2  only a failure that says it is safe is tried again; what the machinery throws is passed on and not retried here.
//   TP3  calls run at once and answer in their order; serial ones follow, one by one.
//   TP4  after a cancellation a running call has its grace to answer; then it is answered for it. What has not begun
//        never begins.

import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { isJsonObject, type Json } from "../model/json.ts";
import {
  type PendingResult,
  type RetryAdvice,
  reviveToolOutput,
  type ToolFailure,
  type ToolOutput,
  toolCancelled,
} from "../model/tool-output.ts";
import { brokenTool, contractUnavailable, invalidArgs } from "./call-refusal.ts";
import type { ExecutionGrant, RetryPolicy, ToolContract, ToolValidator, ValidatedArgs } from "./contract.ts";
import { jsonSchemaValidator, mismatchText } from "./schema.ts";

/** What the mechanics need of a registry. */
export interface ToolLookup {
  contract(name: string): ToolContract | undefined;
  validator(name: string): ToolValidator | undefined;
}

export type CallCheck =
  | { readonly kind: "valid"; readonly input: unknown; readonly contract: ToolContract }
  | { readonly kind: "refused"; readonly output: ToolOutput };

/**
 * Checks the arguments of a call with the tool's own validator, or against the input schema of its contract.
 * The contract is resolved once, or not at all when it is given. Never throws or rejects; most answer at once.
 */
export function validateCall(
  tools: ToolLookup,
  call: { readonly name: string; readonly args: Json; readonly malformed?: string },
  options: { readonly contract?: ToolContract } = {},
): CallCheck | Promise<CallCheck> {
  const { name, args, malformed } = call;
  try {
    const contract = options.contract ?? tools.contract(name);
    if (contract === undefined) return { kind: "refused", output: contractUnavailable(name) };
    if (malformed !== undefined)
      return refusedArgs({ path: "", reason: `expected arguments in JSON: ${malformed}` });
    if (!isJsonObject(args)) return refusedArgs({ path: "", reason: "expected an object of arguments" });
    const validator =
      tools.validator(name) ?? jsonSchemaValidator(contract.inputSchema, `tool ${name}: input schema`);
    const answer = validator.validate(args);
    return "ok" in answer
      ? checkOf(answer, contract)
      : answer.then((verdict) => checkOf(verdict, contract)).catch(brokenCheck);
  } catch (error) {
    return brokenCheck(error);
  }
}

function checkOf(verdict: ValidatedArgs, contract: ToolContract): CallCheck {
  return verdict.ok ? { kind: "valid", input: verdict.value, contract } : refusedArgs(verdict);
}

function brokenCheck(error: unknown): CallCheck {
  return { kind: "refused", output: brokenTool(messageOf(error)) };
}

/** The lookup of a granted call: the grant's contract, whatever the registry knows under that name. */
export function grantLookup({ contract }: ExecutionGrant): ToolLookup {
  return { contract: () => contract, validator: () => undefined };
}

/**
 * The key a tool may give to what it calls: the same for every attempt of a call, in every run of its turn, and of no
 * other call of any tenant. ASCII, so that it fits into a header.
 */
export function toolIdempotencyKey(call: {
  readonly tenant?: string | undefined;
  readonly sessionId: string;
  readonly turnId: string;
  readonly callId: string;
  readonly toolId: string;
}): string {
  const { tenant, sessionId, turnId, callId, toolId } = call;
  const parts = [sessionId, turnId, callId, toolId].map(encodeURIComponent);
  const owner = tenant === undefined ? [] : [`@${encodeURIComponent(tenant)}`];
  return ["marling-tool", ...owner, ...parts].join(":");
}

export interface AttemptPlan {
  readonly policy: RetryPolicy | undefined;
  /** Runs attempt `n`, 1 for the first. A rejection is a fault of the machinery and ends everything. */
  attempt(n: number): Promise<ToolOutput | PendingResult>;
  /** Waits before attempt `next`. */
  sleep(ms: number, next: number): Promise<void>;
  readonly signal: AbortSignal;
}

export interface AttemptsResult {
  readonly result: ToolOutput | PendingResult;
  readonly attempts: number;
}

/** How many attempts a policy allows; one without a policy. */
export function maxAttemptsOf(policy: RetryPolicy | undefined): number {
  return Math.max(1, policy?.attempts ?? 1);
}

/**
 * Tries a call until it does not fail safely, the policy is used up, or it is cancelled.
 * The last of several failures says how often it was tried.
 */
export async function runAttempts(plan: AttemptPlan): Promise<AttemptsResult> {
  const { policy, signal } = plan;
  const most = maxAttemptsOf(policy);
  for (let attempts = 1; ; attempts += 1) {
    const result = await plan.attempt(attempts);
    const failure = safeFailure(result);
    if (policy === undefined || failure === undefined) return { result, attempts };
    if (attempts >= most) return { result: exhausted(result, failure, attempts), attempts };
    const delayMs = retryDelay(policy, failure.retry, attempts - 1);
    if (signal.aborted || !(await slept(plan, delayMs, attempts + 1)))
      return { result: stopped(failure), attempts };
  }
}

/** Before retry `index` (0 for the first): what the failure asks for, else the delay of the policy, doubled each time. */
export function retryDelay(policy: RetryPolicy, advice: RetryAdvice, index: number): number {
  if (advice.kind === "safe" && advice.afterMs !== undefined) return Math.max(0, advice.afterMs);
  const { delayMs = 0, maxDelayMs = 0 } = policy;
  const doubled = Math.min(delayMs * 2 ** index, Number.MAX_SAFE_INTEGER);
  return maxDelayMs > 0 ? Math.min(doubled, maxDelayMs) : doubled;
}

export interface ConcurrentOptions<T, R> {
  /** How many run at once. */
  readonly cap: number;
  readonly signal: AbortSignal;
  /** How long a running call may take to answer after a cancellation. */
  readonly graceMs?: number;
  readonly clock: Pick<Clock, "after">;
  isSerial?(item: T): boolean;
  /** The answer for a call that gave none: it was running, or it had not begun. */
  cancelled(item: T, phase: "running" | "waiting"): R;
}

export const CANCEL_GRACE_MS = 50;

/**
 * Runs calls at once, up to the cap, then the serial ones one by one; the results are in the order of the items.
 * A rejection of `run` is a fault: nothing more begins, and it is passed on when what runs has settled.
 */
export async function runConcurrently<T, R>(
  items: readonly T[],
  run: (item: T, index: number) => Promise<R>,
  options: ConcurrentOptions<T, R>,
): Promise<readonly R[]> {
  const results: R[] = new Array(items.length);
  const grace = new Grace(options);
  const jobs = items.map((item, index) => async (): Promise<void> => {
    results[index] = options.signal.aborted
      ? options.cancelled(item, "waiting")
      : await grace.answer(run(item, index), () => options.cancelled(item, "running"));
  });
  const serial = items.map((item) => options.isSerial?.(item) ?? false);
  const lane = (isSerial: boolean): typeof jobs => jobs.filter((_, index) => serial[index] === isSerial);
  try {
    await runLane(lane(false), { cap: options.cap });
    await runLane(lane(true), { cap: 1 });
    return results;
  } finally {
    grace.release();
  }
}

function refusedArgs(mismatch: { readonly path: string; readonly reason: string }): CallCheck {
  return { kind: "refused", output: invalidArgs(mismatchText(mismatch)) };
}

function safeFailure(result: ToolOutput | PendingResult): ToolFailure | undefined {
  if (!("outcome" in result)) return undefined;
  const { outcome } = result;
  return outcome.kind === "failure" && outcome.retry.kind === "safe" ? outcome : undefined;
}

function exhausted(result: ToolOutput | PendingResult, failure: ToolFailure, attempts: number): ToolOutput {
  const outcome = Object.freeze({ ...failure, retry: { kind: "exhausted", attempts } } as const);
  return reviveToolOutput({ ...("outcome" in result ? result : {}), outcome });
}

function stopped({ message }: ToolFailure): ToolOutput {
  return toolCancelled(`Cancelled while waiting to try again after: ${message}`);
}

/** False when the wait was cut short by a cancellation; any other rejection is a fault. */
async function slept(plan: AttemptPlan, delayMs: number, next: number): Promise<boolean> {
  try {
    if (delayMs > 0) await plan.sleep(delayMs, next);
    return !plan.signal.aborted;
  } catch (error) {
    if (plan.signal.aborted) return false;
    throw error;
  }
}

/** Works through jobs, `cap` at a time. After a fault no job begins; the first fault is thrown when all have settled. */
async function runLane(
  jobs: readonly (() => Promise<void>)[],
  { cap }: { readonly cap: number },
): Promise<void> {
  const waiting = jobs.values();
  const faults: unknown[] = [];
  const work = async (): Promise<void> => {
    for (const job of waiting) {
      if (faults.length > 0) return;
      try {
        await job();
      } catch (fault) {
        faults.push(fault);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(Math.max(1, cap), jobs.length) }, work));
  if (faults.length > 0) throw faults[0];
}

/** Waits for calls, and answers for those that give none when a cancellation came and the grace passed. */
class Grace {
  readonly #options: Pick<ConcurrentOptions<never, never>, "signal" | "graceMs" | "clock">;
  readonly #running = new Set<() => void>();
  #stopTimer: (() => void) | undefined;

  constructor(options: Pick<ConcurrentOptions<never, never>, "signal" | "graceMs" | "clock">) {
    this.#options = options;
    options.signal.addEventListener("abort", this.#begin, { once: true });
  }

  /** What a call answers, or the late answer. */
  answer<R>(call: Promise<R>, late: () => R): Promise<R> {
    return new Promise<R>((resolve, reject) => {
      const end = (): void => resolve(late());
      this.#running.add(end);
      call.then(
        (answer) => {
          this.#running.delete(end);
          resolve(answer);
        },
        (thrown: unknown) => {
          this.#running.delete(end);
          reject(thrown);
        },
      );
    });
  }

  /** Leaves nothing behind, no timer and nothing at the signal. */
  release(): void {
    this.#options.signal.removeEventListener("abort", this.#begin);
    this.#stopTimer?.();
  }

  readonly #begin = (): void => {
    const { clock, graceMs = CANCEL_GRACE_MS } = this.#options;
    this.#stopTimer = clock.after(graceMs, () => {
      for (const end of this.#running) end();
    });
  };
}

// The mechanics of calls: check arguments, try again. Hooks, effects and events are the kernel's.
//   TP1  arguments that do not fit never reach a tool; the failure says where they do not fit.
//   TP2  only a failure that says it is safe is tried again; what the machinery throws is passed on and not retried here.

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

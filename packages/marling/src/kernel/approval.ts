// A call that somebody has to allow: asked for durably, decided once, through a door of its own.
//   AP1  every policy is asked, after the arguments reached their final form; the strictest answer holds, and a policy that
//        fails denies.
//   AP2  a decision is bound to session, turn, call, arguments and contract by the digest of the question: what changed
//        since has no decision, and whoever has a wait key cannot give one.
//   AP3  the first decision counts, if it was given before the question expired; a question that expired, or whose turn
//        was cancelled, is denied.
//   AP4  a call that waits for a decision puts its turn to sleep like any other that waits.

import { sha256 } from "../base/digest.ts";
import { MarlingError, messageOf } from "../base/errors.ts";
import { canonicalJson, isJsonObject, type Json } from "../model/json.ts";
import { type ToolOutput, toolFailure } from "../model/tool-output.ts";
import type { ApprovalDecision, ApprovalHookContext } from "../plugin/hook-context.ts";
import type { PluginOwned } from "../plugin/hook-runner.ts";
import type { WaitName } from "../store/contract.ts";
import type { ToolContract } from "../tool/contract.ts";
import type { DispatchCall } from "./dispatch.ts";
import { sleepOn } from "./sleep.ts";
import { performEffect, type TurnRun } from "./turn-run.ts";

/** What somebody is asked. Plain JSON; recorded with the call. */
export interface ApprovalQuestion {
  readonly sessionId: string;
  readonly turnId: string;
  readonly callId: string;
  readonly toolName: string;
  readonly args: Json;
  /** Whose policy asks, and why. */
  readonly pluginId: string;
  readonly reason?: string;
  /** Wall time. */
  readonly askedAt: number;
  readonly expiresAt?: number;
  /** Of all of this that a decision is bound to. */
  readonly digest: string;
}

type Verdict =
  | { readonly kind: "allowed" }
  | { readonly kind: "denied"; readonly output: ToolOutput }
  | { readonly kind: "asked"; readonly question: ApprovalQuestion };

/** Asks every policy about a call; the strictest answer holds. */
export async function askPolicies(
  turn: TurnRun,
  call: DispatchCall,
  contract: ToolContract,
): Promise<Verdict> {
  const { id } = turn.session;
  const { name, callId, args } = call;
  const decisions = await decisionsOf(turn, { sessionId: id, toolName: name, callId, args });
  const denial = decisions.find(({ value }) => value.decision === "deny");
  if (denial !== undefined) {
    const { pluginId, value } = denial;
    return {
      kind: "denied",
      output: denied("approval_denied", value.reason ?? "The call was denied.", pluginId),
    };
  }
  const asking = decisions.find(({ value }) => value.decision === "ask");
  return asking === undefined
    ? { kind: "allowed" }
    : { kind: "asked", question: questionOf(turn, { call, contract, asking }) };
}

/** A policy that fails denies the call: an approval that could not be decided is none. */
async function decisionsOf(
  turn: TurnRun,
  context: ApprovalHookContext,
): Promise<readonly PluginOwned<ApprovalDecision>[]> {
  try {
    return await turn.session.plugins.requestApproval(context, { deltas: turn.deltas });
  } catch (thrown) {
    const pluginId = MarlingError.is(thrown) ? String(thrown.details.pluginId) : "unknown";
    return [{ pluginId, value: { decision: "deny", reason: messageOf(thrown) } }];
  }
}

function questionOf(
  turn: TurnRun,
  asked: {
    readonly call: DispatchCall;
    readonly contract: ToolContract;
    readonly asking: PluginOwned<ApprovalDecision>;
  },
): ApprovalQuestion {
  const { call, contract, asking } = asked;
  const { reason, expiresMs } = asking.value;
  const askedAt = turn.session.parts.clock.now();
  return {
    sessionId: turn.session.id,
    turnId: turn.acceptedId,
    callId: call.callId,
    toolName: call.name,
    args: call.args,
    pluginId: asking.pluginId,
    ...(reason === undefined ? {} : { reason }),
    askedAt,
    ...(expiresMs === undefined ? {} : { expiresAt: askedAt + expiresMs }),
    digest: digestOf(turn, call, contract),
  };
}

/** What a decision about a call is bound to, as it is now. */
export function digestOf(
  turn: TurnRun,
  { name, callId, args }: DispatchCall,
  contract: ToolContract,
): string {
  const { session, turnId } = turn;
  const bound = { sessionId: session.id, turnId, callId, name, args, contract };
  return sha256(canonicalJson(JSON.parse(JSON.stringify(bound)) as Json));
}

/** Waits for the decision; the output that ends the call, or nothing when it may run. */
export async function awaitApproval(
  turn: TurnRun,
  question: ApprovalQuestion,
  { round, canPark, digest }: { readonly round: number; readonly canPark: boolean; readonly digest: string },
): Promise<ToolOutput | undefined> {
  const { callId, toolName, pluginId } = question;
  if (digest !== question.digest)
    return denied(
      "approval_stale",
      "The call, or what the tool is, changed after it was asked about.",
      pluginId,
    );
  turn.emit({ kind: "waiting", callId, name: toolName });
  const effect = { key: `${round}.approval.${callId}`, kind: "wait" } as const;
  const decision = await performEffect(turn, effect, () => decide(turn, question, canPark));
  if (decision.decision === "allow") return undefined;
  return denied(decision.code ?? "approval_denied", decision.reason ?? "The call was denied.", pluginId);
}

/** The output of a call that its turn gave up before it was decided about. */
export function undecided({ pluginId }: ApprovalQuestion): ToolOutput {
  return denied("cancelled", CANCELLED, pluginId);
}

const OTHER_WAIT = "Nobody could be asked about the call: its name is taken.";
const CANCELLED = "The turn was cancelled before anybody decided.";
const EXPIRED: Decided = Object.freeze({
  decision: "deny",
  code: "approval_expired",
  reason: "Nobody decided about the call in time.",
});

interface Decided {
  readonly decision: "allow" | "deny";
  readonly actor?: string;
  readonly reason?: string;
  readonly code?: string;
}

async function decide(turn: TurnRun, question: ApprovalQuestion, canPark: boolean): Promise<Decided> {
  const { waits, approvals } = turn.session.parts;
  const wait = approvalName(turn, question);
  const { lease } = turn;
  if ((await waits.find(wait)) === undefined)
    await waits.create({ ...wait, kind: "approval", keyHash: question.digest, lease });
  const forget = approvals.remember(question);
  try {
    return (await decisionSoFar(turn, wait, question)) ?? (await wake(turn, { wait, question, canPark }));
  } finally {
    forget();
  }
}

/** What was decided by now; nothing when nobody has. */
async function decisionSoFar(
  turn: TurnRun,
  wait: WaitName,
  { expiresAt }: ApprovalQuestion,
): Promise<Decided | undefined> {
  const { waits, clock } = turn.session.parts;
  const isExpired = expiresAt !== undefined && expiresAt <= clock.now();
  const isOver = turn.control.isCancelled || isExpired;
  const row = isOver ? await waits.end({ ...wait, lease: turn.lease }) : await waits.find(wait);
  // A call may have a name that is that of somebody's approval; what came for it is no decision.
  if (row?.kind !== "approval") return { decision: "deny", code: "approval_stale", reason: OTHER_WAIT };
  if (row.resolution !== undefined && "ok" in row.resolution) return decidedBy(row.resolution.ok, expiresAt);
  if (!isOver) return undefined;
  return isExpired ? EXPIRED : { decision: "deny", code: "cancelled", reason: CANCELLED };
}

async function wake(
  turn: TurnRun,
  {
    wait,
    question,
    canPark,
  }: { readonly wait: WaitName; readonly question: ApprovalQuestion; readonly canPark: boolean },
): Promise<Decided> {
  const { id, parts } = turn.session;
  const { expiresAt: due } = question;
  const rise = sleepOn(turn, { name: wait.name, due }, { callId: question.callId, canPark });
  let decided: Decided | undefined;
  const check = async (): Promise<boolean> => {
    decided = await decisionSoFar(turn, wait, question);
    return decided !== undefined;
  };
  const stopWaiting = due === undefined ? turn.control.waits() : undefined;
  await parts.watch.until(check, { of: id, due, signal: turn.control.signal }).finally(() => {
    stopWaiting?.();
    rise();
  });
  turn.control.refuseLost();
  return decided ?? (await decisionSoFar(turn, wait, question)) ?? { decision: "deny" };
}

function approvalName(turn: TurnRun, { callId }: ApprovalQuestion): WaitName {
  return { sessionId: turn.session.id, turnId: turn.acceptedId, name: approvalWait(turn, callId) };
}

/** The name of the wait for a decision, in the part of a turn that asks. */
export function approvalWait(
  { acceptedId, turnId }: Pick<TurnRun, "acceptedId" | "turnId">,
  callId: string,
): string {
  const part = turnId === acceptedId ? "" : `${turnId}/`;
  return `approval:${part}${callId}`;
}

function decidedBy(value: Json, expiresAt = Number.POSITIVE_INFINITY): Decided {
  const { decision, actor, reason, at } = isJsonObject(value) ? value : {};
  if (typeof at !== "number" || at >= expiresAt) return EXPIRED;
  return {
    decision: decision === "allow" ? "allow" : "deny",
    ...(typeof actor === "string" ? { actor } : {}),
    ...(typeof reason === "string" ? { reason } : {}),
  };
}

function denied(code: string, message: string, pluginId: string): ToolOutput {
  return toolFailure({ class: "permission_denied", source: "policy", code, message, raw: { pluginId } });
}

// What sessions use while their turns are on their way, and whether that is more than they may.
//   SP1  what a turn uses counts for its session, and at once for every session whose turn waits for it: children that run
//        at the same time share what is left.
//   SP2  a run that begins anew counts from nothing; what earlier runs came to is counted as the run comes to it.
//   SP5  who watches a turn is told what is used below it as it is used.
//   SP4  a session is created with what is left, so that it cannot use more, whoever is there to count.
//   SP3  what was committed is in the ledger, and not in flight any more.

import type { TurnEvent, TurnOutcome } from "../model/turn.ts";
import { isNoUsage, totalTokens, type UsageEntry } from "../model/usage.ts";
import type { ResidentSession } from "./resident-session.ts";

/** An entry of a ledger, or a model call of the session itself. */
type Used = Pick<UsageEntry, "model" | "usage"> & Partial<Pick<UsageEntry, "source">>;

/** A turn whose session pays for what a turn below it uses. */
export interface Payer {
  readonly session: ResidentSession;
  /** The session that it pays for. */
  readonly below: string;
  /** Tells those who watch the turn. */
  readonly tell: (event: TurnEvent) => void;
  /** How much of that turn it has counted so far. */
  counted: number;
}

/** Counts what was used, for the session and for those that wait for it. */
export function spend(session: ResidentSession, used: readonly Used[]): void {
  session.inFlight += tokensOf(used);
  passOn(session.payer, tokensOf(used));
  const source = session.frame.assignment.usageSource ?? "child";
  tellOf(session.payer, used, source);
}

/** Counts the whole of a turn below, of which a part may be counted already. */
export function settlePayer(payer: Payer, used: readonly UsageEntry[]): void {
  const isNews = payer.counted === 0;
  passOn(payer, tokensOf(used) - payer.counted);
  if (isNews) tellOf(payer, used, "child");
}

/** A run of a turn of the session begins. */
export function beginSpending(session: ResidentSession): void {
  session.inFlight = 0;
  const { payer } = session;
  if (payer !== undefined) passOn(payer, -payer.counted);
}

function passOn(from: Payer | undefined, tokens: number): void {
  for (let payer = from; payer !== undefined; payer = payer.session.payer) {
    payer.counted += tokens;
    payer.session.inFlight += tokens;
  }
}

function tellOf(from: Payer | undefined, used: readonly Used[], source: string): void {
  const told = used.filter(({ usage }) => !isNoUsage(usage));
  for (let payer = from; payer !== undefined; payer = payer.session.payer)
    for (const entry of told)
      payer.tell({
        kind: "child_usage",
        sessionId: payer.below,
        source: entry.source ?? source,
        model: entry.model,
        usage: entry.usage,
      });
}

function tokensOf(used: readonly Used[]): number {
  return used.reduce((sum, { usage }) => sum + totalTokens(usage), 0);
}

/** What a session may still use; without a budget, of its own or of those that wait for it, there is no limit. */
export function tokensLeft(session: ResidentSession): number | undefined {
  let left: number | undefined;
  for (let at: ResidentSession | undefined = session; at !== undefined; at = at.payer?.session) {
    const { budget } = at.frame.assignment.authority;
    if (budget !== undefined) left = Math.min(left ?? budget.tokens, Math.max(0, budget.tokens - usedBy(at)));
  }
  return left;
}

/** The end of a turn whose session, or one that waits for it, has used what it may with those below it. */
export function budgetOutcome(session: ResidentSession): TurnOutcome | undefined {
  for (let at: ResidentSession | undefined = session; at !== undefined; at = at.payer?.session) {
    const { budget } = at.frame.assignment.authority;
    const used = usedBy(at);
    if (budget === undefined || used < budget.tokens) continue;
    const message = `session ${at.id}: expected at most ${budget.tokens} tokens, found ${used} used`;
    return { kind: "stopped", reason: "incomplete", code: "budget_exhausted", message };
  }
  return undefined;
}

function usedBy(session: ResidentSession): number {
  return totalTokens(session.readView().usage) + session.inFlight;
}

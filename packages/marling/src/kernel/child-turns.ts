// Turns of sessions below this one, as plugins and tools start them.
//   CT1  one turn at a time: a session with a turn on its way is busy, unless it is the very turn that is asked for again;
//        so is the session itself while it works, which would wait for itself.
//   CT2  a turn that was started inside an effect is named after it; after a crash the effect gets the same turn, wherever
//        that is by then, and nothing of it runs again.
//   CT3  what a child's turn used is in the ledger of the session that started it, under the child's usage source: with the
//        turn's commit, or at once beside turns.
//   CT4  a turn that is cancelled cancels the turns that its effects wait for; one that was lost to another runtime does
//        not: it waits for them there.
//   CT5  a child's turn that is left to the store leaves the turn that waits for it to the store as well.

import { MarlingError } from "../base/errors.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { StartedTurn, StartTurnOptions } from "../model/session-host.ts";
import type { TurnInput, TurnReport } from "../model/turn.ts";
import { isNoUsage, type UsageEntry } from "../model/usage.ts";
import { commitBeside, operationOf } from "./commit.ts";
import type { ResidentSession } from "./resident-session.ts";
import { serviceKey } from "./service-scope.ts";
import { isMachineryFault } from "./turn-fault.ts";
import type { QueuedTurn, TurnQueue } from "./turn-queue.ts";
import type { TurnRun } from "./turn-run.ts";

/** A session below, with its turns. */
export interface ChildSession {
  readonly session: ResidentSession;
  readonly queue: TurnQueue;
}

/** A turn that was started and not awaited. */
export interface StartedChildTurn {
  readonly child: ChildSession;
  readonly turn: QueuedTurn;
}

/** The turns that one session, or one effect of it, has started and not awaited. */
export class ChildTurns {
  readonly #session: ResidentSession;
  readonly #scope: TurnRun | undefined;
  readonly #started: Map<string, StartedChildTurn>;

  constructor(session: ResidentSession, scope: TurnRun | undefined) {
    this.#session = session;
    this.#scope = scope;
    this.#started = session.startedTurns;
  }

  async start(
    sessionId: string,
    input: string | TurnInput,
    { key: given, outputSchema }: StartTurnOptions = {},
  ): Promise<StartedTurn> {
    const scope = this.#scope;
    const key = scope === undefined ? given : serviceKey(scope, "turn", given);
    const child = await this.#session.parts.sessions.openBelow(sessionId, this.#session);
    const { session, queue } = child;
    if (session === this.#session && queue.isBusy) throw busy(session);
    const live = [...queue.live.values()];
    if (live.some(({ row }) => key === undefined || row.key !== key)) throw busy(session);
    const { turn } = await queue.submit(input, { key, outputSchema });
    this.#started.set(turn.row.turnId, { child, turn });
    const { policy } = session;
    return {
      turnId: turn.row.turnId,
      sessionId,
      policy: policy as SessionPolicy,
      events: turn.events.watch(),
    };
  }

  async await(turnId: string): Promise<TurnReport> {
    const { child, turn } = this.#take(turnId);
    this.#started.delete(turnId);
    const stop = this.#cancelWithParent(child, turnId);
    try {
      const report = await turn.done.promise;
      await this.#charge(usageOf(child.session, report));
      return report;
    } catch (thrown) {
      if (isMachineryFault(thrown)) this.#scope?.control.lose(thrown);
      throw thrown;
    } finally {
      stop();
    }
  }

  async cancel(turnId: string): Promise<void> {
    const { child } = this.#take(turnId);
    await child.queue.cancel(turnId, "cancelled by the session that started it");
  }

  async #charge(usage: readonly UsageEntry[]): Promise<void> {
    const session = this.#session;
    if (this.#scope !== undefined) this.#scope.spent.push(...usage);
    else if (usage.length > 0)
      await commitBeside(session, () => ({
        operation: operationOf(session, "child_turn").operation,
        usage,
        rebases: true,
        change: (graph) => ({ graph, nodes: [] }),
      }));
  }

  #take(turnId: string): StartedChildTurn {
    const started = this.#started.get(turnId);
    if (started !== undefined) return started;
    const message = `turn ${turnId}: expected a turn that was started here and not awaited, found none`;
    throw new MarlingError("unknown_turn", message, { details: { turnId } });
  }

  #cancelWithParent({ queue }: ChildSession, turnId: string): () => void {
    const control = this.#scope?.control;
    const signal = control?.signal;
    const cancel = (): void => {
      if (control?.isCancelled !== true) return;
      queue.cancel(turnId, "the turn that started it was cancelled").catch(() => undefined);
    };
    if (signal?.aborted === true) cancel();
    else signal?.addEventListener("abort", cancel, { once: true });
    return () => signal?.removeEventListener("abort", cancel);
  }
}

/** What a child's turn used, under the source that its session has. */
function usageOf(child: ResidentSession, { modelCalls, childUsage }: TurnReport): readonly UsageEntry[] {
  const source = child.frame.assignment.usageSource ?? "child";
  const own = modelCalls.map(({ model, usage }) => ({ source, model, usage }));
  return [...own, ...childUsage].filter(({ usage }) => !isNoUsage(usage));
}

function busy({ id }: ResidentSession): MarlingError {
  const message = `session ${id}: expected no turn on its way, found one`;
  return new MarlingError("session_busy", message, { details: { sessionId: id } });
}

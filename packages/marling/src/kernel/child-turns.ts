// Turns of sessions below this one, as plugins and tools start them.
//   CT1  one turn at a time: a session with a turn on its way is busy, here or in another runtime, unless it is the very
//        turn that is asked for again; so is the session itself while it works, which would wait for itself.
//   CT2  a turn that was started inside an effect is named after it; after a crash the effect gets the same turn, wherever
//        that is by then, and nothing of it runs again.
//   CT3  what a child's turn used is in the ledger of the session that started it, under the child's usage source: with the
//        turn's commit, or at once beside turns.
//   CT4  a turn that is cancelled cancels the turns that its effects started, those of earlier runs included; one that was
//        lost to another runtime does not: it goes on there.
//   CT5  a child's turn that is left to the store leaves the turn that waits for it to the store as well.

import { MarlingError } from "../base/errors.ts";
import type { Json } from "../model/json.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { StartedTurn, StartTurnOptions } from "../model/session-host.ts";
import type { TurnEvent, TurnInput, TurnReport } from "../model/turn.ts";
import { isNoUsage, type UsageEntry } from "../model/usage.ts";
import type { AdmitOptions } from "./admit.ts";
import { isUnbound } from "./bindings.ts";
import { commitBeside, operationOf } from "./commit.ts";
import { readKey } from "./read-key.ts";
import type { ResidentSession } from "./resident-session.ts";
import { serviceKey } from "./service-scope.ts";
import { isBelow } from "./session-reach.ts";
import { type Payer, settlePayer } from "./spending.ts";
import { type OutputReader, outputReader } from "./structured-output.ts";
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
  readonly payer: Payer | undefined;
  readonly reader: OutputReader;
}

const WITH_PARENT = "the turn that started it was cancelled";

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
    const reader = outputReader(outputSchema);
    const scope = this.#scope;
    const key = scope === undefined ? given : serviceKey(scope, "turn", readKey(given));
    const { child, turn } = await this.#left(
      submitBelow(this.#session, sessionId, {
        scope,
        submit: (opened) => this.#submit(opened, input, { key, outputSchema }),
      }),
    );
    const { session } = child;
    const { trace } = this.#session;
    turn.starter = scope?.control;
    const payer = this.#payFor(child, turn);
    this.#started.set(turn.row.turnId, { child, turn, payer, reader });
    this.#cancelWithParent(child, turn);
    trace?.event("child_turn", { childSessionId: sessionId, childTurnId: turn.row.turnId }, scope?.span);
    const { policy } = session;
    return {
      turnId: turn.row.turnId,
      sessionId,
      policy: policy as SessionPolicy,
      events: turn.events.watch(),
    };
  }

  #submit(child: ChildSession, input: string | TurnInput, options: AdmitOptions): Promise<QueuedTurn> {
    const { session, queue } = child;
    const scope = this.#scope;
    if (session === this.#session && queue.isBusy) throw busy(session);
    if (session !== this.#session) scope?.below.add(session.id);
    const place = this.#session.trace?.place(scope?.span);
    const beforeNew = async (): Promise<void> => {
      await refuseBusy(child);
      session.trace?.startBelow(place);
    };
    return queue.submit(input, { ...options, beforeNew, isInside: true }).then(({ turn }) => turn);
  }

  async await(turnId: string): Promise<TurnReport> {
    const { child, turn, payer, reader } = this.#take(turnId);
    this.#started.delete(turnId);
    try {
      const report = await this.#reportOf(child, turn);
      await this.#charge(usageOf(child.session, report), payer);
      return await withValue(report, reader);
    } catch (thrown) {
      if (isMachineryFault(thrown)) this.#scope?.control.lose(thrown);
      throw thrown;
    }
  }

  /** The end of a turn. A session that is closed meanwhile is opened again, and the turn is waited for there. */
  async #reportOf(child: ChildSession, turn: QueuedTurn): Promise<TurnReport> {
    const { sessions, effects } = this.#session.parts;
    const { id } = child.session;
    let found: QueuedTurn | undefined = turn;
    for (;;) {
      const left: unknown = await found.done.promise.then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (left === undefined) return found.done.promise;
      if (codeOf(left) !== "session_closed" || effects.remembers !== true) throw left;
      const { queue } = await sessions.openBelow(id, this.#session);
      found = await queue.find(turn.row);
      if (found === undefined) throw left;
      found.starter = this.#scope?.control;
    }
  }

  async cancel(turnId: string): Promise<void> {
    const { child } = this.#take(turnId);
    await child.queue.cancel(turnId, "cancelled by the session that started it");
  }

  /** A session below that this runtime cannot drive leaves the turn that needs it to the store (CT5). */
  #left<T>(asked: Promise<T>): Promise<T> {
    return asked.catch((thrown: unknown) => {
      if (isUnbound(thrown)) this.#scope?.control.lose(thrown);
      throw thrown;
    });
  }

  /** While a turn of a session below runs, what it uses counts here. */
  #payFor({ session }: ChildSession, turn: QueuedTurn): Payer | undefined {
    const scope = this.#scope;
    if (scope === undefined) return undefined;
    const tell = (event: TurnEvent): void => scope.emit(event);
    const payer: Payer = { session: this.#session, below: session.id, tell, counted: 0 };
    session.payer = payer;
    onceDone(turn, () => {
      if (session.payer === payer) session.payer = undefined;
    });
    return payer;
  }

  async #charge(usage: readonly UsageEntry[], payer: Payer | undefined): Promise<void> {
    const session = this.#session;
    if (payer !== undefined) settlePayer(payer, usage);
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

  #cancelWithParent({ queue }: ChildSession, turn: QueuedTurn): void {
    const control = this.#scope?.control;
    if (control === undefined) return;
    const { signal } = control;
    const cancel = (): void => {
      if (control.isCancelled) queue.cancel(turn.row.turnId, WITH_PARENT).catch(() => undefined); // `cancelBelow` asks again.
    };
    if (signal.aborted) cancel();
    else signal.addEventListener("abort", cancel, { once: true });
    onceDone(turn, () => signal.removeEventListener("abort", cancel));
  }
}

/** Cancels the turns that a cancelled turn has started, in whichever run of it, and that are still on their way. */
export async function cancelBelow({ session, acceptedScope }: TurnRun): Promise<void> {
  const { store, effects, watch } = session.parts;
  if (effects.remembers !== true) return;
  const begun = `${acceptedScope}.`;
  for (const id of await store.unsettled()) {
    const rows = id === session.id ? [] : await store.pending(id);
    for (const { key = "", turnId, sessionId } of rows)
      if (key.startsWith(begun) && (await isBelow(session, id)))
        await store.cancel({ sessionId, turnId, reason: WITH_PARENT });
  }
  watch.notify();
}

/** Gives a session below something to do. One that is closed before it takes that is opened again. */
export async function submitBelow<T extends QueuedTurn>(
  from: ResidentSession,
  sessionId: string,
  { scope, submit }: { readonly scope: TurnRun | undefined; submit(child: ChildSession): Promise<T> },
): Promise<{ readonly child: ChildSession; readonly turn: T }> {
  for (;;) {
    scope?.control.refuseLost();
    const child = await from.parts.sessions.openBelow(sessionId, from);
    try {
      return { child, turn: await submit(child) };
    } catch (thrown) {
      if (codeOf(thrown) !== "session_closed" || child.session === from) throw thrown;
    }
  }
}

function codeOf(thrown: unknown): string | undefined {
  return MarlingError.is(thrown) ? thrown.code : undefined;
}

function onceDone({ done }: QueuedTurn, then: () => void): void {
  done.promise.then(then, then);
}

async function refuseBusy({ session, queue }: ChildSession): Promise<void> {
  const pending =
    queue.live.size > 0 ? queue.live.size : (await session.parts.store.pending(session.id)).length;
  if (pending > 0) throw busy(session);
}

/** The report with the value that a schema makes of the answer; an answer that does not follow it is `invalid_output`. */
async function withValue(report: TurnReport, { jsonSchema, read }: OutputReader): Promise<TurnReport> {
  const { outcome } = report;
  if (jsonSchema === undefined || outcome.kind !== "finished") return report;
  return { ...report, outcome: { ...outcome, value: (await read(outcome)) as Json } }; // as the schema took it
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

// The sessions that are open in a runtime: opened once, for whoever asks, and let go as a whole.
//   OS1  two callers of one id get one session; whoever comes while it is let go waits, and opens it anew.
//   OS2  a session that is open for the work that was left in it only is let go when that is done.
//   OS4  whoever is at work in a session has that one, let go or not: it would wait for itself.
//   OS3  one that a turn made, gave work to or looked at, and that the host did not open, is let go with that turn when it is idle.

import { type Deferred, deferred } from "../base/deferred.ts";
import { MarlingError } from "../base/errors.ts";
import { type SessionId, sessionId } from "../model/ids.ts";
import type { MessageInput } from "../model/message.ts";
import type { SessionCreated, SessionCreateRequest } from "../plugin/session-create.ts";
import type { InboxRow } from "../store/contract.ts";
import type { AdmitOptions, Admitted } from "./admit.ts";
import { allBindingsOf, isUnbound, needsBinding } from "./bindings.ts";
import type { ChildSession } from "./child-turns.ts";
import { createSession, type MadeSession } from "./create-session.ts";
import { attend, enter, isLeft, type Open, openAlready, type TrackOptions } from "./open-entry.ts";
import { type OpenedSession, openSession, unknownSession } from "./open-session.ts";
import type { KernelParts, SessionDirectory } from "./parts.ts";
import type { CloseCode, CloseGrace } from "./queue-closing.ts";
import type { ResidentSession } from "./resident-session.ts";
import { RuntimeClosing, type RuntimeGrace } from "./runtime-closing.ts";
import { RuntimeWork } from "./runtime-work.ts";
import { serviceKey } from "./service-scope.ts";
import type { Session } from "./session.ts";
import { isBelow, reachable, unreachable } from "./session-reach.ts";
import { SessionReaders } from "./session-readers.ts";
import { Triggers } from "./triggers.ts";
import { type QueuedTurn, TurnQueue } from "./turn-queue.ts";
import type { TurnRun } from "./turn-run.ts";

export class OpenSessions {
  readonly parts: KernelParts;
  readonly #open = new Map<string, Promise<Open>>();
  readonly #resident = new Map<string, ResidentSession>();
  /** Ids of sessions that are being made. */
  readonly #reserved = new Map<string, Deferred<void>>();
  /** Revisions at which sessions were let go with work that this runtime cannot or is not to go on with. */
  readonly #left = new Map<string, number>();
  readonly #readers: SessionReaders;
  /** Sessions with a turn that waits for a session below which this runtime cannot drive. */
  readonly #waiting = new Map<SessionId, SessionId>();
  readonly #onRecovered: (turn: QueuedTurn) => void;
  /** How they end together. */
  readonly closing: RuntimeClosing;

  constructor(
    parts: Omit<KernelParts, "sessions" | "work" | "triggers">,
    onRecovered: (turn: QueuedTurn) => void,
  ) {
    const directory: SessionDirectory = {
      find: (id) => this.find(id),
      reserve: (id) => this.reserve(id),
      create: (request, from, scope) => this.create(request, from, scope),
      close: (id, from) => this.#closeFor(id, from),
      submit: (id, input, options) => this.submit(id, input, options),
      openBelow: (id, from) => this.openBelow(id, from),
      leave: (ids) => this.#leave(ids),
      takeFirstTurnInput: (id, from) => this.takeFirstTurnInput(id, from),
      cancelTurns: (id) => this.#cancelTurns(id),
      isClosing: () => this.closing.isClosing,
    };
    const work = new RuntimeWork(directory, parts);
    this.parts = { ...parts, sessions: directory, work, triggers: new Triggers(directory, parts) };
    this.#readers = new SessionReaders(this.parts);
    this.#onRecovered = onRecovered;
    this.closing = new RuntimeClosing(parts);
  }

  find(id: string): ResidentSession | undefined {
    return this.#resident.get(id);
  }

  /** The session if it is open, else what `open` makes of it. Options that need it opened anew make it go first. */
  async open(
    id: SessionId,
    { isNew, isBelow = false }: { readonly isNew: boolean; readonly isBelow?: boolean },
    open: () => Promise<OpenedSession>,
  ): Promise<{ readonly entry: Open; readonly wasOpen: boolean }> {
    await this.#reserved.get(id)?.promise;
    for (let known = this.#open.get(id); known !== undefined; known = this.#open.get(id)) {
      const entry = await known;
      if (isNew || entry.closing !== undefined) {
        await this.#makeWay(entry);
        continue;
      }
      await attend(entry);
      entry.isAttended ||= !isBelow;
      return { entry, wasOpen: true };
    }
    return { entry: await this.track(id, open, { isAttended: !isBelow }), wasOpen: false };
  }

  /** The session for whoever reads it. It is not created, and nothing in it is taken up. */
  async openToRead(id: SessionId): Promise<Session> {
    await this.#reserved.get(id)?.promise;
    if (!this.#open.has(id) && !(await this.parts.store.exists(id))) throw unknownSession(id);
    for (;;) {
      const opening = this.#open.get(id) ?? this.track(id, () => this.#openBound(id), { isAtRest: true });
      const entry = await opening.catch((thrown: unknown) => {
        if (isUnbound(thrown, id)) return undefined;
        throw thrown;
      });
      if (entry === undefined) return this.#readers.open(id);
      await entry.closing;
      if (entry.closing !== undefined) continue;
      Object.assign(entry, { isAttended: true, isForRecovery: false });
      return entry.handle;
    }
  }

  /** Resolves when the turns that earlier processes left have ended or sleep. True when one needs what this runtime lacks. */
  async quiet(): Promise<boolean> {
    const open = await Promise.allSettled(this.#open.values());
    const waits = open.map((one) =>
      one.status === "fulfilled" ? isLeft(one.value.queue.quiet(one.value.recovered)) : false,
    );
    return (await Promise.all(waits)).includes(true);
  }

  /** Releases a session that is deleted next. */
  async releaseDeleted(id: SessionId): Promise<void> {
    const open = await this.#open.get(id);
    if (open !== undefined) await this.#release(open, "session_closed", { isDeletion: true });
    await this.#readers.close(id);
  }

  /** Releases every session when all are done. Turns that have not ended after the grace are ended: see TQ6. */
  async close(grace: RuntimeGrace): Promise<void> {
    await this.closing.end(grace, () => this.parts.work.beginClosing());
    const open = await Promise.allSettled(this.#open.values());
    const gone = open.map((one) =>
      one.status === "fulfilled"
        ? this.#release(one.value, "runtime_closed", { graceMs: 0, lastMs: 0 })
        : undefined,
    );
    await Promise.all([...gone, this.#readers.closeAll()]);
    await this.parts.work.close();
  }

  async #cancelTurns(id: string): Promise<void> {
    const open = await this.#open.get(id);
    for (const turnId of open?.queue.live.keys() ?? [])
      await open?.queue.cancel(turnId, "the task that it belongs to was cancelled");
  }

  /** Registers an opening at once, so that two callers of one id get one session. */
  track(id: SessionId, open: () => Promise<OpenedSession>, options: TrackOptions = {}): Promise<Open> {
    const opening = open().then((opened) => this.#enter(id, opened, options));
    this.#open.set(id, opening);
    opening.catch(() => this.#open.delete(id));
    return opening;
  }

  async #enter(id: SessionId, opened: OpenedSession, options: TrackOptions): Promise<Open> {
    const { session, inputs } = opened;
    const { left, queue } = await this.#queueOf(session, inputs).catch((thrown: unknown) =>
      this.#giveUp(session, thrown),
    );
    this.#resident.set(id, session);
    return enter(opened, queue, {
      ...options,
      close: (entry) => this.#release(entry, "session_closed"),
      takeUp: (entry) => this.#takeUp(entry),
      begin: (entry) => this.#noteAll(entry, queue.enqueue(left, { isRecovery: true })),
    });
  }

  #noteAll(open: Open, turns: readonly QueuedTurn[]): void {
    open.recovered.push(...turns);
    for (const turn of turns) {
      this.#onRecovered(turn);
      turn.done.promise.catch((thrown: unknown) => {
        const below = isUnbound(thrown) ? (thrown.details.sessionId as SessionId) : open.resident.id;
        if (below !== open.resident.id) this.#waiting.set(open.resident.id, below);
      });
    }
  }

  /** A turn that needs a session below that this runtime cannot drive is not tried again before that has changed. */
  async #refuseWaiting(id: SessionId): Promise<void> {
    const below = this.#waiting.get(id);
    const stored = below === undefined ? undefined : await this.parts.store.load(below, { isPartial: true });
    const missing = stored === undefined ? [] : (await allBindingsOf(this.parts, stored)).missing;
    if (below !== undefined && missing.length > 0) throw needsBinding(below, missing);
    this.#waiting.delete(id);
  }

  /** A session that is open for recovery only makes way for options that need it opened anew; another is refused. */
  async #makeWay(open: Open): Promise<void> {
    if (open.closing === undefined && !open.isForRecovery) throw openAlready(open.resident.id);
    if (open.closing === undefined) await open.queue.quiet(open.recovered).catch(() => undefined); // Whoever waits is told.
    await this.#release(open, "session_closed");
  }

  /** Opens a session for the work that was left in it. */
  async openForRecovery(id: SessionId): Promise<void> {
    if (this.closing.isClosing || this.#reserved.has(id)) return;
    await this.#refuseWaiting(id);
    const known = this.#open.get(id);
    if (known !== undefined) return this.#takeUp(await known);
    const opening = this.track(id, () => this.#openBound(id), { isForRecovery: true });
    this.#letGoWhenDone(await opening).catch(() => undefined); // What it cannot let go goes with the runtime.
  }

  /** As `openForRecovery`, for what goes on beside turns, unless it was let go here and nobody has written since. */
  async openForWork(id: SessionId): Promise<boolean> {
    if (this.closing.isClosing || this.#reserved.has(id)) return false;
    const left = this.#open.has(id) ? undefined : this.#left.get(id);
    if (left !== undefined && left === (await this.parts.store.revision(id))) return false;
    await this.openForRecovery(id);
    const { work } = this.#resident.get(id) ?? {};
    return work !== undefined && !work.isClosing && (await work.own()) && work.isResumable;
  }

  async submit(id: SessionId, input: unknown, options: AdmitOptions): Promise<Admitted> {
    this.closing.refuseOutside();
    await this.#reserved.get(id)?.promise;
    const open = await this.#openFor(id);
    const { turn, ...admitted } = await open.queue.submit(input, options);
    const live = open.recovered.filter(({ row }) => open.queue.live.has(row.turnId));
    open.recovered = [...live, turn];
    this.#letGoWhenDone(open).catch(() => undefined); // What it cannot let go goes with the runtime.
    return admitted;
  }

  /** The session as it is open, or opened for the work that it is given only. */
  async #openFor(id: SessionId): Promise<Open> {
    for (let known = this.#open.get(id); known !== undefined; known = this.#open.get(id)) {
      const open = await known;
      if (open.closing === undefined) return open;
      await open.closing;
    }
    return this.track(id, () => this.#openBound(id), { isForRecovery: true });
  }

  /** Work that was left in a session that is open here. */
  async #takeUp(open: Open): Promise<void> {
    if (open.closing !== undefined) return;
    this.#noteAll(open, await open.queue.takeUp());
  }

  #openBound(id: SessionId): Promise<OpenedSession> {
    const options = { policy: {}, pluginOptions: undefined, parent: undefined, isUnasked: true };
    return openSession(this.parts, id, options);
  }

  async #letGoWhenDone(open: Open): Promise<void> {
    await open.queue.quiet(open.recovered).catch(() => undefined); // Whoever waits for the turn is told.
    await open.resident.work.quiet();
    if (open.isForRecovery && open.queue.isAsleep) await this.#release(open, "session_closed");
  }

  /** The turns of a session that is opened, and the inputs that were left to it. */
  async #queueOf(
    session: ResidentSession,
    inputs: number,
  ): Promise<{ readonly left: readonly InboxRow[]; readonly queue: TurnQueue }> {
    const left = await this.#unfinished(session.id);
    const queue = new TurnQueue(session, inputs);
    session.work.bind(queue);
    this.closing.add(queue);
    return { left, queue };
  }

  /** Inputs without a committed turn. Without a journal nothing outlives the process that accepted them. */
  async #unfinished(id: SessionId): Promise<readonly InboxRow[]> {
    const { store, effects } = this.parts;
    return effects.remembers === true ? store.pending(id) : [];
  }

  /** A session that cannot be opened after all leaves nothing behind. */
  async #giveUp({ id, plugins }: ResidentSession, thrown: unknown): Promise<never> {
    this.parts.plugins.unregisterSession(id);
    await plugins.dispose();
    throw thrown;
  }

  reserve(id: string): (() => void) | undefined {
    if (this.#open.has(id) || this.#reserved.has(id)) return undefined;
    const made = deferred<void>();
    this.#reserved.set(id, made);
    return () => {
      this.#reserved.delete(id);
      made.resolve();
    };
  }

  /** Makes a session; inside an effect, the one that an earlier run of the effect made is the one that is asked for. */
  async create(
    request: SessionCreateRequest,
    from: ResidentSession,
    scope?: TurnRun,
  ): Promise<SessionCreated> {
    this.closing.refuse();
    scope?.control.refuseLost();
    const cause = scope === undefined ? undefined : serviceKey(scope, "session", undefined);
    const made = await createSession(from, request, cause);
    const opening = made.kind === "known" ? this.#openKnown(made.id, from, request) : this.#openMade(made);
    const session = await opening.catch((thrown: unknown) => {
      if (isUnbound(thrown)) scope?.control.lose(thrown); // As CT5.
      throw thrown;
    });
    if (made.kind === "made")
      from.trace?.event("session_created", { childSessionId: session.id }, scope?.span);
    scope?.below.add(session.id);
    return { sessionId: session.id };
  }

  async #leave(ids: Iterable<string>): Promise<void> {
    for (const id of ids) {
      const open = await this.#open.get(id)?.catch(() => undefined);
      if (open === undefined || open.isAttended || open.closing !== undefined) continue;
      if (!open.queue.isBusy && open.resident.work.isIdle) await this.#release(open, "session_closed");
    }
  }

  async #openKnown(
    id: SessionId,
    from: ResidentSession,
    { firstTurnInput }: SessionCreateRequest,
  ): Promise<ResidentSession> {
    const { session } = await this.openBelow(id, from);
    session.work.giveAgain(firstTurnInput);
    return session;
  }

  async #openMade({ session, release }: Extract<MadeSession, { kind: "made" }>): Promise<ResidentSession> {
    const open = async (): Promise<OpenedSession> => ({ session, inputs: 0, unannounced: [] });
    const opening = this.track(session.id, open, { isAttended: false });
    release();
    return (await opening).resident;
  }

  /** A session below another, opened if it is not open. */
  async openBelow(id: string, from: ResidentSession): Promise<ChildSession> {
    this.closing.refuse();
    const wanted = sessionId(id);
    await this.#reserved.get(wanted)?.promise;
    const own = wanted === from.id ? await this.#open.get(wanted) : undefined;
    if (own?.resident === from) return { session: from, queue: own.queue };
    if (!(await isBelow(from, wanted))) throw unreachable(from, id);
    const { entry } = await this.open(wanted, { isNew: false, isBelow: true }, () => this.#openBound(wanted));
    return { session: entry.resident, queue: entry.queue };
  }

  async takeFirstTurnInput(id: string, from: ResidentSession): Promise<MessageInput | undefined> {
    const session = this.#resident.get(id);
    if (session === undefined) return undefined;
    reachable(from, id);
    return session.work.takeFirstTurnInput();
  }

  async #closeFor(id: string, from: ResidentSession): Promise<void> {
    if (id === from.id)
      throw new MarlingError(
        "session_busy",
        `session ${id}: expected another session to close, found the current one`,
      );
    const open = await this.#open.get(id);
    if (open === undefined) return;
    reachable(from, id);
    if (open.queue.isBusy)
      throw new MarlingError(
        "session_busy",
        `session ${id}: expected an idle session to close, found one with a running turn`,
      );
    await this.#release(open, "session_closed");
  }

  #release(open: Open, code: CloseCode, grace: CloseGrace = {}): Promise<void> {
    const isUrgent = code === "runtime_closed" || grace.isDeletion === true;
    const isHeldUp = open.closing !== undefined && isUrgent;
    if (isHeldUp) open.queue.close(code, grace).catch(() => undefined); // Whoever closes it without a grace is freed by it.
    open.closing ??= this.#letGo(open, code, grace);
    return open.closing;
  }

  async #letGo({ resident, queue }: Open, code: CloseCode, grace: CloseGrace): Promise<void> {
    await queue.close(code, grace);
    this.closing.delete(queue);
    resident.ending.abort();
    await resident.work.close({
      isWithRuntime: code === "runtime_closed",
      onStored: () => {
        if (resident.work.isLeft) this.#left.set(resident.id, resident.state.revision);
      },
    });
    if (this.#resident.get(resident.id) !== resident) return;
    this.#open.delete(resident.id);
    this.#resident.delete(resident.id);
    this.parts.plugins.unregisterSession(resident.id);
    resident.observation.close();
    await resident.plugins.dispose();
  }
}

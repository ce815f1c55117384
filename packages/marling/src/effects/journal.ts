// Effects that are remembered in the store until their turn is committed.
//   JE1  an outcome that is known is returned, and its effect is not performed again.
//   JE2  an outcome that was paid for is written before anything that is not kernel code runs: at once for a tool attempt,
//        whose siblings may still run, and for the others with the next effect that is performed. What hooks and
//        environments came to rides with the next write, before an effect that may take long at the latest. What is left
//        when the turn commits is never written.
//   JE3  an effect that must not run twice leaves a mark before it begins; found without an outcome, it was cut.
//   JE4  a fault of the machinery is passed on and not remembered.
//   JE6  a plan is written with the mark of its effect; the first one holds in every run.
//   JE8  what begins or ends in one tick is one write.
//   JE9  of a turn that is begun as a new one nothing is read.
//   JE10 an outcome is ahead until the run has come to its effect, or is done with an effect that encloses it. A model
//        call encloses nothing but ends everything before it: outcomes recorded before it are no longer ahead behind it.
//   JE11 a write that the store refuses is tried again for a bounded time; then the effects that wait for it fail.
//   JE12 outcomes that could not be written outlive the run (left-journal.ts).

import { type RetryTerms, retryRefused } from "../base/retry-refused.ts";
import type { EffectKey, SessionId, TurnId } from "../model/ids.ts";
import { enclosingEffects, type JournalRecord, type JournalStore } from "../model/journal.ts";
import type { Json } from "../model/json.ts";
import { refuseNewer } from "../model/outcome-version.ts";
import type { EffectHost, EffectKind, EffectOptions, EffectRequest, TurnName } from "./contract.ts";
import { type LeftJournal, LeftJournals, withLeft } from "./left-journal.ts";

/** Kinds whose outcome is written in the tick it arrives. */
const AT_ONCE: ReadonlySet<EffectKind> = new Set(["tool_attempt", "direct_completion", "wait", "timer"]);

/** Kinds that cost nothing but the asking: what they came to may be asked for again, so one need not wait for another. */
const CHEAP: ReadonlySet<EffectKind> = new Set(["environment", "hook_phase", "checkpoint"]);

const NONE: readonly Json[] = Object.freeze([]);
const NO_KEYS: readonly EffectKey[] = Object.freeze([]);

/** What waits for it comes behind what runs now. */
const NOW = Promise.resolve();

type Perform<T> = (plan: Json | undefined) => Promise<T>;

/** Without terms a write is tried once. */
export function journalEffects(rows: JournalStore, retry?: RetryTerms): EffectHost {
  const turns = new TurnMap<TurnJournal | Promise<TurnJournal>>();
  const left = new LeftJournals();
  const open = (turn: TurnName): TurnJournal | Promise<TurnJournal> =>
    turns.get(turn) ?? opening(turns, turn, TurnJournal.open(rows, turn, { retry, left: left.of(turn) }));
  return {
    remembers: true,
    begin: (turn) => turns.set(turn, new TurnJournal(rows, [], { retry })),
    run: <T>(request: EffectRequest, perform: Perform<T>, options: EffectOptions<T> = {}): Promise<T> => {
      const journal = open(request);
      return journal instanceof TurnJournal
        ? journal.run(request, perform, options)
        : journal.then((opened) => opened.run(request, perform, options));
    },
    knows: (turn, key) => asked(open(turn), (journal) => journal.knows(key)),
    hasBegun: (turn, key) => asked(open(turn), (journal) => journal.hasBegun(key)),
    isReplaying: (turn) => asked(open(turn), (journal) => journal.isReplaying),
    ahead: (turn) => asked(open(turn), (journal) => journal.ahead),
    leave: (turn, key) => asked(open(turn), (journal) => journal.leave(key)),
    flush: async (turn, what) => {
      const journal = await turns.get(turn);
      if (what === "once") await journal?.flushOnce(turn);
      else await (what === "all" ? journal?.flush(turn) : journal?.flushOwed(turn));
    },
    abandon: (turn) => {
      const journal = turns.get(turn);
      turns.delete(turn);
      if (journal instanceof TurnJournal) left.put(turn, journal.left(turn)); // Else it was not read: nothing is new.
    },
    forget: (turn) => {
      turns.delete(turn);
      left.put(turn, undefined);
    },
  };
}

/** A journal that is being read: everyone who asks meanwhile waits for the same one. */
function opening(
  turns: TurnMap<TurnJournal | Promise<TurnJournal>>,
  turn: TurnName,
  read: Promise<TurnJournal>,
): Promise<TurnJournal> {
  const journal = read.then(
    (opened) => {
      if (turns.get(turn) === journal) turns.set(turn, opened);
      return opened;
    },
    (thrown: unknown) => {
      turns.delete(turn); // Whoever asked is told; the next one tries again.
      throw thrown;
    },
  );
  turns.set(turn, journal);
  return journal;
}

/** What a journal says: at once where it is open. */
function asked<T>(
  journal: TurnJournal | Promise<TurnJournal>,
  ask: (journal: TurnJournal) => T,
): T | Promise<T> {
  return journal instanceof TurnJournal ? ask(journal) : journal.then(ask);
}

/** Values by turn. Looked up in every effect, so no text is put together for it. */
class TurnMap<T> {
  readonly #sessions = new Map<SessionId, Map<TurnId, T>>();

  get({ sessionId, turnId }: TurnName): T | undefined {
    return this.#sessions.get(sessionId)?.get(turnId);
  }

  set({ sessionId, turnId }: TurnName, value: T): void {
    const turns = this.#sessions.get(sessionId);
    if (turns === undefined) this.#sessions.set(sessionId, new Map([[turnId, value]]));
    else turns.set(turnId, value);
  }

  delete({ sessionId, turnId }: TurnName): void {
    const turns = this.#sessions.get(sessionId);
    turns?.delete(turnId);
    if (turns?.size === 0) this.#sessions.delete(sessionId);
  }
}

/** What is known of one turn. */
class TurnJournal {
  readonly #rows: JournalStore;
  readonly #outcomes: Map<EffectKey, Json>;
  /** What was planned for effects that may have begun. */
  readonly #started: Map<EffectKey, Json | undefined>;
  /** Those that are marked in this run and wait for the mark to be written. */
  readonly #unbegun = new Set<EffectKey>();
  /** Outcomes of earlier runs that this one has not come to. */
  readonly #ahead: Set<EffectKey>;
  #unwritten: JournalRecord[] = [];
  /** Whether something is among them that must not be lost to code that runs next. */
  #isOwed = false;
  /** What was given to the store and is not written yet, or failed; effects that begin at once all wait for it. */
  #writing: Promise<unknown> | undefined;
  /** Set while what comes in this tick is gathered for one write. */
  #gathering: Promise<unknown> | undefined;
  readonly #retry: RetryTerms | undefined;
  /** When the store refused a write and has taken none since. */
  #refusedAt: number | undefined;

  constructor(
    rows: JournalStore,
    known: readonly JournalRecord[],
    {
      retry,
      unwritten = [],
    }: { readonly retry?: RetryTerms | undefined; readonly unwritten?: readonly JournalRecord[] },
  ) {
    this.#rows = rows;
    this.#retry = retry;
    this.#unwritten = [...unwritten];
    this.#isOwed = unwritten.length > 0;
    const done = known.filter(({ status }) => status === "done");
    this.#started = new Map(
      known.filter(({ status }) => status === "started").map(({ key, outcome }) => [key, outcome]),
    );
    this.#outcomes = new Map(done.map(({ key, outcome }) => [key, outcome as Json]));
    this.#ahead = new Set(this.#outcomes.keys());
  }

  static async open(
    rows: JournalStore,
    { sessionId, turnId, lease }: TurnName,
    { retry, left }: { readonly retry: RetryTerms | undefined; readonly left: LeftJournal | undefined },
  ): Promise<TurnJournal> {
    const stored = await rows.read(sessionId, turnId);
    refuseNewer(stored);
    const { known, unwritten } = withLeft(stored, left, lease);
    return new TurnJournal(rows, known, { retry, unwritten });
  }

  /** The records to keep when the run ends here; `undefined` when everything is written. */
  left({ lease }: TurnName): LeftJournal | undefined {
    const unbegun = [...this.#unbegun];
    const isBegun = ({ key, status }: JournalRecord): boolean => status === "done" || !this.#unbegun.has(key);
    const kept = this.#unwritten.filter(isBegun);
    if (kept.length + unbegun.length === 0) return undefined;
    const outcomes = JSON.parse(JSON.stringify([...this.#outcomes])) as [EffectKey, Json][];
    const unwritten = JSON.parse(JSON.stringify(kept)) as JournalRecord[];
    return { lease, started: [...this.#started.keys()], unbegun, outcomes: new Map(outcomes), unwritten };
  }

  get isReplaying(): boolean {
    return this.#ahead.size > 0;
  }

  get ahead(): readonly Json[] {
    return this.isReplaying ? [...this.#ahead].map((key) => this.#outcomes.get(key) as Json) : NONE;
  }

  knows(key: EffectKey): boolean {
    return this.#outcomes.has(key);
  }

  hasBegun(key: EffectKey): boolean {
    return this.#started.has(key) || this.knows(key);
  }

  async run<T>(request: EffectRequest, perform: Perform<T>, { cut, plan }: EffectOptions<T>): Promise<T> {
    const { key, kind } = request;
    this.#ahead.delete(key);
    if (this.#outcomes.has(key)) return this.#known(request) as T;
    const isStarted = this.#started.has(key);
    const planned = isStarted ? this.#started.get(key) : plan;
    const begun = this.#begin(request, { isMarked: !isStarted && (cut ?? plan) !== undefined, plan });
    if (begun !== undefined) await begun;
    if (this.#unbegun.size > 0) this.#unbegun.delete(key);
    const outcome = await (isStarted && cut !== undefined ? cut() : perform(planned));
    this.#pass(key);
    if (kind === "model_call") this.#ahead.clear();
    this.#remember(request, outcome as Json);
    if (AT_ONCE.has(kind)) await this.flush(request);
    return outcome;
  }

  /** An outcome of an earlier run. Effects that it encloses are not asked for again. */
  #known({ key, kind }: EffectRequest): Json | undefined {
    this.#pass(key);
    if (kind === "model_call") this.#passBefore(key);
    return this.#outcomes.get(key);
  }

  /**
   * The outcomes ahead that an effect, or without a key the turn, encloses; they are no longer ahead. An outcome holds
   * those of the effects it encloses, so only the outermost are returned.
   */
  leave(key: EffectKey | undefined): readonly Json[] {
    const left = this.#pass(key);
    if (left.length === 0) return NONE;
    const outermost = left.filter((inner) => !left.some((other) => this.#encloses(other, inner)));
    return outermost.map((inner) => this.#outcomes.get(inner) as Json);
  }

  #pass(key: EffectKey | undefined): readonly EffectKey[] {
    if (this.#ahead.size === 0) return NO_KEYS;
    const left = [...this.#ahead].filter((inner) => key === undefined || this.#encloses(key, inner));
    for (const inner of left) this.#ahead.delete(inner);
    return left;
  }

  #passBefore(key: EffectKey): void {
    if (this.#ahead.size === 0) return;
    for (const earlier of this.#outcomes.keys()) {
      if (earlier === key) return;
      this.#ahead.delete(earlier);
    }
  }

  #encloses(key: EffectKey, inner: EffectKey): boolean {
    return inner.startsWith(`${key}/`) || enclosingEffects(this.#outcomes.get(inner)).includes(key);
  }

  /** Writes everything known; nothing is waited for when all of it is written. */
  flush(turn: TurnName): Promise<unknown> | undefined {
    if (this.#unwritten.length > 0) this.#gathering ??= this.#gather(turn);
    return this.#written();
  }

  /** As `flush`, when something is owed; else only what is being written is waited for. */
  flushOwed(turn: TurnName): Promise<unknown> | undefined {
    return this.#isOwed ? this.flush(turn) : this.#written();
  }

  /** Writes everything known, without trying again. */
  async flushOnce({ lease }: TurnName): Promise<void> {
    await this.#written();
    const rows = [...this.#unwritten];
    if (rows.length === 0) return;
    await this.#rows.append(rows, lease);
    this.#unwritten = this.#unwritten.slice(rows.length);
    this.#isOwed = this.#unwritten.length > 0;
  }

  #written(): Promise<unknown> | undefined {
    return this.#gathering ?? this.#writing;
  }

  /** Calls that begin or end together are written together: the others come before this goes on. */
  #gather(turn: TurnName): Promise<unknown> {
    const gathered = NOW.then(() => this.#write(turn));
    gathered.catch(() => undefined); // Whoever waits for it is told.
    return gathered;
  }

  #write(turn: TurnName): Promise<unknown> {
    const rows = this.#unwritten;
    this.#gathering = undefined;
    this.#unwritten = [];
    this.#isOwed = false;
    const added = this.#rows
      .append(rows, turn.lease)
      .catch((refusal) => this.#writeAgain(rows, turn, refusal));
    const writing = this.#writing === undefined ? added : Promise.all([this.#writing, added]);
    this.#writing = writing;
    const end = (): void => {
      if (this.#writing === writing) this.#writing = undefined;
    };
    return writing.then(end, (thrown: unknown) => {
      end();
      throw thrown;
    });
  }

  /** Tries a refused write again. What is refused to the end is unwritten as before. */
  async #writeAgain(rows: JournalRecord[], { lease, signal }: TurnName, refusal: unknown): Promise<void> {
    try {
      if (this.#retry === undefined) throw refusal;
      this.#refusedAt ??= this.#retry.clock.monotonic();
      const since = this.#refusedAt;
      await retryRefused(() => this.#rows.append(rows, lease), refusal, { ...this.#retry, signal, since });
      this.#refusedAt = undefined;
    } catch (thrown) {
      this.#unwritten = [...rows, ...this.#unwritten];
      this.#isOwed = true;
      throw thrown;
    }
  }

  /** Before an effect begins, everything known is written, and its own mark with it; a cheap one waits for what is owed. */
  #begin(
    request: EffectRequest,
    { isMarked, plan }: { readonly isMarked: boolean; readonly plan: Json | undefined },
  ): Promise<unknown> | undefined {
    const { sessionId, turnId, key, kind } = request;
    if (isMarked) {
      this.#unbegun.add(key);
      this.#started.set(key, plan);
      const planned = plan === undefined ? {} : { outcome: plan };
      this.#unwritten.push({ sessionId, turnId, key, status: "started", ...planned });
    }
    return isMarked || !CHEAP.has(kind) ? this.flush(request) : this.flushOwed(request);
  }

  #remember({ sessionId, turnId, key, kind }: EffectRequest, outcome: Json): void {
    this.#outcomes.set(key, outcome);
    this.#unwritten.push({ sessionId, turnId, key, status: "done", outcome });
    if (!CHEAP.has(kind)) this.#isOwed = true;
  }
}

// Effects that are remembered in the store until their turn is committed.
//   JE1  an outcome that is known is returned, and its effect is not performed again.
//   JE2  an outcome is written before anything that is not kernel code runs: at once for a tool attempt, whose siblings
//        may still run, and for the others with the next effect that is performed. What is left when the turn commits
//        is never written.
//   JE3  an effect that must not run twice leaves a mark before it begins; found without an outcome, it was cut.
//   JE4  a fault of the machinery is passed on and not remembered.

import type { EffectKey } from "../model/ids.ts";
import type { JournalRecord, JournalStore } from "../model/journal.ts";
import type { Json } from "../model/json.ts";
import type { EffectHost, EffectKind, EffectOptions, EffectRequest, TurnName } from "./contract.ts";

/** Kinds whose outcome is written in the tick it arrives. */
const AT_ONCE: ReadonlySet<EffectKind> = new Set(["tool_attempt", "wait", "timer"]);

export function journalEffects(rows: JournalStore): EffectHost {
  const turns = new Map<string, Promise<TurnJournal>>();
  const open = (request: TurnName): Promise<TurnJournal> => {
    const name = nameOf(request);
    const known = turns.get(name) ?? TurnJournal.open(rows, request);
    turns.set(name, known);
    return known;
  };
  return {
    run: async <T>(
      request: EffectRequest,
      perform: () => Promise<T>,
      options?: EffectOptions<T>,
    ): Promise<T> => (await open(request)).run(request, perform, options?.cut),
    flush: async (turn) => (await turns.get(nameOf(turn)))?.flush(),
    forget: (turn) => void turns.delete(nameOf(turn)),
  };
}

function nameOf({ sessionId, turnId }: TurnName): string {
  return JSON.stringify([sessionId, turnId]);
}

/** What is known of one turn. */
class TurnJournal {
  readonly #rows: JournalStore;
  readonly #outcomes: Map<EffectKey, Json>;
  readonly #started: Set<EffectKey>;
  #unwritten: JournalRecord[] = [];

  private constructor(rows: JournalStore, known: readonly JournalRecord[]) {
    this.#rows = rows;
    this.#started = new Set(known.map(({ key }) => key));
    this.#outcomes = new Map(
      known.flatMap(({ key, status, outcome }) =>
        status === "done" ? [[key, outcome as Json] as const] : [],
      ),
    );
  }

  static async open(rows: JournalStore, { sessionId, turnId }: TurnName): Promise<TurnJournal> {
    return new TurnJournal(rows, await rows.read(sessionId, turnId));
  }

  async run<T>(
    request: EffectRequest,
    perform: () => Promise<T>,
    cut: (() => Promise<T>) | undefined,
  ): Promise<T> {
    const { key, kind } = request;
    if (this.#outcomes.has(key)) return this.#outcomes.get(key) as T;
    const isCut = cut !== undefined && this.#started.has(key);
    await this.#begin(request, cut !== undefined && !isCut);
    const outcome = await (isCut ? cut() : perform());
    this.#remember(request, outcome as Json);
    if (AT_ONCE.has(kind)) await this.flush();
    return outcome;
  }

  async flush(): Promise<void> {
    const rows = this.#unwritten;
    if (rows.length === 0) return;
    this.#unwritten = [];
    await this.#rows.append(rows);
  }

  /** Before an effect begins, everything known is written, and its own mark with it. */
  async #begin({ sessionId, turnId, key }: EffectRequest, isMarked: boolean): Promise<void> {
    if (isMarked) {
      this.#started.add(key);
      this.#unwritten.push({ sessionId, turnId, key, status: "started" });
    }
    await this.flush();
  }

  #remember({ sessionId, turnId, key }: EffectRequest, outcome: Json): void {
    this.#outcomes.set(key, outcome);
    this.#unwritten.push({ sessionId, turnId, key, status: "done", outcome });
  }
}

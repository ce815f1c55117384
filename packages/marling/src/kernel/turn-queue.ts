// The turns of one session: accepted in order, run one after the other.
//   TQ1  a turn that is asked for while another runs is accepted and runs next.
//   TQ2  an accepted input ends in exactly one commit; asking again attaches to the same turn.

import { type Deferred, deferred } from "../base/deferred.ts";
import { MarlingError } from "../base/errors.ts";
import { SerialQueue } from "../base/serial-queue.ts";
import type { JsonObject } from "../model/json.ts";
import type { TurnReport } from "../model/turn.ts";
import type { InboxRow } from "../store/contract.ts";
import { type AdmitOptions, type Admitted, admit, inputMessage } from "./admit.ts";
import { countRecovery } from "./recovery.ts";
import type { ResidentSession } from "./resident-session.ts";
import { runTurn } from "./run-turn.ts";
import { type CancelStatus, TurnControl } from "./turn-control.ts";
import { TurnEvents } from "./turn-events.ts";
import { decodeProgress } from "./turn-progress.ts";

/** What a turn starts with; live values when it was asked for just now, else what is stored with its input. */
type StartOptions = AdmitOptions & { readonly isRecovery?: boolean };

/** A turn that was accepted, wherever it is on its way. */
export interface QueuedTurn {
  readonly row: InboxRow;
  readonly control: TurnControl;
  readonly events: TurnEvents;
  readonly done: Deferred<TurnReport>;
}

export class TurnQueue {
  readonly #session: ResidentSession;
  readonly #admissions = new SerialQueue();
  readonly #live = new Map<string, QueuedTurn>();
  readonly #completed = new Set<string>();
  #isClosed = false;
  #inputs: number;

  constructor(session: ResidentSession, admittedInputs: number) {
    this.#session = session;
    this.#inputs = admittedInputs;
  }

  /** The id that the next input's turn will have, unless one before it is rejected or known already. */
  expectedId(): string {
    return `${this.#session.id}:turn:${this.#inputs + this.#admissions.length + 1}`;
  }

  /** Accepts an input and queues its turn; an input that is known already gives the turn it has. */
  submit(input: unknown, options: AdmitOptions): Promise<Admitted & { readonly turn: QueuedTurn }> {
    return this.#admissions.run(async () => {
      if (this.#isClosed)
        throw new MarlingError(
          "session_closed",
          `session ${this.#session.id}: expected an open session, found a closed one`,
        );
      const admitted = await admit(this.#session, input, options);
      this.#inputs = Math.max(this.#inputs, admitted.row.sequence);
      return { ...admitted, turn: this.#live.get(admitted.row.turnId) ?? this.#start(admitted.row, options) };
    });
  }

  /** Queues turns whose inputs are in the inbox already: a commit put them there, or an earlier process did. */
  enqueue(
    rows: readonly InboxRow[],
    { isRecovery = false }: { readonly isRecovery?: boolean } = {},
  ): readonly QueuedTurn[] {
    return rows.map((row) => {
      this.#inputs = Math.max(this.#inputs, row.sequence);
      return this.#live.get(row.turnId) ?? this.#start(row, { isRecovery });
    });
  }

  async cancel(turnId: string, reason: string): Promise<CancelStatus | "unknown"> {
    await this.#admissions.idle();
    const turn = this.#live.get(turnId);
    if (turn !== undefined) return turn.control.cancel(reason);
    return this.#completed.has(turnId) ? "completed" : "unknown";
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get isBusy(): boolean {
    return this.#live.size > 0 || this.#session.writer.length > 0;
  }

  /** Takes no more turns and waits for those that were accepted. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#admissions.idle();
    // What ends may have queued more: a command that queues a turn, for one.
    while (this.#session.writer.length > 0) await this.#session.writer.idle();
  }

  #start(row: InboxRow, options: StartOptions): QueuedTurn {
    const turn: QueuedTurn = {
      row,
      control: new TurnControl(),
      events: new TurnEvents(),
      done: deferred<TurnReport>(),
    };
    turn.done.promise.catch(() => undefined);
    if (row.report !== undefined) {
      this.#completed.add(row.turnId);
      turn.control.seal();
      turn.events.close();
      turn.done.resolve(row.report);
      return turn;
    }
    this.#live.set(row.turnId, turn);
    const run = this.#session.writer.run(() => this.#run(turn, options));
    run.then(turn.done.resolve, turn.done.reject);
    return turn;
  }

  async #run(turn: QueuedTurn, options: StartOptions): Promise<TurnReport> {
    const { row, control, events } = turn;
    const session = this.#session;
    session.running = { turnId: row.turnId, control };
    try {
      return await runTurn(session, {
        turnId: row.turnId,
        inputId: row.inputId,
        message: inputMessage(row),
        pluginInputs: { ...storedPluginInputs(row), ...options.pluginInputs },
        extension: options.extension,
        outputSchema: options.outputSchema ?? storedOutputSchema(row),
        control,
        events,
        progress: decodeProgress(row.progress, `turn ${row.turnId}`),
        refusal: options.isRecovery === true ? await countRecovery(session.parts.store, row) : undefined,
      });
    } finally {
      session.running = undefined;
      this.#live.delete(row.turnId);
      this.#completed.add(row.turnId);
      control.seal();
      events.close();
    }
  }
}

function storedOutputSchema(row: InboxRow): JsonObject | undefined {
  return (row.input as { readonly outputSchema?: JsonObject }).outputSchema;
}

function storedPluginInputs(row: InboxRow): Readonly<Record<string, unknown>> {
  return (row.input as { readonly pluginInputs?: Readonly<Record<string, unknown>> }).pluginInputs ?? {};
}

// Who may end a turn from outside: one cancellation, which the store has written first, or the loss of the lease.

import { setMaxListeners } from "node:events";
import type { MarlingError } from "../base/errors.ts";
import type { TurnOutcome } from "../model/turn.ts";
import type { InboxRow } from "../store/contract.ts";
import type { TurnFault } from "./turn-fault.ts";
import type { ParkedOn } from "./turn-parked.ts";

export class TurnControl {
  #controller = newController();
  #requested: string | undefined;
  /** Whether the run has come to something that no earlier run has come to. */
  #isNew = false;
  #reason: string | undefined;
  #lost: MarlingError | undefined;
  #ending: TurnFault | undefined;
  #waits = 0;
  #onWait: (() => void) | undefined;
  /** Called with what user code threw, before anything is made of it; may lose the turn. */
  onThrown: ((thrown: unknown) => void) | undefined;
  /** Whether a run of the turn is under way here. */
  isRunning = false;
  #onAsleep: (() => void) | undefined;
  /** Calls that have begun, and those that wait in memory for something that may take long. */
  readonly #begun = new Set<string>();
  readonly #sleeping = new Map<string, ParkedOn>();

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isCancelled(): boolean {
    return this.#reason !== undefined;
  }

  /** A run of the turn begins: what earlier ones came to is part of it first. */
  begin(): void {
    this.#isNew = false;
    this.#ending = undefined;
    if (this.#reason === undefined) return;
    this.#requested = this.#reason;
    this.#reason = undefined;
    this.#controller = newController();
  }

  /** Ends the turn where its records end: recorded outcomes are replayed, and no other effect is performed. */
  end(fault: TurnFault): void {
    this.#ending ??= fault;
  }

  /** The fault that ends the turn where its records end. */
  get ending(): TurnFault | undefined {
    return this.#ending;
  }

  /** Ends what runs; while earlier runs are only repeated, as `request` does, so that nothing they came to is lost. */
  ask(reason: string): void {
    if (this.#isNew) this.cancel(reason);
    else this.request(reason);
  }

  /** Asks the turn to end when it has come to where earlier runs of it have been: see `apply`. */
  request(reason: string): void {
    this.#requested ??= reason;
  }

  get isRequested(): boolean {
    return this.#requested !== undefined;
  }

  /** From here on everything is new: what was asked for takes effect. */
  apply(): void {
    this.#isNew = true;
    if (this.#requested !== undefined) this.cancel(this.#requested);
  }

  /** Ends what runs. Whether the turn ends as cancelled is decided by the store: see ST32. */
  cancel(reason: string): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#controller.abort(new DOMException(reason, "AbortError"));
  }

  /** The turn is not this runtime's any more: what runs is stopped, and nothing of it is told as cancelled. */
  lose(error: MarlingError): void {
    this.#lost ??= error;
    this.#controller.abort(error);
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /** Throws when the turn is not this runtime's any more. */
  refuseLost(): void {
    if (this.#lost !== undefined) throw this.#lost;
  }

  /** Throws when user code failed because its turn is not this runtime's any more, or is left with this failure. */
  refuseLostBy(thrown: unknown): void {
    this.onThrown?.(thrown);
    this.refuseLost();
  }

  /** Something goes on only when somebody outside answers, however long that takes; the wait is over with the returned call. */
  waits(): () => void {
    this.#waits += 1;
    this.#onWait?.();
    return () => {
      this.#waits -= 1;
    };
  }

  /** Calls `end` when the turn waits for somebody outside, now or later. */
  whenWaiting(end: () => void): void {
    this.#onWait = end;
    if (this.#waits > 0) end();
  }

  /** A call has begun; it has ended with the returned call. */
  works(callId: string): () => void {
    this.#begun.add(callId);
    return () => {
      this.#begun.delete(callId);
      this.#tellAsleep();
    };
  }

  /** A call waits in memory, where its turn cannot be left to a store; the wait is over with the returned call. */
  sleeps(callId: string, wait: ParkedOn): () => void {
    this.#sleeping.set(callId, wait);
    this.#tellAsleep();
    return () => this.#sleeping.delete(callId);
  }

  /** Calls `end` when the turn sleeps in memory, now or later. */
  whenAsleep(end: () => void): void {
    this.#onAsleep = end;
    this.#tellAsleep();
  }

  #tellAsleep(): void {
    if (this.#onAsleep !== undefined && this.asleep !== undefined) this.#onAsleep();
  }

  /** What a turn waits for in memory when nothing else goes on in it; as its row says where it is left to the store. */
  get asleep(): InboxRow["parked"] {
    const isAsleep = this.#sleeping.size > 0 && [...this.#begun].every((id) => this.#sleeping.has(id));
    if (!isAsleep) return undefined;
    const waits = [...this.#sleeping.values()];
    const times = waits.flatMap(({ due }) => due ?? []);
    return { names: waits.map(({ name }) => name), due: times.length === 0 ? null : Math.min(...times) };
  }

  outcome(): TurnOutcome {
    return { kind: "stopped", reason: "cancelled", code: "cancelled", message: this.#reason ?? "cancelled" };
  }
}

function newController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal); // Every call that runs listens; that many of them are no leak.
  return controller;
}

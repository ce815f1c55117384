// The right to write to one session, as this runtime has it.
//   LE1  what a session writes while it has a lease is written under its generation, so that a runtime that lost it can
//        never write again.
//   LE5  a lease that was lost and had again meanwhile is another one: what ran under the first has lost it.
//   LE2  a claim that is answered after the lease was released is stale: it is kept as `stray` and released, never used.
//   LE4  the lease is reference-counted. It is released when the last user leaves, and when a user leaves while all others
//        only wait.
//   LE6  an answer of the store is about the generation that was asked for. It changes nothing about another generation.
//   LE7  a claim waits for the release before it: a store that answers out of order cannot free what was claimed anew.
//   LE3  whether the lease still holds is looked at on the wall clock and on the monotonic one; past its end it is
//        renewed before anything else is done.

import type { Clock } from "../base/clock.ts";
import { MarlingError } from "../base/errors.ts";
import type { SessionId } from "../model/ids.ts";
import type { Claim, Lease, LeaseRequest, Store } from "../store/contract.ts";

/** Every lease of one runtime: who it is, and for how long it asks. */
export interface LeaseTerms {
  readonly store: Store;
  readonly clock: Clock;
  readonly owner: string;
  readonly incarnation: string;
  readonly ttlMs: number;
  /** Told of leases that are to be renewed from now on, or no more. */
  held(lease: SessionLease): void;
  dropped(lease: SessionLease): void;
}

interface LeaseEnds {
  readonly wall: number;
  readonly monotonic: number;
}

export class SessionLease {
  readonly sessionId: SessionId;
  readonly #terms: LeaseTerms;
  #generation: number | undefined;
  #wallEnd = 0;
  #monotonicEnd = 0;
  #drops = 0;
  #users = 0;
  #isResting = false;
  /** A generation that the store gave and nobody took: see LE2. */
  #stray: number | undefined;
  /** The release under way; it never rejects. */
  #releasing: Promise<void> | undefined;
  /** Called when the lease is lost. */
  onLost: ((error: MarlingError) => void) | undefined;

  constructor(sessionId: SessionId, terms: LeaseTerms) {
    this.sessionId = sessionId;
    this.#terms = terms;
  }

  get generation(): number | undefined {
    return this.#generation;
  }

  /** The lease as the store is told of it; throws when there is none. */
  get held(): Lease {
    if (this.#generation === undefined) throw this.#lostError();
    return { sessionId: this.sessionId, generation: this.#generation };
  }

  request(): LeaseRequest {
    return requestOf(this.#terms);
  }

  /** The release that a claim has to wait for; undefined when there is none. */
  get releasing(): Promise<void> | undefined {
    return this.#releasing;
  }

  /** A place for the answer to a request that is made now. */
  asking(): (claim: Claim | undefined) => void {
    const drops = this.#drops;
    const ends = this.#endsFromNow();
    return (claim) => {
      if (claim?.kind !== "claimed") return;
      if (drops === this.#drops) this.#hold(claim.generation, ends);
      else this.#stray = claim.generation;
    };
  }

  async claim(): Promise<Claim> {
    if (this.#releasing !== undefined) await this.#releasing;
    const answer = this.asking();
    const claim = await this.#terms.store.claim(this.sessionId, this.request());
    answer(claim);
    return claim;
  }

  /** Before an effect: a lease that may have run out is renewed first. Nothing to wait for when it holds. */
  ensure(): Promise<void> | undefined {
    const { clock } = this.#terms;
    if (this.#generation === undefined) throw this.#lostError();
    const isHeld = clock.now() < this.#wallEnd && clock.monotonic() < this.#monotonicEnd;
    return isHeld ? undefined : this.#renew();
  }

  async #renew(): Promise<void> {
    const { held } = this;
    const extend = this.extending();
    const lost = await this.#terms.store.renew([held], this.request());
    if (lost.length > 0) throw this.lose(held.generation);
    if (held.generation !== this.#generation) throw this.#lostError();
    extend();
  }

  /** A renewal is asked for now; the returned function extends the lease from this moment, if it is still the same one. */
  extending(): () => void {
    const generation = this.#generation;
    const ends = this.#endsFromNow();
    return () => {
      if (generation !== undefined && generation === this.#generation) this.#extend(ends);
    };
  }

  /** The store says that a generation is over. */
  lose(generation: number | undefined): MarlingError {
    const error = this.#lostError();
    if (generation === undefined || generation !== this.#generation) return error;
    this.drop(generation);
    this.onLost?.(error);
    return error;
  }

  /** One more works under the lease, or will. */
  join(): void {
    this.#users += 1;
  }

  /** One less does; the last one lets it go. */
  async leave(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0 && !this.#isResting) return;
    await this.release().catch(() => undefined); // An unreleased lease expires. Work that was done under it is done.
  }

  /** What would work under it only waits, until `wake`. */
  async rest(): Promise<void> {
    this.#isResting = true;
    await this.release();
  }

  wake(): void {
    this.#isResting = false;
  }

  get isLastUser(): boolean {
    return this.#users <= 1;
  }

  /** A generation was released with a commit or a parking; the store knows. */
  drop(generation: number | undefined): void {
    if (generation !== this.#generation) return;
    this.#drops += 1;
    this.#generation = undefined;
    this.#terms.dropped(this);
  }

  async release(): Promise<void> {
    const generation = this.#generation ?? this.#stray;
    if (generation === undefined) return;
    this.#stray = undefined;
    this.drop(this.#generation);
    const released = this.#terms.store.release({ sessionId: this.sessionId, generation });
    const releasing = released.catch(() => undefined); // The caller is told.
    this.#releasing = releasing;
    try {
      await released;
    } finally {
      if (this.#releasing === releasing) this.#releasing = undefined;
    }
  }

  #hold(generation: number, ends: LeaseEnds): void {
    if (this.#generation !== undefined && this.#generation !== generation) this.lose(this.#generation);
    this.#generation = generation;
    this.#stray = undefined;
    this.#extend(ends);
    this.#terms.held(this);
  }

  #extend({ wall, monotonic }: LeaseEnds): void {
    this.#wallEnd = wall;
    this.#monotonicEnd = monotonic;
  }

  /** When a lease ends that is asked for now: the store counts from the request, not from its answer. */
  #endsFromNow(): LeaseEnds {
    const { clock, ttlMs } = this.#terms;
    return { wall: clock.now() + ttlMs, monotonic: clock.monotonic() + ttlMs };
  }

  #lostError(): MarlingError {
    const message = `session ${this.sessionId}: expected to hold its lease, found it lost to another runtime`;
    return new MarlingError("lease_lost", message, { details: { sessionId: this.sessionId } });
  }
}

export function requestOf({ owner, incarnation, clock, ttlMs }: LeaseTerms): LeaseRequest {
  const now = clock.now();
  return { owner, incarnation, now, expiresAt: now + ttlMs };
}

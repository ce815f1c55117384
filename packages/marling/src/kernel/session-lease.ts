// The right to write to one session, as this runtime has it.
//   LE1  what a session writes while it has a lease is written under its generation, so that a runtime that lost it can
//        never write again.
//   LE5  a lease that was lost and had again meanwhile is another one: what ran under the first has lost it.
//   LE2  an answer that was asked for before the lease was let go says nothing about it any more.
//   LE4  everything that works under the lease is a user of it; the last one lets it go, and so does whoever is done with
//        it while all others only wait.
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
  /** Told when somebody else has taken the lease. */
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

  /** A place for the answer to a request that is made now. */
  asking(): (claim: Claim | undefined) => void {
    const drops = this.#drops;
    return (claim) => {
      if (claim?.kind !== "claimed") return;
      if (drops === this.#drops) this.#hold(claim.generation);
      else this.#stray = claim.generation;
    };
  }

  async claim(): Promise<Claim> {
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
    const lost = await this.#terms.store.renew([this.held], this.request());
    if (lost.length > 0) throw this.lose();
    this.renewed();
  }

  /** The lease was extended. */
  renewed(): void {
    const { clock, ttlMs } = this.#terms;
    this.#wallEnd = clock.now() + ttlMs;
    this.#monotonicEnd = clock.monotonic() + ttlMs;
  }

  /** Somebody else has it now. */
  lose(): MarlingError {
    const error = this.#lostError();
    const wasHeld = this.#generation !== undefined;
    this.drop();
    if (wasHeld) this.onLost?.(error);
    return error;
  }

  /** One more works under the lease, or will. */
  join(): void {
    this.#users += 1;
  }

  /** One less does; the last one lets it go. */
  async leave(): Promise<void> {
    this.#users -= 1;
    if (this.#users === 0 || this.#isResting) await this.release();
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

  /** It was let go, with a commit or a parking; the store knows. */
  drop(): void {
    this.#drops += 1;
    this.#generation = undefined;
    this.#terms.dropped(this);
  }

  async release(): Promise<void> {
    const generation = this.#generation ?? this.#stray;
    if (generation === undefined) return;
    this.#stray = undefined;
    this.drop();
    await this.#terms.store.release({ sessionId: this.sessionId, generation });
  }

  #hold(generation: number): void {
    if (this.#generation !== undefined && this.#generation !== generation) this.lose();
    this.#generation = generation;
    this.#stray = undefined;
    this.renewed();
    this.#terms.held(this);
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

// Keeps the leases of a runtime alive while turns run under them: one timer for all, and none when there is none.

import { randomUUID } from "node:crypto";
import type { Clock } from "../base/clock.ts";
import type { Store } from "../store/contract.ts";
import { type LeaseTerms, requestOf, type SessionLease } from "./session-lease.ts";

/** Renewed three times before it ends. */
const RENEWALS_PER_TTL = 3;

export class LeaseKeeper implements LeaseTerms {
  readonly store: Store;
  readonly clock: Clock;
  readonly owner: string;
  readonly incarnation: string = randomUUID();
  readonly ttlMs: number;
  readonly #isBackground: boolean;
  readonly #held = new Set<SessionLease>();
  #stopTimer: (() => void) | undefined;

  constructor(
    terms: Pick<LeaseTerms, "store" | "clock" | "owner" | "ttlMs"> & {
      /** Whether leases that are held keep the process alive; by default they do. */
      readonly isBackground?: boolean;
    },
  ) {
    this.store = terms.store;
    this.clock = terms.clock;
    this.owner = terms.owner;
    this.ttlMs = terms.ttlMs;
    this.#isBackground = terms.isBackground === true;
  }

  held(lease: SessionLease): void {
    this.#held.add(lease);
    this.#schedule();
  }

  dropped(lease: SessionLease): void {
    this.#held.delete(lease);
    if (this.#held.size > 0) return;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }

  async #renew(): Promise<void> {
    this.#stopTimer = undefined;
    const asked = [...this.#held].map((lease) => ({ lease, held: lease.held, extend: lease.extending() }));
    try {
      const held = asked.map((one) => one.held);
      const lost = new Set(await this.store.renew(held, requestOf(this)));
      for (const { lease, held, extend } of asked)
        if (lost.has(lease.sessionId)) lease.lose(held.generation);
        else extend();
    } catch {
      // The store could not be reached: the leases run on, and whoever works under one looks at its end first (LE3).
    }
    if (this.#held.size > 0) this.#schedule();
  }

  #schedule(): void {
    this.#stopTimer ??= this.clock.after(this.ttlMs / RENEWALS_PER_TTL, () => void this.#renew(), {
      isBackground: this.#isBackground,
    });
  }
}

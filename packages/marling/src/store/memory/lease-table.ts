// Who may write to which session, in memory.
//   ML1  a generation only grows, over releases and takeovers.
//   ML2  no holder can be proved dead here: only its release and the end of its time free a lease.

import { MarlingError } from "../../base/errors.ts";
import type { SessionId } from "../../model/ids.ts";
import type { Claim, Lease, LeaseRequest } from "../contract.ts";

interface Holder {
  readonly owner: string;
  readonly incarnation: string;
  readonly expiresAt: number;
}

interface LeaseState {
  readonly generation: number;
  /** Missing when the lease is free. */
  readonly holder?: Holder;
}

type Claimed = Omit<Extract<Claim, { readonly kind: "claimed" }>, "revision" | "inputs">;

const NEVER_CLAIMED: LeaseState = { generation: 0 };

export class LeaseTable {
  readonly #states = new Map<SessionId, LeaseState>();

  claim(sessionId: SessionId, request: LeaseRequest): Claimed | Extract<Claim, { readonly kind: "held" }> {
    const { generation, holder } = this.#stateOf(sessionId);
    const isOwn = holder?.incarnation === request.incarnation;
    if (holder !== undefined && !isOwn && request.now < holder.expiresAt)
      return { kind: "held", owner: holder.owner, expiresAt: holder.expiresAt };
    const next = isOwn ? generation : generation + 1;
    this.#states.set(sessionId, { generation: next, holder: holderOf(request) });
    return { kind: "claimed", generation: next, isTakeover: holder !== undefined && !isOwn };
  }

  /** The sessions whose leases were lost. */
  renew(leases: readonly Lease[], request: LeaseRequest): readonly SessionId[] {
    const lost: SessionId[] = [];
    for (const { sessionId, generation } of leases) {
      const isOwn = this.#stateOf(sessionId).holder?.incarnation === request.incarnation;
      if (isOwn && this.#isHolder(sessionId, generation))
        this.#states.set(sessionId, { generation, holder: holderOf(request) });
      else lost.push(sessionId);
    }
    return lost;
  }

  /** Frees a lease; says whether it was there to be freed. */
  release({ sessionId, generation }: Lease): boolean {
    if (!this.#isHolder(sessionId, generation)) return false;
    this.#states.set(sessionId, { generation });
    return true;
  }

  isHeld(sessionId: SessionId): boolean {
    return this.#stateOf(sessionId).holder !== undefined;
  }

  /** Whether somebody else could have it at this time. */
  isAvailable(sessionId: SessionId, now: number): boolean {
    const { holder } = this.#stateOf(sessionId);
    return holder === undefined || holder.expiresAt <= now;
  }

  /** Refuses whoever writes under a generation that is over. */
  fence(sessionId: SessionId, generation: number): void {
    if (this.#isHolder(sessionId, generation)) return;
    const { generation: found, holder } = this.#stateOf(sessionId);
    throw new MarlingError(
      "lease_lost",
      `session ${sessionId}: expected the lease of generation ${generation}, found generation ${found}${holder === undefined ? ", which is free" : ` of ${holder.owner}`}`,
      { details: { sessionId, expected: generation, found } },
    );
  }

  /** As `fence`; without a generation nobody may have the lease. */
  fenceCommit(sessionId: SessionId, generation: number | undefined): void {
    if (generation !== undefined) {
      this.fence(sessionId, generation);
      return;
    }
    const { holder } = this.#stateOf(sessionId);
    if (holder === undefined) return;
    throw new MarlingError(
      "lease_held",
      `session ${sessionId}: expected nobody to hold its lease, found ${holder.owner}`,
      { details: { sessionId, owner: holder.owner, expiresAt: holder.expiresAt } },
    );
  }

  delete(sessionId: SessionId): void {
    this.#states.delete(sessionId);
  }

  #isHolder(sessionId: SessionId, generation: number): boolean {
    const state = this.#stateOf(sessionId);
    return state.holder !== undefined && state.generation === generation;
  }

  #stateOf(sessionId: SessionId): LeaseState {
    return this.#states.get(sessionId) ?? NEVER_CLAIMED;
  }
}

function holderOf({ owner, incarnation, expiresAt }: LeaseRequest): Holder {
  return { owner, incarnation, expiresAt };
}

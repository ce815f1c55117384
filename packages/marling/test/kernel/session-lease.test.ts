// The lease of one session, with a store that answers by hand and clocks that go apart.

import { expect, test } from "vitest";
import { type Deferred, deferred } from "../../src/base/deferred.ts";
import { LeaseKeeper } from "../../src/kernel/lease-keeper.ts";
import { SessionLease } from "../../src/kernel/session-lease.ts";
import type { SessionId } from "../../src/model/ids.ts";
import type { Claim, Lease, Store } from "../../src/store/contract.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";

const TTL = 1_000;

/** A clock whose wall time may be set; the monotonic one only goes on. */
class WallClock extends ManualClock {
  #shift = 0;

  setBack(ms: number): void {
    this.#shift -= ms;
  }

  setAhead(ms: number): void {
    this.#shift += ms;
  }

  override now(): number {
    return super.now() + this.#shift;
  }
}

interface Bench {
  readonly lease: SessionLease;
  readonly clock: WallClock;
  /** Claims that wait for their answer, oldest first. */
  readonly claims: Deferred<Claim>[];
  /** What the store was told, oldest first. */
  readonly told: string[];
}

const claimed = (generation: number): Claim => ({
  kind: "claimed",
  generation,
  isTakeover: false,
  revision: 0,
  inputs: 0,
});

function bench(own: Partial<Store> = {}): Bench {
  const clock = new WallClock({ startsAt: 1_000_000 });
  const claims: Deferred<Claim>[] = [];
  const told: string[] = [];
  const store = {
    claim: () => {
      const answer = deferred<Claim>();
      claims.push(answer);
      return answer.promise;
    },
    renew: async (leases: readonly Lease[]) => {
      told.push(`renew ${leases.map(({ generation }) => generation).join(" ")}`);
      return [];
    },
    release: async ({ generation }: Lease) => void told.push(`release ${generation}`),
    ...own,
  } satisfies Partial<Store>;
  const keeper = new LeaseKeeper({ store: store as unknown as Store, clock, owner: "o", ttlMs: TTL });
  return { lease: new SessionLease("s" as SessionId, keeper), clock, claims, told };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function held(own: Partial<Store> = {}): Promise<Bench> {
  const at = bench(own);
  const claim = at.lease.claim();
  at.claims[0]?.resolve(claimed(1));
  await claim;
  return at;
}

test("[LE3] a lease that holds on both clocks is not renewed before an effect", async () => {
  const { lease, told } = await held();
  expect(lease.ensure()).toBeUndefined();
  expect(told).toEqual([]);
});

test("[LE3] a lease that is over on the monotonic clock is renewed, however far wall time was set back", async () => {
  const { lease, clock, told } = await held();
  clock.setBack(10 * TTL);
  expect(lease.ensure()).toBeUndefined();
  // The timer of the keeper would renew it: a process that was stopped comes to its effect before to its timers.
  clock.monotonic = () => TTL;
  expect(clock.now()).toBeLessThan(1_000_000 + TTL);
  await lease.ensure();
  expect(told).toEqual(["renew 1"]);
});

test("[LE3] a lease that is over on the wall clock is renewed, though no time has passed", async () => {
  const { lease, clock, told } = await held();
  clock.setAhead(TTL);
  await lease.ensure();
  expect(told).toEqual(["renew 1"]);
  expect(lease.ensure()).toBeUndefined();
});

test("[LE2] a claim that is answered after the lease was let go is not held, and is given back", async () => {
  const { lease, claims, told } = await held();
  const late = lease.claim();
  lease.drop(1);
  claims[1]?.resolve(claimed(2));
  expect(await late).toEqual(claimed(2));
  expect(lease.generation).toBeUndefined();
  expect(() => lease.held).toThrow(expect.objectContaining({ code: "lease_lost" }));
  await lease.release();
  expect(told).toEqual(["release 2"]);
  await lease.release();
  expect(told).toEqual(["release 2"]);
});

test("[LE2] what was let go is claimed again by an answer that was asked for behind it", async () => {
  const { lease, claims, told } = await held();
  lease.drop(1);
  const next = lease.claim();
  claims[1]?.resolve(claimed(2));
  await next;
  expect(lease.held).toEqual({ sessionId: "s", generation: 2 });
  await lease.release();
  expect(told).toEqual(["release 2"]);
});

test("[LE5] a claim that is answered with another generation than the one that is held loses that one", async () => {
  const { lease, claims } = await held();
  const lost: string[] = [];
  lease.onLost = ({ code }) => void lost.push(code);
  const again = lease.claim();
  claims[1]?.resolve(claimed(3));
  await again;
  expect(lost).toEqual(["lease_lost"]);
  expect(lease.generation).toBe(3);
});

test("[LE3] a lease ends when the store says: its time counts from the request, not from the answer", async () => {
  const at = bench();
  const claim = at.lease.claim();
  at.clock.advance(TTL - 1);
  at.claims[0]?.resolve(claimed(1));
  await claim;
  expect(at.lease.ensure()).toBeUndefined();
  at.clock.setAhead(1);
  await at.lease.ensure();
  expect(at.told).toEqual(["renew 1"]);
});

test("[LE6] a parking that is answered late drops the generation that was parked, and no newer one", async () => {
  const { lease, claims, told } = await held();
  const again = lease.claim();
  claims[1]?.resolve(claimed(2));
  await again;
  lease.drop(1);
  expect(lease.generation).toBe(2);
  await lease.release();
  expect(told).toEqual(["release 2"]);
});

test("[LE6] a loss that is told late loses the generation that was asked about, and no newer one", async () => {
  const { lease, claims } = await held();
  const again = lease.claim();
  claims[1]?.resolve(claimed(2));
  await again;
  const lost: string[] = [];
  lease.onLost = ({ code }) => void lost.push(code);
  expect(lease.lose(1).code).toBe("lease_lost");
  expect([lease.generation, lost]).toEqual([2, []]);
  lease.lose(2);
  expect([lease.generation, lost]).toEqual([undefined, ["lease_lost"]]);
});

test("[LE6] a renewal that is answered late concerns the lease that it was asked for", async () => {
  const renewals: Deferred<readonly SessionId[]>[] = [];
  const at = await held({
    renew: () => {
      const answer = deferred<readonly SessionId[]>();
      renewals.push(answer);
      return answer.promise;
    },
  });
  const { lease, clock, claims } = at;
  clock.advance(TTL / 3);
  expect(renewals).toHaveLength(1);
  lease.drop(1);
  const next = lease.claim();
  claims[1]?.resolve(claimed(2));
  await next;
  renewals[0]?.resolve(["s" as SessionId]);
  await settled();
  expect(lease.generation).toBe(2);
});

test("[LE7] a claim is not made before the release that was asked for before it", async () => {
  const released = deferred<void>();
  const { lease, claims } = await held({ release: () => released.promise });
  const releasing = lease.release();
  const claim = lease.claim();
  await settled();
  expect(claims).toHaveLength(1);
  released.reject(new Error("the answer was lost"));
  await expect(releasing).rejects.toThrow("lost");
  await settled();
  expect(claims).toHaveLength(2);
  claims[1]?.resolve(claimed(2));
  await claim;
  expect(lease.generation).toBe(2);
});

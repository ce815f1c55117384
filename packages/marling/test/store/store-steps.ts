// Steps of any kind that a store can be asked for, on few names so that they meet. What a step refers to (a revision, a
// generation, a node) is chosen by what the store said before: stores that answer alike are asked alike.

import fc from "fast-check";
import { MarlingError } from "../../src/base/errors.ts";
import type { EffectKey, InputId, NodeId, SessionId, TurnId } from "../../src/model/ids.ts";
import type { Json } from "../../src/model/json.ts";
import type { TriggerStore } from "../../src/model/trigger-store.ts";
import type { SessionCommit, Store } from "../../src/store/contract.ts";
import {
  cancelledReport,
  commitOf,
  hashOf,
  head,
  inputOf,
  leaseFor,
  record,
  report,
  waitOf,
} from "../../src/testing/conformance/store-case.ts";
import { occurrenceOf, subscriptionOf } from "../../src/testing/conformance/trigger-samples.ts";

/** What is known of a store from what it answered. */
export interface Known {
  readonly store: Store;
  /** The store as a whole, which is vacuumed. */
  readonly whole: Store;
  readonly nodes: Map<string, string[]>;
  readonly generations: Map<string, number>;
  step: number;
}

export interface Step {
  readonly name: string;
  readonly run: (known: Known) => Promise<unknown>;
}

const SESSIONS = ["a", "b", "c"] as const;
const session = fc.constantFrom(...SESSIONS).map((name) => name as SessionId);
const small = fc.nat(3);
const now = fc.constantFrom(900, 1500, 2500);
const owner = fc.constantFrom("x", "y");
const word = fc.constantFrom("one", "two");
const key = fc.constantFrom("k1", "k2");
const maybe = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(value, { nil: undefined, freq: 1 });

/** A step from what is drawn for it. */
function step<T>(
  name: string,
  drawn: { readonly [K in keyof T]: fc.Arbitrary<T[K]> },
  run: (known: Known, drawn: T) => Promise<unknown>,
): fc.Arbitrary<Step> {
  return fc.record(drawn as { [K in keyof T]: fc.Arbitrary<T[K]> }).map((values) => ({
    name: `${name} ${JSON.stringify(values)}`,
    run: (known) => run(known, values as T),
  }));
}

/** The turn of the n-th input of a session. */
const turnOf = (id: SessionId, sequence: number): TurnId => `${id}:turn:${sequence + 1}` as TurnId;
const inputIdOf = (id: SessionId, sequence: number): InputId => `${id}:input:${sequence + 1}` as InputId;

type Holding = "none" | "held" | "stale";
const holding = fc.constantFrom<Holding>("none", "held", "held", "stale");

function generationOf({ generations }: Known, id: SessionId, holds: Holding): number | undefined {
  const held = generations.get(id);
  if (holds === "none" || held === undefined) return undefined;
  return holds === "held" ? held : held - 1;
}

const commits = [
  step(
    "commit",
    {
      id: session,
      behind: fc.constantFrom(0, 0, 0, 0, 1, -1),
      count: small,
      holds: holding,
      releases: fc.boolean(),
      once: fc.boolean(),
      settles: maybe(small),
      isCancelled: fc.boolean(),
      joins: maybe(small),
      advances: maybe(small),
      forgets: maybe(small),
      announces: maybe(small),
      announced: maybe(small),
      hasWork: maybe(fc.boolean()),
      enqueues: maybe(session),
      state: maybe(word),
      frame: maybe(word),
    },
    commit,
  ),
  step("commit next", { id: session, count: small, frame: maybe(word) }, (known, drawn) =>
    commit(known, { ...drawn, behind: 0, holds: "held", releases: false, once: false, isCancelled: false }),
  ),
];

interface DrawnCommit {
  readonly id: SessionId;
  readonly behind: number;
  readonly count: number;
  readonly holds: Holding;
  readonly releases: boolean;
  readonly once: boolean;
  readonly isCancelled: boolean;
  readonly settles?: number | undefined;
  readonly joins?: number | undefined;
  readonly advances?: number | undefined;
  readonly forgets?: number | undefined;
  readonly announces?: number | undefined;
  readonly announced?: number | undefined;
  readonly hasWork?: boolean | undefined;
  readonly enqueues?: SessionId | undefined;
  readonly state?: string | undefined;
  readonly frame?: string | undefined;
}

async function commit(known: Known, drawn: DrawnCommit): Promise<unknown> {
  const { id, count, behind, once, frame, releases } = drawn;
  const revision = await known.store.revision(id);
  const ids = Array.from({ length: count }, (_, index) => `${id}.${known.step}.${index}`);
  const lease = generationOf(known, id, drawn.holds);
  const wanted: SessionCommit = commitOf(id, Math.max(0, revision - behind), {
    ids,
    operation: once ? `turn-${drawn.settles ?? 0}` : `op-${known.step}`,
    head: head({
      turnIndex: revision,
      leaf: (ids.at(-1) ?? known.nodes.get(id)?.at(-1) ?? null) as NodeId | null,
      currentFrameId: frame ?? "frame-1",
      operations: revision,
    }),
    components: drawn.state === undefined ? {} : { plugins: { state: drawn.state } },
    ...(once ? { once } : {}),
    ...(lease === undefined ? {} : { lease, ...(releases ? { releases } : {}) }),
    ...linked(known, drawn),
  });
  const result = await known.store.commit(wanted);
  known.nodes.set(id, [...(known.nodes.get(id) ?? []), ...ids]);
  if (releases && lease !== undefined) known.generations.delete(id);
  return result;
}

/** What a commit says of inputs, turns and announcements. */
function linked({ step: number }: Known, drawn: DrawnCommit): Partial<SessionCommit> {
  const { id, settles, isCancelled, joins, advances, forgets, announces, announced, hasWork, enqueues } =
    drawn;
  const made = isCancelled ? cancelledReport("cancelled") : report("done");
  return {
    ...(settles === undefined ? {} : { settles: { inputId: inputIdOf(id, settles), report: made } }),
    ...(joins === undefined ? {} : { joins: [inputIdOf(id, joins)] }),
    ...(advances === undefined
      ? {}
      : { advances: { inputId: inputIdOf(id, advances), progress: { at: number } } }),
    ...(forgets === undefined ? {} : { forgets: [turnOf(id, forgets)] }),
    ...(announces === undefined ? {} : { announces: turnOf(id, announces) }),
    ...(announced === undefined ? {} : { announced: [announced] }),
    ...(hasWork === undefined ? {} : { hasWork, components: { work: { hasWork } } }),
    ...(enqueues === undefined ? {} : { enqueues: [inputOf(enqueues, `enqueued ${number}`)] }),
  };
}

const inputs = [
  step(
    "admit",
    {
      id: session,
      text: word,
      key: maybe(key),
      turn: maybe(small),
      deliver: maybe(fc.constant("active_turn" as const)),
      lease: maybe(owner),
      now,
      delivery: maybe(small),
    },
    async (known, { id, text, key: given, turn, deliver, lease, now: at, delivery }) => {
      const input = inputOf(id, text, {
        ...(given === undefined ? {} : { key: given }),
        ...(turn === undefined ? {} : { turnId: turnOf(id, turn + 90) }),
        ...(deliver === undefined ? {} : { deliver }),
      });
      const asked = lease === undefined ? undefined : leaseFor(lease, { now: at, expiresAt: at + 1000 });
      const [first] = delivery === undefined ? [] : await triggersOf(known).pending({ after: 0, limit: 9 });
      const admitted = await known.store.admit(input, asked, first);
      if (admitted.claim?.kind === "claimed") known.generations.set(id, admitted.claim.generation);
      return admitted;
    },
  ),
  step("find", { id: session, text: word, key }, ({ store }, { id, text, key: given }) =>
    store.find({ sessionId: id, key: given, submitted: { text } }),
  ),
  step("pending", { id: session, deliver: maybe(fc.constant("active_turn" as const)) }, ({ store }, drawn) =>
    store.pending(drawn.id, drawn.deliver),
  ),
  step("withdraw", { id: session, at: small, other: small }, ({ store }, { id, at, other }) =>
    store.withdraw(
      id,
      [at, other].map((one) => ({ inputId: inputIdOf(id, one), report: cancelledReport("withdrawn") })),
    ),
  ),
  step("cancel", { id: session, at: small, reason: word }, ({ store }, { id, at, reason }) =>
    store.cancel({ sessionId: id, turnId: turnOf(id, at), reason }),
  ),
  step(
    "deliver",
    { id: session, at: small, key, holds: holding, isReplay: fc.boolean() },
    (known, { id, at, key: checkpoint, holds, isReplay }) =>
      known.store.deliver({
        sessionId: id,
        turnId: turnOf(id, at),
        key: checkpoint as EffectKey,
        generation: generationOf(known, id, holds),
        isReplay,
      }),
  ),
  step(
    "park",
    { id: session, at: small, waits: word, due: maybe(now), holds: holding },
    async (known, { id, at, waits, due, holds }) => {
      const generation = generationOf(known, id, holds) ?? 99;
      const turnId = turnOf(id, at);
      return known.store.park({ sessionId: id, turnId, names: [waits], due: due ?? null, generation });
    },
  ),
];

const leases = [
  step("claim", { id: session, owner, now }, async ({ store, generations }, { id, owner: by, now: at }) => {
    const claim = await store.claim(id, leaseFor(by, { now: at, expiresAt: at + 1000 }));
    if (claim.kind === "claimed") generations.set(id, claim.generation);
    return claim;
  }),
  step("renew", { id: session, other: session, holds: holding, owner, now }, (known, drawn) => {
    const asked = [drawn.id, drawn.other].flatMap((id) => {
      const generation = generationOf(known, id, drawn.holds);
      return generation === undefined ? [] : [{ sessionId: id, generation }];
    });
    return known.store.renew(asked, leaseFor(drawn.owner, { now: drawn.now, expiresAt: drawn.now + 1000 }));
  }),
  step("release", { id: session, holds: holding }, (known, { id, holds }) =>
    known.store.release({ sessionId: id, generation: generationOf(known, id, holds) ?? 99 }),
  ),
];

const waits = [
  step(
    "create wait",
    { id: session, at: small, name: word, kind: fc.constantFrom("completion", "approval"), holds: holding },
    (known, { id, at, name, kind, holds }) =>
      known.store.waits.create(
        waitOf(name, {
          sessionId: id,
          turnId: turnOf(id, at),
          kind: kind as "completion",
          keyHash: hashOf(`${id} ${name}`),
          lease: generationOf(known, id, holds),
        }),
      ),
  ),
  step("read waits", { id: session, at: small }, ({ store }, { id, at }) =>
    store.waits.read(id, turnOf(id, at)),
  ),
  step(
    "resolve",
    { id: session, name: word, kind: fc.constantFrom("completion", "approval"), text: word },
    ({ store }, { id, name, kind, text }) =>
      store.waits.resolve(hashOf(`${id} ${name}`), kind as "completion", { ok: text }),
  ),
  step("end wait", { id: session, at: small, name: word, holds: holding }, (known, drawn) =>
    known.store.waits.end({
      sessionId: drawn.id,
      turnId: turnOf(drawn.id, drawn.at),
      name: drawn.name,
      lease: generationOf(known, drawn.id, drawn.holds),
    }),
  ),
];

const journal = [
  step(
    "append to the journal",
    { id: session, at: small, key, status: fc.constantFrom("started", "done"), text: word, holds: holding },
    (known, { id, at, key: effect, status, text, holds }) =>
      journalOf(known).append(
        [record(effect, status as "done", { sessionId: id, turnId: turnOf(id, at), outcome: { text } })],
        generationOf(known, id, holds),
      ),
  ),
  step("read the journal", { id: session, at: small }, (known, { id, at }) =>
    journalOf(known).read(id, turnOf(id, at)),
  ),
];

const sessions = [
  step("load", { id: session, isPartial: fc.boolean() }, async ({ store }, { id, isPartial }) => {
    const stored = await store.load(id, { isPartial });
    if (stored === undefined) return undefined;
    const { nodes, earlier, ...rest } = stored;
    return { ...rest, nodes: [...(earlier?.() ?? []), ...nodes] }; // Where a store cuts is its own affair.
  }),
  step("list", { prefix: maybe(word), limit: maybe(small), cursor: maybe(session) }, ({ store }, drawn) =>
    store.list(Object.fromEntries(Object.entries(drawn).filter(([, value]) => value !== undefined))),
  ),
  step("look", { id: session, now }, async ({ store }, { id, now: at }) => ({
    exists: await store.exists(id),
    unsettled: [...(await store.unsettled())].sort(),
    workable: await store.workable(at),
    resumable: await store.resumable(at),
  })),
  step(
    "fork",
    { from: session, as: fc.constantFrom("a", "b", "c", "f1", "f2"), at: maybe(fc.nat(8)) },
    async ({ store, nodes }, { from, as, at }) => {
      const ids = [...(nodes.get(from) ?? []), "unknown"];
      const place = at === undefined ? undefined : (ids[at % ids.length] as NodeId);
      const request = { from, as: as as SessionId, ...(place === undefined ? {} : { at: place }) };
      const forked = await store.fork(request);
      const end = place === undefined ? ids.length - 1 : ids.indexOf(place) + 1;
      nodes.set(as, ids.slice(0, end));
      return forked;
    },
  ),
  step("announce", { id: session, revision: small }, ({ store }, { id, revision }) =>
    store.announced(id, revision),
  ),
];

const rare = [
  step("delete", { id: session }, async ({ store, nodes, generations }, { id }) => {
    await store.delete(id);
    nodes.delete(id);
    generations.delete(id);
  }),
  step("vacuum", { now }, async ({ whole }, { now: at }) => {
    const { bytes: _ofTheFile, blobs: _ofTheTenant, ...removed } = await whole.vacuum({ now: at, keepMs: 0 });
    return removed;
  }),
  step("put bytes", { text: word }, async ({ store }, { text }) => {
    const bytes = new TextEncoder().encode(text);
    const ref = await store.blobs.put(bytes);
    return [ref === store.blobs.ref(bytes), new TextDecoder().decode(await store.blobs.get(ref))];
  }),
];

const triggers = [
  step(
    "subscribe",
    { id: session, name: word, topic: maybe(word), due: maybe(now), source: word, createdAt: now },
    (known, { id, name, topic, due, source, createdAt }) =>
      triggersOf(known).subscribe(
        subscriptionOf(name, {
          sessionId: id,
          source,
          createdAt,
          ...(topic === undefined ? {} : { topic }),
          ...(due === undefined ? {} : { due }),
        }),
      ),
  ),
  step(
    "occur",
    { name: key, source: word, topic: maybe(word), payload: word, tick: maybe(word), due: now },
    (known, { name, source, topic, payload, tick, due }) =>
      triggersOf(known).accept(
        occurrenceOf(name, { source, payload, ...(topic === undefined ? {} : { topic }) }),
        tick === undefined ? undefined : { subscriptionId: tick, due, next: due + 1000, carried: payload },
      ),
  ),
  step(
    "change a subscription",
    { name: word, what: fc.constantFrom("on", "off", "remove"), due: now },
    (known, { name, what, due }) =>
      what === "remove"
        ? triggersOf(known).unsubscribe(name)
        : triggersOf(known).enable(name, what === "on" ? { isEnabled: true, due } : { isEnabled: false }),
  ),
  step("pass a tick", { name: word, due: now }, (known, { name, due }) =>
    triggersOf(known).advance({ subscriptionId: name, due, next: undefined }),
  ),
  step("settle a delivery", { name: key, subscription: word }, (known, { name, subscription }) =>
    triggersOf(known).settle({ occurrenceId: name, subscriptionId: subscription }),
  ),
  step("read triggers", { now, id: maybe(session), limit: fc.nat(2) }, async (known, drawn) => {
    const all = triggersOf(known);
    const query = { limit: drawn.limit + 1, ...(drawn.id === undefined ? {} : { sessionId: drawn.id }) };
    const pending = await all.pending({ after: 0, limit: 99 });
    return {
      list: await all.list(query),
      one: await all.get("one"),
      due: await all.due(drawn.now, 9),
      nextDue: await all.nextDue(),
      pending: pending.map(({ sequence: _ofTheStore, ...delivery }) => delivery),
    };
  }),
];

const weighted = (weight: number, arbitraries: readonly fc.Arbitrary<Step>[]) =>
  arbitraries.map((arbitrary) => ({ weight, arbitrary }));

export const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.oneof(
    ...weighted(8, commits),
    ...weighted(4, inputs),
    ...weighted(4, leases),
    ...weighted(2, waits),
    ...weighted(2, journal),
    ...weighted(3, sessions),
    ...weighted(1, rare),
    ...weighted(2, triggers),
  ),
  { minLength: 5, maxLength: 60, size: "max" },
);

/** What a store says to a step: a value, or a refusal by its code and details. */
export async function answerTo(known: Known, { run }: Step): Promise<Json> {
  known.step += 1;
  try {
    return plain({ answer: await run(known) });
  } catch (thrown) {
    if (!MarlingError.is(thrown)) throw thrown;
    return plain({ refused: thrown.code, details: thrown.details });
  }
}

function plain(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

function triggersOf({ store }: Known): TriggerStore {
  if (store.triggers === undefined) throw new Error("expected a store with triggers");
  return store.triggers;
}

function journalOf({ store }: Known): NonNullable<Store["journal"]> {
  if (store.journal === undefined) throw new Error("expected a store with a journal");
  return store.journal;
}

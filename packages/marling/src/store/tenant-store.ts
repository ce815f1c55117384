// The rows of one tenant in a store that many share. Whoever holds it reaches nothing else, by any method.
//   TN1  every id of a session, an input or a turn is put under its tenant on the way in, and comes back as it was given;
//        those that the store makes begin with the id of their session (ST50), and so are under the tenant as well.
//   TN2  bytes and wait keys are bound to their tenant: an address or a key of another one leads nowhere.
//   TN3  what the store says about a session names it as its tenant knows it.
//   TN4  the store belongs to whoever made it: a tenant neither closes nor vacuums it.
//   TN5  what belongs to no tenant has ids that no tenant's can be: a tenant's begin with a control character.

import { sha256 } from "../base/digest.ts";
import { MarlingError } from "../base/errors.ts";
import type { InputId, SessionId, TurnId } from "../model/ids.ts";
import type { JournalStore } from "../model/journal.ts";
import type { JsonObject } from "../model/json.ts";
import { TENANT_MARK, tenantPrefix } from "../model/tenant-ids.ts";
import type {
  Admission,
  BlobStore,
  CommitResult,
  InboxRow,
  SessionCommit,
  SessionPage,
  Store,
  StoredSession,
  WaitStore,
} from "./contract.ts";
import { deliveryUnder, triggersOfNone, triggersUnder } from "./tenant-triggers.ts";

/** Behind every id of a tenant; no other id is before it. */
const AFTER_TENANTS = " ";

/** The store without what is under tenants. */
export function withoutTenants(store: Store): Store {
  return {
    ...bound(store),
    ...(store.triggers === undefined ? {} : { triggers: triggersOfNone(store.triggers, TENANT_MARK) }),
    unsettled: async () => (await store.unsettled()).filter(isOfNoTenant),
    workable: async (now) => (await store.workable(now)).filter(isOfNoTenant),
    resumable: async (now) => (await store.resumable(now)).filter(isOfNoTenant),
    list: (filter) => store.list({ ...filter, cursor: filter.cursor ?? AFTER_TENANTS }),
  };
}

function isOfNoTenant(id: SessionId): boolean {
  return !id.startsWith(TENANT_MARK);
}

/** What is under one tenant. */
export function tenantStore(store: Store, tenant: string): Store {
  const scope = new Scope(tenant);
  const whole: Omit<Store, "journal" | "triggers" | keyof SessionMethods> = {
    isDurable: store.isDurable,
    blobs: blobsUnder(store.blobs, scope),
    waits: waitsUnder(store.waits, scope),
    changes: () => store.changes(),
    vacuum: () => Promise.reject(notOfTenants("vacuum", tenant)),
    close: () => Promise.resolve(),
  };
  const { journal, triggers } = store;
  return {
    ...whole,
    ...sessionsUnder(store, scope),
    ...(journal === undefined ? {} : { journal: journalUnder(journal, scope) }),
    ...(triggers === undefined ? {} : { triggers: triggersUnder(triggers, scope) }),
  };
}

interface Named {
  readonly sessionId: SessionId;
  readonly turnId?: TurnId;
}

/** Ids on their way to the store and back. */
class Scope {
  readonly prefix: string;
  readonly header: Uint8Array;

  constructor(tenant: string) {
    this.prefix = tenantPrefix(tenant);
    this.header = Buffer.from(this.prefix);
  }

  in<T extends SessionId | InputId | TurnId>(id: T): T {
    return `${this.prefix}${id}` as T;
  }

  out<T extends string>(id: T): T {
    return id.slice(this.prefix.length) as T;
  }

  has(id: string): boolean {
    return id.startsWith(this.prefix);
  }

  under<T extends Named>(value: T): T {
    const { sessionId, turnId } = value;
    return {
      ...value,
      sessionId: this.in(sessionId),
      ...(turnId === undefined ? {} : { turnId: this.in(turnId) }),
    };
  }

  named<T extends Partial<Named>>(value: T): T {
    const { sessionId, turnId } = value;
    return {
      ...value,
      ...(sessionId === undefined ? {} : { sessionId: this.out(sessionId) }),
      ...(turnId === undefined ? {} : { turnId: this.out(turnId) }),
    };
  }

  row(row: InboxRow): InboxRow {
    const { claimed } = row;
    return {
      ...this.named(row),
      inputId: this.out(row.inputId),
      ...(claimed === undefined ? {} : { claimed: this.named(claimed) }),
    };
  }

  stored<T extends Omit<StoredSession, "nodes" | "earlier">>(session: T): T {
    const unannounced = session.unannounced.map((announcement) => this.named(announcement));
    return { ...this.named(session), unannounced };
  }

  hash(keyHash: string): string {
    return sha256(`${this.prefix}${keyHash}`);
  }

  /** Makes a call; what it throws names sessions as the tenant does. */
  async call<T>(make: () => Promise<T>): Promise<T> {
    try {
      return await make();
    } catch (thrown) {
      throw MarlingError.is(thrown) ? this.#told(thrown) : thrown;
    }
  }

  #told(error: MarlingError): MarlingError {
    if (!error.message.includes(this.prefix)) return error;
    const details = JSON.parse(
      JSON.stringify(error.details ?? {}).replaceAll(JSON.stringify(this.prefix).slice(1, -1), ""),
    ) as JsonObject; // text of JSON without a part of its strings is JSON of the same shape
    return new MarlingError(error.code, error.message.replaceAll(this.prefix, ""), { cause: error, details });
  }
}

type SessionMethods = Omit<
  Store,
  "isDurable" | "blobs" | "waits" | "journal" | "triggers" | "changes" | "vacuum" | "close"
>;

function sessionsUnder(store: Store, scope: Scope): SessionMethods {
  return {
    ...readsUnder(store, scope),
    ...inputsUnder(store, scope),
    ...leasesUnder(store, scope),
    commit: (commit) =>
      scope.call(async () => committed(await store.commit(commitUnder(commit, scope)), scope)),
    delete: (id) => scope.call(() => store.delete(scope.in(id))),
    fork: ({ from, as, ...point }) =>
      scope.call(async () =>
        scope.stored(await store.fork({ from: scope.in(from), as: scope.in(as), ...point })),
      ),
    announced: (id, revision) => scope.call(() => store.announced(scope.in(id), revision)),
  };
}

function readsUnder(
  store: Store,
  scope: Scope,
): Pick<
  Store,
  "load" | "revision" | "exists" | "list" | "unsettled" | "workable" | "resumable" | "pending" | "find"
> {
  const own = (ids: readonly SessionId[]): readonly SessionId[] =>
    ids.filter((id) => scope.has(id)).map((id) => scope.out(id));
  return {
    load: (id, options) =>
      scope.call(async () => {
        const session = await store.load(scope.in(id), options);
        return session === undefined ? undefined : scope.stored(session);
      }),
    revision: (id) => scope.call(() => store.revision(scope.in(id))),
    exists: (id) => scope.call(() => store.exists(scope.in(id))),
    list: ({ prefix = "", cursor = "", ...filter }) =>
      scope.call(async () =>
        page(
          await store.list({
            ...filter,
            prefix: `${scope.prefix}${prefix}`,
            cursor: `${scope.prefix}${cursor}`,
          }),
          scope,
        ),
      ),
    unsettled: () => scope.call(async () => own(await store.unsettled())),
    workable: (now) => scope.call(async () => own(await store.workable(now))),
    resumable: (now) => scope.call(async () => own(await store.resumable(now))),
    pending: (id, deliver) =>
      scope.call(async () => (await store.pending(scope.in(id), deliver)).map((row) => scope.row(row))),
    find: (input) =>
      scope.call(async () => {
        const row = await store.find(scope.under(input));
        return row === undefined ? undefined : scope.row(row);
      }),
  };
}

function page({ items, cursor }: SessionPage, scope: Scope): SessionPage {
  const own = items.map((item) => ({ ...item, id: scope.out(item.id) }));
  return cursor === undefined ? { items: own } : { items: own, cursor: scope.out(cursor) };
}

function inputsUnder(
  store: Store,
  scope: Scope,
): Pick<Store, "admit" | "deliver" | "withdraw" | "cancel" | "park"> {
  return {
    admit: (input, lease, delivery) =>
      scope.call(async (): Promise<Admission> => {
        const made = delivery && deliveryUnder(delivery, scope.prefix);
        const { row, ...admission } = await store.admit(scope.under(input), lease, made);
        return { ...admission, row: scope.row(row) };
      }),
    deliver: (request) =>
      scope.call(async () => (await store.deliver(scope.under(request))).map((row) => scope.row(row))),
    withdraw: (id, withdrawals) =>
      scope.call(async () => {
        const under = withdrawals.map((one) => ({ ...one, inputId: scope.in(one.inputId) }));
        const outcomes = await store.withdraw(scope.in(id), under);
        return outcomes.map((outcome) => ({ ...outcome, inputId: scope.out(outcome.inputId) }));
      }),
    cancel: (request) => scope.call(() => store.cancel(scope.under(request))),
    park: (request) => scope.call(() => store.park(scope.under(request))),
  };
}

function leasesUnder(store: Store, scope: Scope): Pick<Store, "claim" | "renew" | "release"> {
  return {
    claim: (id, request) => scope.call(() => store.claim(scope.in(id), request)),
    renew: (leases, request) =>
      scope.call(async () => {
        const lost = await store.renew(
          leases.map((lease) => scope.under(lease)),
          request,
        );
        return lost.map((id) => scope.out(id));
      }),
    release: (lease) => scope.call(() => store.release(scope.under(lease))),
  };
}

function commitUnder(commit: SessionCommit, scope: Scope): SessionCommit {
  const { settles, joins, advances, enqueues, forgets, announces } = commit;
  return {
    ...scope.under(commit),
    ...(settles === undefined ? {} : { settles: { ...settles, inputId: scope.in(settles.inputId) } }),
    ...(joins === undefined ? {} : { joins: joins.map((id) => scope.in(id)) }),
    ...(advances === undefined ? {} : { advances: { ...advances, inputId: scope.in(advances.inputId) } }),
    ...(forgets === undefined ? {} : { forgets: forgets.map((id) => scope.in(id)) }),
    ...(announces === undefined ? {} : { announces: scope.in(announces) }),
    ...(enqueues === undefined ? {} : { enqueues: enqueues.map((input) => scope.under(input)) }),
  };
}

function committed({ enqueued, ...result }: CommitResult, scope: Scope): CommitResult {
  return { ...result, enqueued: enqueued.map((row) => scope.row(row)) };
}

function journalUnder(journal: JournalStore, scope: Scope): JournalStore {
  return {
    append: (records, lease) =>
      scope.call(() =>
        journal.append(
          records.map((record) => scope.under(record)),
          lease,
        ),
      ),
    read: (id, turnId) =>
      scope.call(async () =>
        (await journal.read(scope.in(id), scope.in(turnId))).map((record) => scope.named(record)),
      ),
  };
}

function waitsUnder(waits: WaitStore, scope: Scope): WaitStore {
  return {
    create: (wait) =>
      scope.call(() => waits.create({ ...scope.under(wait), keyHash: scope.hash(wait.keyHash) })),
    read: (id, turnId) =>
      scope.call(async () =>
        (await waits.read(scope.in(id), scope.in(turnId))).map((row) => scope.named(row)),
      ),
    resolve: (keyHash, kind, resolution) =>
      scope.call(async () => scope.named(await waits.resolve(scope.hash(keyHash), kind, resolution))),
    end: (wait) =>
      scope.call(async () => {
        const row = await waits.end(scope.under(wait));
        return row === undefined ? undefined : scope.named(row);
      }),
  };
}

/** Bytes are stored behind the name of their tenant, which makes their address its own. */
function blobsUnder(blobs: BlobStore, { header }: Scope): BlobStore {
  const under = (bytes: Uint8Array): Uint8Array => Buffer.concat([header, bytes]);
  return {
    ref: (bytes) => blobs.ref(under(bytes)),
    put: (bytes) => blobs.put(under(bytes)),
    get: async (ref) => {
      const stored = await blobs.get(ref);
      const isOwn = stored !== undefined && Buffer.compare(stored.subarray(0, header.length), header) === 0;
      return isOwn ? stored.subarray(header.length) : undefined;
    },
  };
}

/** The methods of a store as values, so that some can be replaced. */
function bound(store: Store): Store {
  const { isDurable, blobs, journal, waits } = store;
  return {
    isDurable,
    blobs,
    ...(journal === undefined ? {} : { journal }),
    waits,
    load: (id, options) => store.load(id, options),
    revision: (id) => store.revision(id),
    commit: (commit) => store.commit(commit),
    admit: (input, lease, delivery) => store.admit(input, lease, delivery),
    find: (input) => store.find(input),
    pending: (id, deliver) => store.pending(id, deliver),
    unsettled: () => store.unsettled(),
    workable: (now) => store.workable(now),
    resumable: (now) => store.resumable(now),
    claim: (id, request) => store.claim(id, request),
    renew: (leases, request) => store.renew(leases, request),
    release: (lease) => store.release(lease),
    deliver: (request) => store.deliver(request),
    withdraw: (id, withdrawals) => store.withdraw(id, withdrawals),
    cancel: (request) => store.cancel(request),
    park: (request) => store.park(request),
    announced: (id, revision) => store.announced(id, revision),
    changes: () => store.changes(),
    vacuum: (request) => store.vacuum(request),
    list: (filter) => store.list(filter),
    exists: (id) => store.exists(id),
    delete: (id) => store.delete(id),
    fork: (request) => store.fork(request),
    close: () => store.close(),
  };
}

function notOfTenants(method: string, tenant: string): MarlingError {
  const message = `${method}: expected the runtime of the whole store, found that of tenant ${tenant}`;
  return new MarlingError("not_of_tenants", message, { details: { tenant } });
}

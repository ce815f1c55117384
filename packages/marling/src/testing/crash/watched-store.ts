// A store with a boundary before and after every method.
//   CW1  every method of the contracts has a row below: one without does not compile.
//   CW2  a method of a store that has no row is refused, so that nothing is written past the crash test.
//   CW3  what was written is told before whoever asked for it hears of it.
//   CW4  effects and turns are told by the ids that they have for their tenant, which is how tools and models know them.
//        So the sessions of a scenario have ids of their own, whatever tenant they are of.

import type { JournalRecord, JournalStore } from "../../model/journal.ts";
import type { Json } from "../../model/json.ts";
import { tenantOf } from "../../model/tenant-ids.ts";
import type { TriggerStore } from "../../model/trigger-store.ts";
import type {
  BlobStore,
  CommitResult,
  InboxRow,
  SessionCommit,
  Store,
  WaitStore,
} from "../../store/contract.ts";
import type { Boundaries } from "./boundaries.ts";
import type { AcceptedInput, Acknowledged, Line, RecordedEffect } from "./line.ts";
import { memberNames } from "./member-names.ts";

type MethodOf<T> = {
  [K in keyof T]-?: NonNullable<T[K]> extends (...args: never[]) => unknown ? K : never;
}[keyof T];
type PartOf<T> = Exclude<keyof T, MethodOf<T>>;

/** A method that writes may say what it wrote that others count on, from its arguments and its result. */
type Access = "pure" | "reads" | "writes" | ((args: readonly never[], result: never) => Acknowledged);
type Table<T> = { readonly [K in MethodOf<T>]: Access };

const STORE: Table<Store> = {
  load: "reads",
  revision: "reads",
  commit: ([commit]: readonly SessionCommit[], result: CommitResult) => committed(commit, result),
  admit: (_args, { row }: { readonly row: InboxRow }) => ({ inputs: [accepted(row)] }),
  find: "reads",
  pending: "reads",
  unsettled: "reads",
  workable: "reads",
  resumable: "reads",
  claim: "writes",
  renew: "writes",
  release: "writes",
  deliver: "writes",
  withdraw: "writes",
  cancel: "writes",
  park: "writes",
  announced: "writes",
  changes: "reads",
  vacuum: "writes",
  list: "reads",
  exists: "reads",
  delete: "writes",
  fork: "writes",
  close: "writes",
};
const BLOBS: Table<BlobStore> = { ref: "pure", put: "writes", get: "reads" };
const JOURNAL: Table<JournalStore> = {
  append: ([records]: readonly (readonly JournalRecord[])[]) => recorded(records ?? []),
  read: "reads",
};
const WAITS: Table<WaitStore> = { create: "writes", read: "reads", resolve: "writes", end: "writes" };
const TRIGGERS: Table<TriggerStore> = {
  subscribe: "writes",
  get: "reads",
  list: "reads",
  enable: "writes",
  unsubscribe: "writes",
  accept: "writes",
  advance: "writes",
  pending: "reads",
  settle: "writes",
  due: "reads",
  nextDue: "reads",
};

const PARTS: { readonly [K in PartOf<Store>]-?: Readonly<Record<string, Access>> | "value" } = {
  isDurable: "value",
  blobs: BLOBS,
  journal: JOURNAL,
  waits: WAITS,
  triggers: TRIGGERS,
};

export interface StoreWatch {
  readonly line: Line;
  readonly boundaries: Boundaries;
}

/** Throws for a store with a method that the contract does not have: it would be called past the crash test. */
export function watchedStore(store: Store, watch: StoreWatch): Store {
  refuseOthers(store, [...Object.keys(STORE), ...Object.keys(PARTS)], "store");
  const parts = Object.entries(PARTS).map(([name, table]) => {
    const part = (store as unknown as Readonly<Record<string, unknown>>)[name];
    if (table === "value" || part === undefined) return [name, part];
    return [name, watchedPart(part as object, table, { ...watch, path: `store.${name}` })];
  });
  // The tables have every member of the contract, so the two together are one.
  return {
    ...watchedPart(store, STORE, { ...watch, path: "store" }),
    ...Object.fromEntries(parts),
  } as unknown as Store;
}

function refuseOthers(target: object, known: readonly string[], path: string): void {
  const other = memberNames(target).find((name) => !known.includes(name));
  if (other === undefined) return;
  throw new Error(
    `crash test: expected a ${path} with the members ${known.join(", ")}, found also ${other}, which is not watched`,
  );
}

function watchedPart(
  target: object,
  table: Readonly<Record<string, Access>>,
  watch: StoreWatch & { readonly path: string },
): Readonly<Record<string, unknown>> {
  const { boundaries, path } = watch;
  if (path !== "store") refuseOthers(target, Object.keys(table), path);
  const watched = Object.entries(table).map(([name, access]) => {
    if (access === "pure") return [name, (target as Readonly<Record<string, unknown>>)[name]];
    const call = watchedCall(target, name, { ...watch, access });
    const isRead = access === "reads";
    return [
      name,
      (...args: readonly unknown[]) => boundaries.around(`${path}.${name}`, () => call(...args), { isRead }),
    ];
  });
  return Object.fromEntries(watched);
}

function watchedCall(
  target: object,
  name: string,
  { line, boundaries, path, access }: StoreWatch & { readonly path: string; readonly access: Access },
): (...args: readonly unknown[]) => Promise<unknown> {
  const method = (target as Readonly<Record<string, unknown>>)[name];
  return async (...args) => {
    if (typeof method !== "function")
      throw new Error(`crash test: expected a ${path} with ${name}, found none`);
    if (path === "store.journal" && name === "append") await tellMarks(line, args);
    const before = boundaries.world;
    const result: unknown = await Reflect.apply(method, target, args);
    if (access !== "reads" && boundaries.world === before) boundaries.moveWorld();
    if (typeof access === "function")
      await line.ask("acknowledged", access(args as never[], result as never));
    return result;
  };
}

function committed(commit: SessionCommit | undefined, { enqueued }: CommitResult): Acknowledged {
  if (commit === undefined) return {};
  const { sessionId, forgets = [], settles } = commit;
  const turns = [...forgets, ...(settles === undefined ? [] : [settles.report.turnId])];
  return {
    turns: turns.map((turnId) => ({ sessionId: ownId(sessionId), turnId: ownId(turnId) })),
    inputs: enqueued.map(accepted),
  };
}

function accepted({ sessionId, turnId, submitted }: InboxRow): AcceptedInput {
  return { sessionId, turnId, submitted: submitted as Json };
}

function recorded(records: readonly JournalRecord[]): Acknowledged {
  return { effects: effectsOf(records, "done") };
}

async function tellMarks({ ask }: Line, [records]: readonly unknown[]): Promise<void> {
  const effects = effectsOf(records as readonly JournalRecord[], "started"); // what the contract says
  if (effects.length > 0) await ask("marking", { effects });
}

function effectsOf(
  records: readonly JournalRecord[],
  wanted: JournalRecord["status"],
): readonly RecordedEffect[] {
  return records
    .filter(({ status }) => status === wanted)
    .map(({ sessionId, turnId, key }) => ({ sessionId: ownId(sessionId), turnId: ownId(turnId), key }));
}

function ownId(id: string): string {
  return tenantOf(id)?.id ?? id;
}

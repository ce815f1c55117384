// Files with everything that a store can hold, and everything that can be read of them.

import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MarlingError } from "../../src/base/errors.ts";
import type { SessionId } from "../../src/model/ids.ts";
import type { TriggerStore } from "../../src/model/trigger-store.ts";
import type { Store } from "../../src/store/contract.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import {
  commitOf,
  id,
  inputId,
  inputOf,
  journalOf,
  record,
  report,
  turn,
} from "../../src/testing/conformance/store-case.ts";
import { query } from "./sqlite-support.ts";

/** Files of real programs, which were killed or closed in the middle of their work (fixtures/v2/write.mjs). */
export const PROGRAM_FILES: readonly string[] = [
  "child",
  "committed",
  "cut-in-model",
  "cut-in-tool",
  "cut-with-input",
  "fork",
  "sleeping",
  "task",
  "tenants",
  "triggers",
];

const NOW = 2_000_000_000_000;
const KEPT = 10_000_000_000_000;
const WORKER = { owner: "worker", incarnation: "run-1", now: NOW, expiresAt: NOW + 1000 };

/** A copy of the file of a program, in the format of today and with all checksums. */
export async function programFile(name: string, folder: string): Promise<string> {
  const path = join(folder, `${name}.db`);
  copyFileSync(fileURLToPath(new URL(`fixtures/v2/${name}.db`, import.meta.url)), path);
  const store = sqliteStore({ path });
  await store.vacuum({ now: Date.now(), keepMs: KEPT });
  await store.close();
  return path;
}

/** A file with rows in every table. */
export async function furnishedFile(folder: string): Promise<string> {
  const path = join(folder, "furnished.db");
  const store = sqliteStore({ path });
  for (const name of ["alpha", "beta"]) await furnish(store, id(name));
  await store.fork({ from: id("alpha"), as: id("fork") });
  await store.delete(id("gone"));
  await store.blobs.put(new TextEncoder().encode("bytes of a picture"));
  await store.close();
  return path;
}

async function furnish(store: Store, sessionId: SessionId): Promise<void> {
  for (const key of ["k1", "k2", "k3"]) await store.admit(inputOf(sessionId, `text ${key}`, { key }));
  const given = turn(`${sessionId} given`);
  await store.admit(inputOf(sessionId, "named", { turnId: given, deliver: "active_turn" }));
  const state = { plugins: { own: { text: `${sessionId} `.repeat(200) }, count: { n: 1 } } };
  const settles = {
    inputId: inputId(`${sessionId}:input:1`),
    report: report("the answer to the first question"),
  };
  const work = {
    components: { plugins: state },
    hasWork: true,
    announces: turn(`${sessionId}:turn:1`),
    settles,
  };
  await store.commit(commitOf(sessionId, 0, { once: true, ids: [`${sessionId}-1`], ...work }));
  for (const revision of [1, 2, 3])
    await store.commit(
      commitOf(sessionId, revision, {
        once: true,
        nodes: [{ id: `${sessionId}-${revision + 1}`, text: `${revision} is the number. `.repeat(60) }],
      }),
    );
  await journalOf(store).append([
    record("k", "done", { sessionId, turnId: turn(`${sessionId}:turn:2`), outcome: [1] }),
  ]);
  await store.withdraw(sessionId, [
    { inputId: inputId(`${sessionId}:input:3`), report: report("withdrawn") },
  ]);
  for (const name of ["one", "two"])
    await store.waits.create({
      ...waitOf(sessionId),
      name,
      kind: "approval",
      keyHash: `${sessionId} ${name}`,
    });
  await store.waits.resolve(`${sessionId} one`, "approval", { kind: "value", value: 5 } as never);
  for (const [topic, due] of [
    ["t", 5],
    ["u", 7],
  ] as const)
    await triggersOf(store).subscribe({
      subscriptionId: `${sessionId} ${topic}`,
      sessionId,
      source: "mail",
      topic,
      definition: { note: topic },
      createdAt: 1,
      due,
    });
  const occurrence = {
    occurrenceId: `${sessionId} o`,
    source: "mail",
    topic: "t",
    payload: { text: "hello" },
  };
  await triggersOf(store).accept({ ...occurrence, at: 3, acceptedAt: 4 });
  await store.claim(sessionId, { ...WORKER, now: 0, expiresAt: NOW - 5 });
}

function triggersOf({ triggers }: Store): TriggerStore {
  if (triggers === undefined) throw new Error("expected a store with triggers, found none");
  return triggers;
}

const waitOf = (sessionId: SessionId) => ({ sessionId, turnId: turn(`${sessionId}:turn:2`) }) as const;

/** What can be asked of the store in a file, by name. The last ones write. */
export type Question = readonly [name: string, ask: (store: Store) => Promise<unknown>];

/** Everything that can be asked about what is in a file. */
export async function questionsAbout(path: string): Promise<readonly Question[]> {
  const ids = (await query(path, "SELECT id FROM sessions ORDER BY no")).map((row) => id(String(row.id)));
  const refs = (await query(path, "SELECT hex(digest) AS digest FROM blobs")).map(
    ({ digest }) => `sha256:${String(digest).toLowerCase()}`,
  );
  return [
    ["list", (store) => store.list({})],
    ["unsettled", (store) => store.unsettled()],
    ["workable", (store) => store.workable(NOW)],
    ["resumable", (store) => store.resumable(NOW)],
    ["subscriptions", (store) => triggersOf(store).list({})],
    ["due", (store) => triggersOf(store).due(NOW, 100)],
    ["next due", (store) => triggersOf(store).nextDue()],
    ["deliveries", (store) => triggersOf(store).pending({ after: 0, limit: 100 })],
    ...refs.map(
      (ref): Question => [
        ref,
        async (store) => Buffer.from((await store.blobs.get(ref)) ?? "none").toString("hex"),
      ],
    ),
    ...ids.flatMap((sessionId) => questionsOf(sessionId)),
    ...ids.map((sessionId): Question => [`claim ${sessionId}`, (store) => store.claim(sessionId, WORKER)]),
    ...ids.flatMap((sessionId) =>
      ["one", "two"].map(
        (name): Question => [
          `resolve ${sessionId} ${name}`,
          (store) =>
            store.waits.resolve(`${sessionId} ${name}`, "approval", { kind: "value", value: 6 } as never),
        ],
      ),
    ),
  ];
}

function questionsOf(sessionId: SessionId): readonly Question[] {
  const turns = [...[1, 2, 3, 4, 5].map((n) => `${sessionId}:turn:${n}`), `${sessionId} given`].map(turn);
  return [
    [`exists ${sessionId}`, (store) => store.exists(sessionId)],
    [`load ${sessionId}`, (store) => store.load(sessionId)],
    [
      `part of ${sessionId}`,
      async (store) => {
        const { earlier, ...rest } = (await store.load(sessionId, { isPartial: true })) ?? {};
        return { ...rest, before: earlier?.() };
      },
    ],
    [`revision ${sessionId}`, (store) => store.revision(sessionId)],
    [`pending ${sessionId}`, (store) => store.pending(sessionId)],
    ...["k1", "k2", "k3", "go", "hello"].map(
      (key): Question => [
        `key ${key} ${sessionId}`,
        (store) => store.find({ sessionId, key, submitted: { text: `text ${key}` } }),
      ],
    ),
    ...turns.flatMap((turnId): readonly Question[] => [
      [`turn ${turnId}`, (store) => store.find({ sessionId, turnId, submitted: null })],
      [`journal ${turnId}`, (store) => journalOf(store).read(sessionId, turnId)],
      [`waits ${turnId}`, (store) => store.waits.read(sessionId, turnId)],
    ]),
  ];
}

/** The answer to each question: its JSON, or the error. */
export async function answersOf(path: string, questions: readonly Question[]): Promise<readonly string[]> {
  const store = sqliteStore({ path });
  const answers: string[] = [];
  for (const [, ask] of questions) answers.push(await ask(store).then(told, failed));
  await store.close().catch(failed);
  return answers;
}

function told(value: unknown): string {
  return JSON.stringify(value) ?? "undefined";
}

/** Errors other than those of marling are no answers. */
function failed(thrown: unknown): string {
  if (!MarlingError.is(thrown)) throw thrown;
  return `failed: ${thrown.code} ${JSON.stringify(thrown.details)}`;
}

/** Whether an answer is the one that it was, or says that there is none. */
export function isServed(answer: string | undefined, original: string | undefined): boolean {
  return answer === original || answer?.startsWith("failed: ") === true;
}

/** A copy of a file with one bit flipped. */
export function flipBit(from: string, to: string, bit: number): void {
  const content = readFileSync(from);
  content[bit >> 3] = (content[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  writeFileSync(to, content);
}

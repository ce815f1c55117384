// What opening a session reads of the commits that it consists of: SL14, counted at the driver of SQLite, and compared with
// a store that keeps everything as it was given.

import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import type { JsonObject } from "../../src/model/json.ts";
import type { SessionCommit, SessionHead, Store } from "../../src/store/contract.ts";
import { memoryStore } from "../../src/store/memory.ts";
import { SUM_SIGNS } from "../../src/store/sqlite/row-sum.ts";
import { restoreText, shortenText } from "../../src/store/sqlite/session-text.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import {
  A,
  B,
  commitOf,
  head,
  id,
  inputOf,
  journalOf,
  node,
  record,
} from "../../src/testing/conformance/store-case.ts";
import { query, queryAsOlder, rowsIn, type Tap, tappedDriver, temporaryFolder } from "./sqlite-support.ts";

function open(path: string, tap: Tap = {}): Store {
  const store = openSqliteStore({ path }, { loadDriver: () => tappedDriver(tap) });
  onTestFinished(() => store.close());
  return store;
}

/** A commit whose changes come and go: components, entries of the ledger, frames, members that most commits leave alone. */
function commitAt(session: SessionId, revision: number, frames: number): SessionCommit {
  const entry = (index: number): JsonObject => ({ source: "turn", model: `m${index}`, count: revision });
  const framesOf = (count: number): readonly JsonObject[] =>
    Array.from({ length: count }, (_, index) => ({
      id: `f${index}`,
      status: index === count - 1 ? "active" : "superseded",
    }));
  const leaf = `${session}${revision}`;
  const changes: Partial<SessionHead> = {
    turnIndex: revision,
    leaf: node(leaf),
    operations: Math.floor(revision / 7),
    frames: framesOf(frames),
    currentFrameId: `f${frames - 1}`,
    ledger: Array.from({ length: 1 + (revision % 3) }, (_, index) => entry(index)) as never,
    ...(revision % 50 === 3 ? { later: revision } : {}),
  };
  const components = {
    ...(revision === 0 ? { tools: { of: session } } : {}),
    ...(revision % 90 === 5 ? { plugins: { at: revision } } : {}),
  };
  return commitOf(session, revision, { ids: [leaf], components, head: head(changes) });
}

/** What a store says of a session, whole and in part. */
async function told(store: Store, session: SessionId): Promise<object> {
  const { nodes, earlier, ...rest } = (await store.load(session, { isPartial: true })) ?? {};
  const part = [...(earlier?.() ?? []), ...(nodes ?? [])];
  return { whole: await store.load(session), rest, part };
}

/** How far a session has come. */
interface Place {
  readonly revision: number;
  readonly frames: number;
  /** The node with which the current frame was opened, when it is not the first frame. */
  readonly opened?: string;
}

test("[SL14] a session is what its commits made it, wherever one of them stored all of it", async () => {
  const path = join(temporaryFolder(), "store.db");
  const model = memoryStore();
  let sqlite = open(path);
  const places = new Map<string, Place>();
  const sessions: SessionId[] = [];
  const grow = async (session: SessionId, count: number): Promise<void> => {
    for (let step = 0; step < count; step += 1) {
      const place = places.get(session) ?? { revision: 0, frames: 1 };
      const isOpening = place.revision % 40 === 39;
      const leaf = `${session}${place.revision}`;
      const frames = place.frames + (isOpening ? 1 : 0);
      for (const store of [model, sqlite]) await store.commit(commitAt(session, place.revision, frames));
      const next = { ...place, revision: place.revision + 1, frames, ...(isOpening ? { opened: leaf } : {}) };
      places.set(session, next).set(leaf, next);
    }
  };
  const fork = async (from: SessionId, as: SessionId, at?: string): Promise<void> => {
    for (const store of [model, sqlite])
      await store.fork({ from, as, ...(at === undefined ? {} : { at: node(at) }) });
    places.set(as, { frames: 1, ...places.get(at ?? from), revision: 1 });
    sessions.push(as);
  };
  sessions.push(A);
  await grow(A, 30);
  await fork(A, B);
  for (const count of [35, 1, 90, 64, 7]) {
    await grow(A, count);
    await grow(B, count);
    if (count === 90) await fork(B, id("late"));
    if (count === 64) await fork(A, id("early"), "a60");
    if (count >= 64) await grow(id("late"), 70);
    await sqlite.close();
    sqlite = open(path);
    for (const session of sessions) {
      expect(await told(sqlite, session)).toEqual(await told(model, session));
      const part = await sqlite.load(session, { isPartial: true });
      expect(part?.nodes[0]?.id).toBe(places.get(session)?.opened ?? "a0");
    }
  }
});

test("[SL14] opening reads as much of 1,000 commits beside their nodes as of 200, and at most twice as many as of 64", async () => {
  const path = join(temporaryFolder(), "store.db");
  const grow = async (from: number, to: number): Promise<void> => {
    const store = open(path);
    for (let revision = from; revision < to; revision += 1) await store.commit(commitAt(A, revision, 1));
    await store.close();
  };
  const manifestsRead = async (): Promise<number> => {
    let read = 0;
    const store = open(path, {
      read: (sql, row) => {
        if (/\bmanifest\b/.test(sql)) read += rowsIn(row);
      },
    });
    await store.load(A);
    await store.close();
    return read;
  };
  await grow(0, 200);
  const short = await manifestsRead();
  await grow(200, 1_000);
  expect(await manifestsRead()).toBe(short);
  expect(short).toBeLessThanOrEqual(2 * 64);
});

test("[SL14] commits with long texts, and such as are damaged, are read one by one", async () => {
  const path = join(temporaryFolder(), "store.db");
  const [model, sqlite] = [memoryStore(), open(path)];
  for (let revision = 0; revision < 150; revision += 1) {
    const text = "so much ".repeat(revision % 70 === 3 ? 60_000 : 2);
    const nodes = [{ kind: "message", id: `n${revision}`, text }];
    const commit = {
      ...commitOf(A, revision),
      nodes,
      head: head({ turnIndex: revision, leaf: node(`n${revision}`) }),
    };
    for (const store of [model, sqlite]) await store.commit(commit);
  }
  await sqlite.close();
  const again = open(path);
  expect(await told(again, A)).toEqual(await told(model, A));
  await again.close();
  await queryAsOlder(path, "UPDATE commits SET nodes = '[1], [2' WHERE at & 4294967295 = 100");
  await expect(open(path).load(A)).rejects.toMatchObject({
    code: "store_corrupt",
    message: expect.stringContaining("column nodes: expected JSON, found other text"),
  });
});

test("[SL9] [SL14] where no commit stored all, as before there were such, a session is read from its first one", async () => {
  const path = join(temporaryFolder(), "store.db");
  const [model, sqlite] = [memoryStore(), open(path)];
  const grow = async (stores: readonly Store[], from: number, to: number): Promise<void> => {
    for (let revision = from; revision < to; revision += 1)
      for (const store of stores) await store.commit(commitAt(A, revision, 1));
  };
  const isWhole = "manifest LIKE '%\"whole\"%'";
  await grow([model, sqlite], 0, 150);
  await sqlite.close();
  for (const { at, manifest } of await query(path, `SELECT at, manifest FROM commits WHERE ${isWhole}`)) {
    const { whole: _whole, ...rest } = JSON.parse(restoreText(String(manifest).slice(SUM_SIGNS), A));
    const text = shortenText(JSON.stringify(rest), A).replaceAll("'", "''");
    await queryAsOlder(path, `UPDATE commits SET manifest = '${text}' WHERE at = ${at}`);
  }
  expect(await query(path, `SELECT at FROM commits WHERE ${isWhole}`)).toEqual([]);
  const again = open(path);
  expect(await told(again, A)).toEqual(await told(model, A));
  await grow([model, again], 150, 151);
  expect(await query(path, `SELECT at & 4294967295 AS n FROM commits WHERE ${isWhole}`)).toEqual([
    { n: 151 },
  ]);
  expect(await told(again, A)).toEqual(await told(model, A));
});

test("[SL9] a journal is read whether its text was shortened, as before, or not", async () => {
  const path = join(temporaryFolder(), "store.db");
  const sqlite = open(path);
  const chat = id("chat-1");
  const { row } = await sqlite.admit(inputOf(chat, "a question"));
  const written = record("0.model_call", "done", {
    sessionId: chat,
    turnId: row.turnId,
    outcome: { value: { kind: "response" } },
  });
  await journalOf(sqlite).append([written]);
  const [stored] = await query(path, "SELECT entry FROM journal");
  const entry = JSON.stringify([row.turnId, ["0.model_call", "done", written.outcome]]);
  expect(stored).toEqual({ entry });
  await sqlite.close();
  await queryAsOlder(path, `UPDATE journal SET entry = '${shortenText(entry, chat).replaceAll("'", "''")}'`);
  expect(await query(path, "SELECT entry FROM journal")).not.toEqual([stored]);
  expect(await journalOf(open(path)).read(chat, row.turnId)).toEqual([written]);
});

test("[SL5] [SL14] a head with many frames is stored whole as seldom as it has frames", async () => {
  const path = join(temporaryFolder(), "store.db");
  const store = open(path);
  for (let revision = 0; revision < 700; revision += 1)
    await store.commit(commitAt(A, revision, revision < 300 ? revision + 1 : 300));
  await store.close();
  const wholes = await query(
    path,
    "SELECT at & 4294967295 AS n FROM commits WHERE manifest LIKE '%\"whole\"%'",
  );
  const gaps = wholes.map(({ n }, index) => Number(n) - Number(wholes[index - 1]?.n ?? 1));
  expect(gaps).toHaveLength(2);
  for (const gap of gaps) expect(gap).toBeGreaterThan(300);
});

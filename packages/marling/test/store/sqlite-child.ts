// A process of its own that uses a store, until it is killed or done. Prints what was acknowledged, one line each.
//
//   write <path>                  commits turns of two sessions, forever: `<session> <revision>`
//   hold <path>                   opens the store and keeps it: `open`
//   try <path>                    opens the store once: `open`, or the code of the refusal; and closes it: `closed`
//   share <path> <name> <count>   commits turns of the session `<name>` and of `common`, which others write to as well:
//                                 `<session> <revision> <input>`; then `done`
//   lease <path> <session>        admits an input and takes the lease, as `child`, until 1000: `claimed <generation>`;
//                                 when it is lost, tries to write with it: `<write> <code>`; keeps the store open
//   revision <path> <session>     reads the newest revision and closes the store: `<revision>`

import { writeSync } from "node:fs";
import { setInterval } from "node:timers";
import { setTimeout as delay } from "node:timers/promises";
import { MarlingError } from "../../src/base/errors.ts";
import type { EffectKey, SessionId } from "../../src/model/ids.ts";
import type { Store } from "../../src/store/contract.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { commitOf, inputOf, record, report } from "../../src/testing/conformance/store-case.ts";

const [mode, path = "", name = "", count = ""] = process.argv.slice(2);
const store = sqliteStore({ path });

if (mode === "write") await Promise.all(["one", "two"].map((id) => writeTurns(store, id as SessionId)));
if (mode === "hold") await hold(store);
if (mode === "try") await tryOnce(store);
if (mode === "share") await share(store, Number(count));
if (mode === "lease") await useLease(store, name as SessionId);
if (mode === "revision") await readRevision(store, name as SessionId);

async function writeTurns(target: Store, id: SessionId): Promise<never> {
  const stored = await target.load(id);
  for (let revision = stored?.revision ?? 0; ; revision += 1) {
    const { row } = await target.admit(inputOf(id, `input ${revision}`, { key: `key ${revision}` }));
    const outcome = "text ".repeat(300);
    await target.journal?.append([record("model", "done", { sessionId: id, turnId: row.turnId, outcome })]);
    const settles = { inputId: row.inputId, report: report(outcome) };
    const nodes = [{ id: `${id}-${revision}`, text: outcome }];
    const commit = commitOf(id, revision, {
      once: true,
      operation: row.turnId,
      nodes,
      settles,
      forgets: [row.turnId],
    });
    await target.commit(commit);
    print(`${id} ${revision + 1}`);
  }
}

async function share(target: Store, turns: number): Promise<void> {
  const own = name as SessionId;
  await Promise.all([own, "common" as SessionId].map((id) => shareTurns(target, id, turns)));
  await target.close();
  print("done");
}

/** Commits turns one after the other; what somebody else has committed meanwhile is loaded. */
async function shareTurns(target: Store, id: SessionId, turns: number): Promise<void> {
  for (let number = 0; number < turns; number += 1) {
    const text = `${name} ${number}`;
    const { row } = await target.admit(inputOf(id, text, { key: text }));
    const { turnId, inputId } = row;
    await target.journal?.append([record("model", "done", { sessionId: id, turnId, outcome: text })]);
    for (let revision = 0, isDone = false; !isDone; ) {
      const settles = { inputId, report: report(text) };
      const node = { id: `${name}-${number}` };
      const commit = commitOf(id, revision, { once: true, operation: turnId, settles, forgets: [turnId] });
      const outcome = await target.commit({ ...commit, nodes: [node] }).catch(codeOf);
      isDone = typeof outcome !== "string";
      if (typeof outcome !== "string") print(`${id} ${outcome.revision} ${text}`);
      else if (outcome !== "revision_conflict") throw new Error(outcome);
      revision = await target.revision(id);
    }
  }
}

async function useLease(target: Store, sessionId: SessionId): Promise<void> {
  const lease = { owner: "child", incarnation: "child-1", now: 0, expiresAt: 1000 };
  const { row, claim } = await target.admit(inputOf(sessionId, "of the child"), lease);
  if (claim?.kind !== "claimed") throw new Error("expected the lease to be free");
  print(`claimed ${claim.generation}`);
  setInterval(() => undefined, 1000);
  const held = { sessionId, generation: claim.generation };
  while ((await target.renew([held], { ...lease, expiresAt: 1000 })).length === 0) await delay(5);
  const { turnId } = row;
  const { generation } = held;
  const wait = { sessionId, turnId, name: "wait", lease: generation };
  const key = "checkpoint" as EffectKey;
  const keyHash = "ab".repeat(32);
  const writes: Readonly<Record<string, () => Promise<unknown> | undefined>> = {
    commit: () => target.commit(commitOf(sessionId, 0, { ids: ["late"], lease: generation })),
    append: () => target.journal?.append([record("late", "done", { sessionId, turnId })], generation),
    deliver: () => target.deliver({ ...held, turnId, key, isReplay: false }),
    park: () => target.park({ ...held, turnId, names: [], due: null }),
    create: () => target.waits.create({ ...wait, kind: "completion", keyHash }),
    end: () => target.waits.end(wait),
  };
  for (const [write, attempt] of Object.entries(writes)) {
    const outcome = await Promise.resolve(attempt()).then(() => "done", codeOf);
    print(`${write} ${outcome}`);
  }
}

async function readRevision(target: Store, sessionId: SessionId): Promise<void> {
  const revision = await target.revision(sessionId);
  await target.close();
  print(String(revision));
}

async function hold(target: Store): Promise<void> {
  await target.list({});
  print("open");
  setInterval(() => undefined, 1000);
}

async function tryOnce(target: Store): Promise<void> {
  print(await target.list({}).then(() => "open", codeOf));
  await target.close();
  print("closed");
}

function codeOf(thrown: unknown): string {
  return MarlingError.is(thrown) ? thrown.code : String(thrown);
}

/** Straight to the pipe: a line that was written is there though the process dies. */
function print(line: string): void {
  writeSync(1, `${line}\n`);
}

// A process of its own that uses a store until it is killed. Prints what was acknowledged, one line each.
//
//   write <path>   commits turns of two sessions, forever: `<session> <revision>`
//   hold <path>    opens the store and keeps it: `open`
//   try <path>     opens the store once: `open`, or the code of the refusal

import { writeSync } from "node:fs";
import { setInterval } from "node:timers";
import { MarlingError } from "../../src/base/errors.ts";
import type { SessionId } from "../../src/model/ids.ts";
import type { Store } from "../../src/store/contract.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { commitOf, inputOf, record, report } from "../../src/testing/conformance/store-case.ts";

const [mode, path = ""] = process.argv.slice(2);
const store = sqliteStore({ path });

if (mode === "write") await Promise.all(["one", "two"].map((id) => writeTurns(store, id as SessionId)));
if (mode === "hold") await hold(store);
if (mode === "try") await tryOnce(store);

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

async function hold(target: Store): Promise<void> {
  await target.list({});
  print("open");
  setInterval(() => undefined, 1000);
}

async function tryOnce(target: Store): Promise<void> {
  const refused = await target.list({}).then(
    () => "open",
    (thrown: unknown) => (MarlingError.is(thrown) ? thrown.code : String(thrown)),
  );
  print(refused);
  await target.close();
}

/** Straight to the pipe: a line that was written is there though the process dies. */
function print(line: string): void {
  writeSync(1, `${line}\n`);
}

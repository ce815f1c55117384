// One life of the process that is killed: opens the store, recovers, and runs the scenario.
//   node life.js <url of the scenario> <folder> <life> [<boundary to end at> [<grace of the close there>]]
// Without a grace the process is killed at the boundary. With one, the runtime is closed there and the process ends then.

import { join } from "node:path";
import { MarlingError } from "../../base/errors.ts";
import { createRuntime, type Runtime } from "../../index.ts";
import type { SessionId } from "../../model/ids.ts";
import { isJsonObject, type Json } from "../../model/json.ts";
import { sqliteStore } from "../../sqlite.ts";
import type { NewInput, Store, StoredSession } from "../../store/contract.ts";
import { Boundaries } from "./boundaries.ts";
import { type Line, openLine } from "./line.ts";
import { loadScenario } from "./load-scenario.ts";
import type { CrashRuntimeOptions, CrashWatch } from "./scenario.ts";
import { watchedModel } from "./watched-model.ts";
import { watchedPlugin } from "./watched-plugins.ts";
import { watchSql } from "./watched-sql.ts";
import { watchedStore } from "./watched-store.ts";
import { type ToolWatch, watchedTools } from "./watched-tools.ts";
import { watchTurns } from "./watched-turns.ts";

const [url = "", folder = "", life = "1", deadly, graceMs] = process.argv.slice(2);
const line = openLine();
let runtime: Runtime | undefined;
let isClosing = false;
const boundaries = new Boundaries(deadly, graceMs === undefined ? undefined : close);
await live().catch((thrown: unknown) => {
  if (!isClosing) throw thrown; // A scenario whose runtime is closed need not come to its end.
});
if (!isClosing) line.hangUp();

/** Begins when the call that is at the boundary waits: it may be in the middle of a transaction. */
function close(): void {
  isClosing = true;
  queueMicrotask(async () => {
    await runtime?.close({ graceMs: Number(graceMs) });
    await line.ask("closed", {});
    process.exit(0);
  });
}

/** What a scenario names itself may have changed something outside. */
function boundary(name: string): void {
  boundaries.moveWorld();
  boundaries.pass(name);
  boundaries.moveWorld();
}

async function live(): Promise<void> {
  await watchSql(boundaries);
  const scenario = await loadScenario(url);
  const watch: CrashWatch = { life: Number(life), folder, boundary };
  const store = scenario.store?.(folder) ?? sqliteStore({ path: join(folder, "crash.db") });
  const made = createRuntime({
    ...watchedOptions(scenario.options?.(watch) ?? {}, { line, boundaries }),
    model: watchedModel(line, boundaries),
    store: watchedStore(store, { line, boundaries }),
  });
  runtime = made;
  watchTurns(made, boundaries);
  await (scenario.recover?.(made, watch) ?? made.recover());
  const end = (await scenario.run(made, watch)) as Json;
  await refuseLostInputs(store, line);
  await refuseRepeatedMessages(store);
  await made.close();
  if (!isClosing) await line.ask("ended", { end: end ?? null, boundaries: boundaries.passed });
}

function watchedOptions(options: CrashRuntimeOptions, watch: ToolWatch): CrashRuntimeOptions {
  const { tools, plugins, ...others } = options;
  return {
    ...others,
    ...(tools === undefined ? {} : { tools: watchedTools(tools, watch) }),
    ...(plugins === undefined ? {} : { plugins: plugins.map((plugin) => watchedPlugin(plugin, watch)) }),
  };
}

/** Every input that any life was told is accepted must have a turn that came to its end. */
async function refuseLostInputs(store: Store, { ask }: Line): Promise<void> {
  for (const input of await ask("accepted", {})) {
    const { sessionId, turnId } = input;
    // What is asked for is what a store said before, so the ids are its own.
    const row = await store.find(input as Omit<NewInput, "input">).catch(unlessDeleted);
    if (row !== "deleted" && row?.report === undefined)
      throw new Error(
        `the input of turn ${turnId} in session ${sessionId} was accepted, and ${row === undefined ? "is gone" : "is not settled"}`,
      );
  }
}

/** A message id is in a session once, in every session that the lives have left. */
async function refuseRepeatedMessages(store: Store): Promise<void> {
  for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
    const page = await store.list(cursor === undefined ? {} : { cursor });
    for (const { id } of page.items) refuseRepeatedIn(await store.load(id as SessionId));
    cursor = page.cursor;
  }
}

function refuseRepeatedIn(stored: StoredSession | undefined): void {
  const seen = new Set<unknown>();
  for (const { message } of stored?.nodes ?? []) {
    if (!isJsonObject(message)) continue;
    if (seen.has(message.id))
      throw new Error(`message ${String(message.id)} is in session ${stored?.sessionId} more than once`);
    seen.add(message.id);
  }
}

function unlessDeleted(thrown: unknown): "deleted" {
  if (MarlingError.is(thrown) && thrown.code === "session_deleted") return "deleted";
  throw thrown;
}

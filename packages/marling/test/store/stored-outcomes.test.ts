// Outcomes of effects, as each version recorded them (model/outcome-version.ts): turns that were cut finish with them.

import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRuntime, type Runtime } from "marling";
import { sqliteStore } from "marling/sqlite";
import { scriptedModel } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import type { Json } from "../../src/model/json.ts";
import { OUTCOME_VERSION, versionOf } from "../../src/model/outcome-version.ts";
import * as hooked from "./fixtures/hooked-answers/world.mjs";
import { PROGRAMS } from "./fixtures/v2/world.mjs";
import { query, temporaryFolder } from "./sqlite-support.ts";

/** The folder of each version's files. */
const FOLDERS: ReadonlyMap<number, string> = new Map([
  [1, "v2"],
  [2, "outcomes-v2"],
]);

/** Files of turns whose answers have hooks, with the versions of their outcomes: cut behind the hooks, and inside one. */
const HOOKED: readonly (readonly [file: string, versions: readonly number[]])[] = [
  ["v2-behind.db", [2]],
  ["v3-behind.db", [3, 2]],
  ["v3-inside.db", [3]],
];

/** A copy of a file with a turn that was cut. */
function copied(version: number): string {
  return copyOf(`${FOLDERS.get(version)}/cut-in-tool.db`);
}

function copyOf(fixture: string): string {
  const path = join(temporaryFolder(), "store.db");
  copyFileSync(fileURLToPath(new URL(`fixtures/${fixture}`, import.meta.url)), path);
  return path;
}

/** A runtime with the program that wrote the files, and what it asks models and tools for. */
function open(path: string): { readonly runtime: Runtime; readonly done: readonly string[] } {
  const program = PROGRAMS["cut-in-tool"];
  if (program === undefined) throw new Error("expected the program, found none");
  const done: string[] = [];
  const world = { cut: () => void done.push("paid"), note: () => undefined };
  const model = scriptedModel((request) => {
    done.push("asked");
    return program.answer(request, world);
  });
  const store = sqliteStore({ path });
  const runtime = createRuntime({ ...program.options?.(world), store, model, owner: "finisher" });
  onTestFinished(() => runtime.close());
  return { runtime, done };
}

/** The versions of all outcomes in a file. */
async function versions(path: string): Promise<readonly number[]> {
  const rows = await query(path, "SELECT entry FROM journal");
  const steps = rows.flatMap(
    ({ entry }) => (JSON.parse(String(entry)) as Json[]).slice(1) as [string, string, Json?][],
  );
  return steps.filter(([, status]) => status === "done").map(([, , outcome]) => versionOf(outcome));
}

test("the newest version of outcomes has a file", () => {
  expect(Math.max(...FOLDERS.keys(), ...HOOKED.flatMap(([, found]) => found))).toBe(OUTCOME_VERSION);
});

test.each([...FOLDERS.keys()])(
  "[OV1] a turn with outcomes of version %i finishes, and repeats none of them",
  async (version) => {
    const path = copied(version);
    expect(new Set(await versions(path))).toEqual(new Set([version]));
    const { runtime, done } = open(path);
    await runtime.recover();
    const session = await runtime.session("s");
    const { text, toolCalls } = await session.turn("go", { key: "go" }).result;
    expect(text).toBe("told what is known");
    expect(toolCalls.map(({ name }) => name)).toEqual(["gather", "look", "pay"]);
    expect(done).toEqual(["asked"]);
  },
);

test("[OV2] a turn with an outcome of a newer version is left as it is, however often somebody tries", async () => {
  const path = copied(2);
  const newer = `replace(entry, '"version":2', '"version":${OUTCOME_VERSION + 1}')`;
  await query(path, `UPDATE journal SET entry = ${newer} WHERE at = (SELECT max(at) FROM journal)`);
  const before = await query(path, "SELECT at, entry, outcome FROM journal");
  const mixed = await versions(path);
  expect(new Set(mixed)).toEqual(new Set([2, OUTCOME_VERSION + 1]));
  for (let attempt = 1; attempt <= 5; attempt += 1) {
    const { runtime, done } = open(path);
    const session = await runtime.session("s");
    const asked = session.turn("go", { key: "go" }).result;
    await expect(asked).rejects.toMatchObject({ code: "unsupported_version" });
    await runtime.close();
    expect(done).toEqual([]);
  }
  expect(await query(path, "SELECT at, entry, outcome FROM journal")).toEqual(before);
  expect(await query(path, "SELECT session FROM leases WHERE owner IS NOT NULL")).toEqual([]);
});

test.each(HOOKED)(
  "[OV1] a turn of %s finishes, and no answer is bought or hooked twice",
  async (file, found) => {
    const path = copyOf(`hooked-answers/${file}`);
    expect(await versions(path)).toEqual(found);
    const done: string[] = [];
    const world = { cut: () => undefined, see: (hook: string) => void done.push(hook) };
    const model = scriptedModel((request) => {
      done.push("asked");
      return hooked.answer(request);
    });
    const store = sqliteStore({ path });
    const runtime = createRuntime({ ...hooked.options(world), store, model, owner: "finisher" });
    onTestFinished(() => runtime.close());
    await runtime.recover();
    const session = await runtime.session("s");
    const { text, modelCalls } = await session.turn("go", { key: "go" }).result;
    expect(text).toBe("DONE!");
    expect(modelCalls).toHaveLength(2);
    const isInside = file.includes("inside");
    const first = ["response", "finished complete"];
    const second = ["stream done", "response", "finished complete"];
    expect(done).toEqual([...(isInside ? first : []), "asked", ...second]);
    expect(await session.query("hooked.seen", {})).toEqual(["stream let me pay", ...first, ...second]);
  },
);

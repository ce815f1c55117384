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
import { PROGRAMS } from "./fixtures/v2/world.mjs";
import { query, temporaryFolder } from "./sqlite-support.ts";

/** The folder of each version's files. */
const FOLDERS: ReadonlyMap<number, string> = new Map([
  [1, "v2"],
  [2, "outcomes-v2"],
]);

/** A copy of a file with a turn that was cut. */
function copied(version: number): string {
  const path = join(temporaryFolder(), "store.db");
  const file = new URL(`fixtures/${FOLDERS.get(version)}/cut-in-tool.db`, import.meta.url);
  copyFileSync(fileURLToPath(file), path);
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
  expect(Math.max(...FOLDERS.keys())).toBe(OUTCOME_VERSION);
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
  const path = copied(OUTCOME_VERSION);
  const newer = `replace(entry, '"version":${OUTCOME_VERSION}', '"version":${OUTCOME_VERSION + 1}')`;
  await query(path, `UPDATE journal SET entry = ${newer} WHERE at = (SELECT max(at) FROM journal)`);
  const before = await query(path, "SELECT at, entry, outcome FROM journal");
  const mixed = await versions(path);
  expect(new Set(mixed)).toEqual(new Set([OUTCOME_VERSION, OUTCOME_VERSION + 1]));
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

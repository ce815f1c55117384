// A neighbour swaps folders and links as fast as it can while the tools work; nothing outside is read or written.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { confinedRoot } from "../../../src/stock/tools/files/confined-folder.ts";
import { FileRefusal } from "../../../src/stock/tools/files/file-refusal.ts";
import { atPlace } from "../../../src/stock/tools/files/locate.ts";
import { readStart } from "../../../src/stock/tools/files/read-start.ts";
import { stageFile } from "../../../src/stock/tools/files/staged-file.ts";
import { type FileBench, fileBench } from "./file-bench.ts";

const ROUNDS = 80;
const OUTSIDE = "outside content";
const INSIDE = "inside content";

/** Renames a folder and a link to the outside over each other until it is ended, and a file and a link likewise. */
const SWAPPER = `
const { renameSync } = require("node:fs");
const [base] = process.argv.slice(1);
const stay = () => { const end = process.hrtime.bigint() + BigInt(Math.floor(Math.random() * 400_000)); while (process.hrtime.bigint() < end); };
const swap = (name) => {
  renameSync(base + "/" + name, base + "/" + name + ".real");
  renameSync(base + "/" + name + ".link", base + "/" + name);
  stay();
  renameSync(base + "/" + name, base + "/" + name + ".link");
  renameSync(base + "/" + name + ".real", base + "/" + name);
  stay();
};
process.stdout.write("swapping");
for (;;) { try { swap("d"); swap("f.txt"); } catch {} }
`;

async function swapping(bench: FileBench): Promise<void> {
  const { root, outside } = bench;
  writeFileSync(join(outside, "f.txt"), OUTSIDE);
  writeFileSync(join(outside, "g.txt"), OUTSIDE);
  bench.put("d/f.txt", INSIDE);
  bench.put("f.txt", INSIDE);
  symlinkSync(outside, join(root, "d.link"));
  symlinkSync(join(outside, "f.txt"), join(root, "f.txt.link"));
  const child = spawn(process.execPath, ["-e", SWAPPER, root], { stdio: ["ignore", "pipe", "ignore"] });
  onTestFinished(() => ended(child));
  await new Promise((resolve) => child.stdout?.once("data", resolve));
}

async function ended(child: ChildProcess): Promise<void> {
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await gone;
}

/** What a tool answered, as text, whether it could or not. */
async function answered(work: Promise<unknown>): Promise<string> {
  return JSON.stringify(await work.catch((thrown: unknown) => String(thrown)));
}

function expectOutside({ outside }: FileBench): void {
  expect(readdirSync(outside).sort()).toEqual(["f.txt", "g.txt", "secret.txt"]);
  expect(readFileSync(join(outside, "f.txt"), "utf8")).toBe(OUTSIDE);
  expect(readFileSync(join(outside, "g.txt"), "utf8")).toBe(OUTSIDE);
}

test("[FT3] reading while folders and links are swapped never shows what is outside", {
  timeout: 120_000,
}, async () => {
  const bench = fileBench();
  await swapping(bench);
  let inside = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const path of ["d/f.txt", "d/g.txt", "f.txt", "d/../d/f.txt"]) {
      const seen = await answered(bench.succeed("read_file", { path }));
      expect(seen).not.toContain(OUTSIDE);
      if (seen.includes(INSIDE)) inside += 1;
    }
    expect(await answered(bench.succeed("glob", { pattern: "**/*.txt" }))).not.toContain("g.txt");
    expect(await answered(bench.succeed("list_files", { path: "d" }))).not.toContain("g.txt");
    if (round % 15 === 0)
      expect(await answered(bench.succeed("grep", { pattern: "content" }))).not.toContain(OUTSIDE);
  }
  expect(inside).toBeGreaterThan(0);
  expectOutside(bench);
});

test("[FT3] writing while folders and links are swapped never reaches the outside", {
  timeout: 120_000,
}, async () => {
  const bench = fileBench();
  await swapping(bench);
  let done = 0;
  const attempt = async (tool: string, args: object): Promise<void> => {
    const seen = await answered(bench.succeed(tool, args));
    expect(seen).not.toContain(OUTSIDE);
    if (!seen.includes("Error")) done += 1;
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    await attempt("write_file", { path: "d/g.txt", content: INSIDE });
    await attempt("write_file", { path: `d/new/${round}.txt`, content: INSIDE });
    await attempt("write_file", { path: "f.txt", content: INSIDE });
    await attempt("edit_file", { path: "d/f.txt", oldText: "content", newText: "content " });
    await attempt("apply_patch", {
      patch: `*** Begin Patch\n*** Add File: d/p${round}.txt\n+x\n*** Delete File: d/g.txt\n*** End Patch`,
    });
  }
  expect(done).toBeGreaterThan(0);
  expectOutside(bench);
});

test("[FT4] opening by path, contents stay on their side of the root as well", {
  timeout: 120_000,
}, async () => {
  const bench = fileBench();
  await swapping(bench);
  mkdirSync(join(bench.root, "d", "deep"), { recursive: true });
  const root = confinedRoot(bench.root, "test", { openBy: "path" });
  const attempt = (path: string): Promise<string> =>
    atPlace(root, path, async (place) => {
      if (place.kind !== "found") return place.kind;
      const text = (await readStart(place.folder, { name: place.name, bytes: 100 })).toString();
      const staged = await stageFile({ folder: place.folder, name: place.name }, Buffer.from(INSIDE));
      await staged.commit().finally(() => staged.discard());
      return text;
    }).catch((thrown: unknown) => {
      if (thrown instanceof FileRefusal) return thrown.reason;
      throw thrown;
    });
  for (let round = 0; round < ROUNDS; round += 1)
    for (const path of ["d/f.txt", "f.txt", "d/g.txt"]) expect(await attempt(path)).not.toContain(OUTSIDE);
  for (const name of ["f.txt", "g.txt"])
    expect(readFileSync(join(bench.outside, name), "utf8")).toBe(OUTSIDE);
});

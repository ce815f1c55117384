// Somebody reads the files all the time while tools write them: whenever the process ended, the files would be whole.

import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type FileBench, fileBench } from "./file-bench.ts";

const ROUNDS = 40;
const SIZE = 300_000;

/** Reads a file over and over; on a line of input, says how often it did and how often the file was not whole. */
const READER = `
const { readFileSync } = require("node:fs");
const [path, size] = process.argv.slice(1);
let reads = 0;
let broken = 0;
const look = () => {
  const text = readFileSync(path, "latin1");
  reads += 1;
  if (text.length !== Number(size) || text !== text[0].repeat(text.length - 1) + "\\n") broken += 1;
};
look();
process.stdout.write("reading\\n");
process.stdin.once("data", () => { process.stdout.write(JSON.stringify({ reads, broken })); process.exit(); });
const again = () => { for (let at = 0; at < 20; at += 1) look(); setImmediate(again); };
again();
`;

interface Reader {
  stop(): Promise<{ readonly reads: number; readonly broken: number }>;
}

async function readerOf({ root }: FileBench, path: string): Promise<Reader> {
  const child: ChildProcess = spawn(process.execPath, ["-e", READER, join(root, path), String(SIZE + 1)], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const said = (): Promise<string> =>
    new Promise((resolve) => child.stdout?.once("data", (data: Buffer) => resolve(data.toString())));
  await said();
  return {
    stop: async () => {
      const last = said();
      child.stdin?.write("stop\n");
      return JSON.parse(await last);
    },
  };
}

const content = (round: number): string => `${"abcd"[round % 4]?.repeat(SIZE)}\n`;

test("[FT16] a file that write_file writes is whole at every moment", async () => {
  const bench = fileBench();
  bench.put("a.txt", content(0));
  const reader = await readerOf(bench, "a.txt");
  for (let round = 1; round <= ROUNDS; round += 1)
    await bench.succeed("write_file", { path: "a.txt", content: content(round) });
  const { reads, broken } = await reader.stop();
  expect(reads).toBeGreaterThan(1);
  expect(broken).toBe(0);
});

test("[AP10] a file that apply_patch and edit_file change is whole at every moment", async () => {
  const bench = fileBench();
  bench.put("a.txt", content(0));
  const reader = await readerOf(bench, "a.txt");
  for (let round = 0; round < ROUNDS; round += 2) {
    const [now, next, last] = [content(round), content(round + 1), content(round + 2)];
    await bench.patch(
      "*** Begin Patch",
      "*** Update File: a.txt",
      `-${now.trim()}`,
      `+${next.trim()}`,
      "*** End Patch",
    );
    await bench.succeed("edit_file", { path: "a.txt", oldText: next, newText: last });
  }
  const { reads, broken } = await reader.stop();
  expect(reads).toBeGreaterThan(1);
  expect(broken).toBe(0);
  expect(bench.names()).toEqual(["a.txt"]);
});

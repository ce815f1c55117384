// Outputs that are too long: what is shown, what is kept, and that both are bounded.

import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { ByteRing, withoutCutEnd, withoutCutStart } from "../../../src/stock/tools/shell/byte-ring.ts";
import { shell } from "../../../src/stock/tools/shell/shell.ts";
import { shellTools } from "../../../src/stock/tools/shell/shell-tools.ts";
import { bench, folder } from "./tool-bench.ts";

interface Long {
  readonly exitCode?: number;
  readonly output: string;
  readonly totalBytes?: number;
  readonly omittedBytes?: number;
  readonly file?: string;
  readonly fileBytes?: number;
}

const tools = (settings: object): ReturnType<typeof shellTools> =>
  shellTools({ approval: "host", ...settings });
const digits = "for n in 0 1 2 3 4 5 6 7 8 9; do printf $n; sleep 0.01; done";

test("[SH3] an output within the limit is shown whole and kept in no file", async () => {
  const spillFolder = join(folder(), "spill");
  const { value } = await bench({ tools: tools({ outputBytes: 10, spillFolder }) });
  expect(await value<Long>("shell", { command: digits })).toEqual({
    exitCode: 0,
    durationMs: expect.any(Number),
    output: "0123456789",
  });
  expect(() => readdirSync(spillFolder)).toThrow("ENOENT");
});

test.each([
  ["in one piece", "printf 0123456789A"],
  ["byte by byte", `${digits}; printf A`],
])(
  "[SH3] of a longer one the beginning and the end are shown, the whole is in a file: %s",
  async (_how, command) => {
    const spillFolder = join(folder(), "spill");
    const { value } = await bench({ tools: tools({ outputBytes: 6, spillFolder }) });
    const long = await value<Long>("shell", { command });
    expect(long).toMatchObject({ totalBytes: 11, omittedBytes: 5, fileBytes: 11, exitCode: 0 });
    expect(dirname(long.file ?? "")).toBe(spillFolder);
    expect(long.output).toBe(
      `012\n[5 of 11 bytes are left out here. The whole output is in ${long.file}]\n89A`,
    );
    expect(readFileSync(long.file ?? "", "utf8")).toBe("0123456789A");
  },
);

test("[SH3] a character is never cut in the middle", async () => {
  const { value } = await bench({ tools: tools({ outputBytes: 8, spillFolder: folder() }) });
  const { output, file } = await value<Long>("shell", { command: "printf 'aaaéb€ccé€€'" });
  expect(output.split("\n").filter((line) => !line.startsWith("["))).toEqual(["aaa", "€"]);
  expect(output).not.toContain("\ufffd");
  expect(readFileSync(file ?? "", "utf8")).toBe("aaaéb€ccé€€");
});

test("[SH5] files and folders are for their owner only, and outputs of the same command have files of their own", async () => {
  const spillFolder = join(folder(), "deep", "spill");
  const { value } = await bench({ tools: tools({ outputBytes: 4, spillFolder }) });
  const one = await value<Long>("shell", { command: "echo first of all" });
  const two = await value<Long>("shell", { command: "echo second of all" });
  expect(one.file).not.toBe(two.file);
  expect(statSync(one.file ?? "").mode & 0o777).toBe(0o600);
  expect(statSync(spillFolder).mode & 0o777).toBe(0o700);
});

test("[SH4] a file that cannot be written is told, and the command goes on", async () => {
  const blocked = join(folder(), "file");
  writeFileSync(blocked, "");
  const { value } = await bench({ tools: tools({ outputBytes: 4, spillFolder: join(blocked, "spill") }) });
  const long = await value<Long>("shell", { command: "echo abcdefgh; exit 5" });
  expect(long).toMatchObject({ exitCode: 5, totalBytes: 9, omittedBytes: 5 });
  expect(long.output).toContain("It could not be kept in a file: ENOTDIR");
  expect(long.file).toBeUndefined();
});

test("[SH6] a gigabyte is bounded in memory and on disk, and its end is shown", async () => {
  const spillFolder = folder();
  const { value } = await bench({ tools: tools({ outputBytes: 1_000, spillBytes: 1_048_576, spillFolder }) });
  const before = process.memoryUsage().arrayBuffers;
  const command = "head -c 1073741824 /dev/zero; printf over";
  const long = await value<Long>("shell", { command, timeoutMs: 300_000 });
  expect(long).toMatchObject({
    exitCode: 0,
    totalBytes: 1_073_741_828,
    omittedBytes: 1_073_740_828,
    fileBytes: 1_048_576,
  });
  expect(long.output.endsWith("over")).toBe(true);
  expect(long.output).toContain(`The first 1048576 bytes are in ${long.file}`);
  expect(statSync(long.file ?? "").size).toBe(1_048_576);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(300 * 1024 * 1024);
}, 300_000);

test("[SH6] the newest files are kept, older ones are removed", async () => {
  const spillFolder = folder();
  writeFileSync(join(spillFolder, "mine.txt"), "not theirs");
  const { value } = await bench({ tools: tools({ outputBytes: 2, spillFiles: 2, spillFolder }) });
  const files: string[] = [];
  for (const word of ["alpha", "beta", "gamma"])
    files.push((await value<Long>("shell", { command: `echo ${word}` })).file ?? "");
  const left = readdirSync(spillFolder).map((name) => join(spillFolder, name));
  expect(left.sort()).toEqual([join(spillFolder, "mine.txt"), files[1], files[2]].sort());
});

test("[SH7] a folder of our own is private and goes with its session", async () => {
  const { value, runtime } = await bench({ plugins: [shell({ ask: "never", outputBytes: 4 })] });
  const { file = "" } = await value<Long>("shell", { command: "echo long enough" });
  expect(dirname(file)).toMatch(/marling-shell-\w{6}$/);
  expect(statSync(dirname(file)).mode & 0o777).toBe(0o700);
  expect(readFileSync(file, "utf8")).toBe("long enough\n");
  await runtime.close();
  expect(() => statSync(dirname(file))).toThrow("ENOENT");
});

test("[SH7] a folder that was given stays", async () => {
  const spillFolder = join(folder(), "kept");
  mkdirSync(spillFolder);
  const { value, runtime } = await bench({ plugins: [shell({ ask: "never", outputBytes: 4, spillFolder })] });
  const { file = "" } = await value<Long>("shell", { command: "echo long enough" });
  await runtime.close();
  expect(readFileSync(file, "utf8")).toBe("long enough\n");
});

test.each([
  [4, ["ab"], "ab", 0],
  [4, ["abcd"], "abcd", 0],
  [4, ["abc", "de"], "bcde", 1],
  [4, ["abcdefgh"], "efgh", 4],
  [4, ["ab", "cdefghij", "k"], "hijk", 7],
  [0, ["abc"], "", 3],
])("[SH6] a ring of %i bytes after %j holds %j and has dropped %i", (capacity, pushed, held, dropped) => {
  const ring = new ByteRing(capacity);
  for (const text of pushed) ring.push(Buffer.from(text));
  expect([ring.last().toString(), ring.size, ring.dropped]).toEqual([held, held.length, dropped]);
  expect(ring.last(2).toString()).toBe(held.slice(-2));
});

test("[SH3] bytes that are no characters at all are kept as they are", () => {
  const bytes = Buffer.from([0x80, 0x80, 0x80, 0x80, 0x61, 0xff]);
  expect(withoutCutStart(bytes)).toEqual(Buffer.from([0x80, 0x61, 0xff]));
  expect(withoutCutEnd(Buffer.from([0x61, 0x80, 0x80, 0x80]))).toEqual(Buffer.from([0x61, 0x80, 0x80, 0x80]));
  expect(withoutCutEnd(Buffer.from("a€").subarray(0, 3))).toEqual(Buffer.from("a"));
});

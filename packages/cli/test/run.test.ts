// `marling run` as a process: section Run of SPEC.md.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { buildCli, makeFolder, marling } from "./built-cli.ts";
import { TestTerminal } from "./terminal.ts";

vi.setConfig({ testTimeout: 60_000 });

let folder: ReturnType<typeof makeFolder>;

beforeAll(buildCli, 180_000);

beforeEach(() => {
  folder = makeFolder();
  writeFileSync(join(folder.path, "poem.md"), "roses are red\n");
});

afterEach(() => folder.close());

const run = (args: readonly string[], more: Partial<Parameters<typeof marling>[1]> = {}) =>
  marling(["run", ...args], { cwd: folder.path, ...more });

test("[RU1] stdout has the words of the model and nothing else; activity goes to stderr", async () => {
  const { code, stdout, stderr } = await run(["count words in poem.md"]);
  expect(code).toBe(0);
  expect(stdout).toBe("poem.md has 3 words.\n");
  expect(stderr).toContain("model: the demo agent, which is a script");
  expect(stderr).toContain("→ count_words poem.md\n");
  expect(stderr).not.toContain("\x1b");
});

test("[RU1] what is piped in is the input, or is added to it", async () => {
  const alone = await run([], { input: "calculate 20 + 1\n" });
  expect(alone.stdout).toBe("20 + 1 is 21.\n");
  const added = await run(["--session", "both", "remember"], { input: "tea is green" });
  expect(added.stdout).toContain("I will remember: tea is green");
});

test("[RU1] --json prints every event as a line, and the report last", async () => {
  const { stdout, code } = await run(["--json", "calculate 1 + 1"]);
  const lines = stdout
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { kind: string });
  expect(code).toBe(0);
  expect(lines[0]?.kind).toBe("turn_started");
  expect(lines.map(({ kind }) => kind)).toContain("tool_finished");
  expect(lines.at(-1)).toMatchObject({ kind: "report", text: "1 + 1 is 2.", outcome: { kind: "finished" } });
});

test("[RU1] sessions go on: the next run knows what the first was told", async () => {
  await run(["--session", "s", "remember that tea is green"]);
  const { stdout } = await run(["--session", "s", "what do you remember?"]);
  expect(stdout).toContain("- tea is green");
});

test("[RU2] without a terminal a call that asks is denied with a sentence", async () => {
  const { code, stderr, stdout } = await run(["note buy tea"]);
  expect(code).toBe(0);
  expect(stderr).toContain("Nobody can be asked");
  expect(stdout).toContain("That did not work");
  expect(existsSync(join(folder.path, ".marling", "notes.md"))).toBe(false);
});

test("[RU2] --yes lets it run, --approve none lets nothing run that asks", async () => {
  await run(["--yes", "note one"]);
  await run(["--approve", "all", "note two"]);
  const { stdout } = await run(["--approve", "none", "note three"]);
  expect(stdout).toContain("That did not work");
  expect(readFileSync(join(folder.path, ".marling", "notes.md"), "utf8")).toBe("one\ntwo\n");
});

test("[RU2] on a terminal it asks, and anything but y is a no", async () => {
  for (const [answer, notes] of [
    ["n", undefined],
    ["y", "buy tea\n"],
  ] as const) {
    const terminal = new TestTerminal(["run", "note buy tea"], { cwd: folder.path });
    try {
      await terminal.until("allow it? [y/N]");
      expect(terminal.text()).toContain("? write_note asks for permission\n    text: buy tea");
      terminal.type(`${answer}\r`);
      expect(await terminal.exited()).toBe(0);
      const file = join(folder.path, ".marling", "notes.md");
      expect(existsSync(file) ? readFileSync(file, "utf8") : undefined).toBe(notes);
    } finally {
      await terminal.close();
    }
  }
});

test("[RU3] SIGINT cancels the turn for good, with exit code 130", async () => {
  const { code, stderr } = await run(["--session", "s", "work slowly"], {
    when: ["part 1 of 3", (pid) => process.kill(pid, "SIGINT")],
  });
  expect(code).toBe(130);
  expect(stderr).toContain("stopped: cancelled");
  const recovered = await marling(["recover"], { cwd: folder.path });
  expect(recovered.stdout).toBe("nothing to recover\n");
});

test("[RU4] exit codes: 1 for a turn that stopped, 2 for a wrong call, 3 for what failed", async () => {
  const stopped = await run(["--max-turns", "1", "work slowly"], { env: { MARLING_DEMO_STEP_MS: "30" } });
  expect(stopped.code).toBe(1);
  expect(stopped.stderr).toContain("stopped: max_turns");
  expect((await run([])).code).toBe(2);
  expect((await run(["--bogus", "hello"])).code).toBe(2);
  writeFileSync(join(folder.path, "file"), "");
  expect((await run(["--store", "file/x.db", "hello"])).code).toBe(3);
});

test("[TR3] escapes in what a tool returns reach neither stdout nor stderr", async () => {
  writeFileSync(join(folder.path, "evil.txt"), "a\x1b]0;owned\x07b\x1b[2Jc\u009b5md");
  const { stdout, stderr } = await run(["read evil.txt"]);
  expect(stdout).toContain("abcd");
  for (const text of [stdout, stderr]) {
    expect(text).not.toContain("\x1b");
    expect(text).not.toContain("\u009b");
    expect(text).not.toContain("owned");
  }
  const json = await run(["--json", "read evil.txt"]);
  expect(json.stdout).not.toContain("\x1b");
  expect(json.stdout).not.toContain("\u009b");
});

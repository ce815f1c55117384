// The commands beside chat and run, their help and their errors: sections Command line and Store of SPEC.md.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { COMMANDS } from "../src/commands/index.ts";
import { FLAGS } from "../src/flags.ts";
import { commandHelp, overview } from "../src/help.ts";
import { buildCli, makeFolder, marling } from "./built-cli.ts";

vi.setConfig({ testTimeout: 60_000 });

let folder: ReturnType<typeof makeFolder>;

beforeAll(buildCli, 180_000);

beforeEach(() => {
  folder = makeFolder();
});

afterEach(() => folder.close());

const run = (args: readonly string[], env: Record<string, string> = {}) =>
  marling(args, { cwd: folder.path, env });

test("[CL2] every command is in the overview and has a help with its options", () => {
  const all = overview(COMMANDS);
  for (const command of COMMANDS) {
    expect(all).toContain(`\n  ${command.name}`);
    const help = commandHelp(command);
    expect(help).toContain(`Usage: marling ${command.name}`);
    for (const name of command.flags)
      expect(help).toMatch(new RegExp(`--${name}\\b.*${FLAGS[name].help.slice(0, 12)}`));
    expect(help).toContain("-h, --help");
    for (const line of help.split("\n")) expect(line.length, line).toBeLessThanOrEqual(140);
  }
});

test("[CL2] every option belongs to a command, or to marling itself", () => {
  const used = new Set(COMMANDS.flatMap(({ flags }) => flags as readonly string[]));
  const own = ["help", "version"];
  expect(Object.keys(FLAGS).filter((name) => !used.has(name) && !own.includes(name))).toEqual([]);
});

test("[CL2] --help, help and --version answer without a store, a key or a terminal", async () => {
  expect((await run(["--help"])).stdout).toBe(overview(COMMANDS));
  expect((await run(["help", "run"])).stdout).toContain("Exit codes: 0 finished");
  expect((await run(["chat", "--help", "--model", "x"])).stdout).toContain("--resume");
  expect((await run(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test("[CL1] what is wrong with a call is one sentence with its code, and exit code 2", async () => {
  const cases: readonly (readonly [args: readonly string[], words: string])[] = [
    [["nope"], "unknown command nope; expected chat, run,"],
    [["sessions", "--model", "x"], "unknown option --model; expected --json, --store, --config, --help"],
    [["run", "--model"], "option --model: expected a value, found none"],
    [["sessions", "extra"], "expected no arguments, found extra"],
    [["show"], "expected the name of a session, found none"],
    [["fork", "a"], "expected --as <name>, found none"],
    [["chat"], "expected a terminal, found none; `marling run` needs none"],
    [["trace"], "expected a trace file, found none"],
    [["run", "--json=yes", "x"], "option --json: expected no value, found one"],
    [["sessions"], "expected a file, found none; `marling chat` makes one"],
  ];
  for (const [args, words] of cases) {
    const { code, stderr, stdout } = await run(args);
    expect(stderr, args.join(" ")).toContain(words);
    expect(stderr).toMatch(/^error .*\[invalid_options\] See `marling .*--help`\.\n$/);
    expect([code, stdout]).toEqual([2, ""]);
  }
});

test("[CL3] other errors have their code and advice, and exit code 3", async () => {
  mkdirSync(join(folder.path, ".marling"));
  writeFileSync(join(folder.path, ".marling", "marling.db"), "no database");
  const foreign = await run(["sessions"]);
  expect(foreign.stderr).toMatch(/^error .*\[store_\w+\] .*\n$/);
  expect(foreign.stderr).not.toContain("    at ");
  expect(foreign.code).toBe(3);
  const key = await run(["run", "--model", "anthropic/x", "hi"]);
  expect(key.stderr).toContain(
    "expected ANTHROPIC_API_KEY in the environment, found none. [provider_unconfigured]",
  );
});

test("[SS1] sessions are listed, shown, forked and deleted without running anything", async () => {
  await run(["run", "--session", "a", "calculate 2 + 3"]);
  const list = await run(["sessions"]);
  expect(list.stdout).toBe("a           1 turn\n");
  const json = await run(["sessions", "--json"]);
  expect(JSON.parse(json.stdout)).toMatchObject({ id: "a", turnIndex: 1, unfinished: 0 });
  const shown = await run(["show", "a"]);
  expect(shown.stdout).toMatch(/^› calculate 2 \+ 3\n\n {2}→ calculate .*\n\n {2}2 \+ 3 is 5\.\n/);
  const lines = (await run(["show", "a", "--json"])).stdout.trimEnd().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as { role: string }).role)).toEqual([
    "user",
    "assistant",
    "tool",
    "assistant",
  ]);
  expect((await run(["fork", "a", "--as", "b"])).stdout).toBe("b\n");
  expect((await run(["delete", "a"])).stdout).toBe("deleted a\n");
  expect((await run(["sessions"])).stdout).toBe("b           1 turn\n");
  const gone = await run(["show", "a"]);
  expect(gone.stderr).toMatch(/\[(unknown_session|session_deleted)\]/);
});

test("[SE2] marling trust trusts the folder it is run in", async () => {
  writeFileSync(join(folder.path, "marling.config.json"), JSON.stringify({ approve: "all" }));
  expect((await run(["run", "note one"])).stderr).toContain("this folder is not trusted");
  expect((await run(["trust"])).stdout).toBe(`${folder.path} is trusted\n`);
  expect((await run(["run", "note two"])).stderr).not.toContain("not trusted");
  expect(readFileSync(join(folder.path, ".marling", "notes.md"), "utf8")).toBe("two\n");
});

test("[TC1] --trace writes a file that marling trace makes a page of", async () => {
  await run(["run", "--trace", "t.jsonl", "calculate 1 + 1"]);
  const { stdout, code } = await run(["trace", "t.jsonl", "-o", "page.html"]);
  expect(stdout).toMatch(/^\d+ records in .*page\.html\n$/);
  expect(code).toBe(0);
  expect(readFileSync(join(folder.path, "page.html"), "utf8")).toContain("calculate");
});

test("[TO1] the tour kills a process, finishes its turn in another, and counts that everything ran once", async () => {
  const { code, stdout } = await run(["tour"]);
  expect(stdout).toMatch(/kill -9 \d+\./);
  expect(stdout).toMatch(/weigh_parcel +1 +0 +1 /);
  expect(stdout).toMatch(/model call 2 +1 +0 +1 /);
  expect(stdout).toMatch(/print_label +0 +1 +1 /);
  expect(stdout).toMatch(/tell_customer +1 +0 +1 /);
  expect(stdout).toContain("The turn is finished, in one commit");
  expect(code).toBe(0);
  expect(linesFromKill(stdout)).toEqual(linesFromKill(shownInReadme()));
});

/** What the README shows of the tour. */
function shownInReadme(): string {
  const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");
  return /<!-- tour -->\n```text\n(.*?)```/s.exec(readme)?.[1] ?? "nothing";
}

/** The lines from the kill to the end of the table; tools that run at once speak in any order, and pids differ. */
function linesFromKill(text: string): readonly string[] {
  const from = text.slice(text.indexOf("2 Both tools")).split("\nNext:")[0] ?? "";
  return from
    .replace(/kill -9 \d+/, "kill -9 0")
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .sort();
}

// A chat that is killed and resumed: section Chat of SPEC.md.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { buildCli, makeFolder, marling } from "./built-cli.ts";
import { TestTerminal } from "./terminal.ts";

vi.setConfig({ testTimeout: 60_000 });

let folder: ReturnType<typeof makeFolder>;
let open: TestTerminal[] = [];

beforeAll(buildCli, 180_000);

beforeEach(() => {
  folder = makeFolder();
});

afterEach(async () => {
  for (const terminal of open) await terminal.close();
  open = [];
  folder.close();
});

function chat(...args: readonly string[]): TestTerminal {
  const terminal = new TestTerminal(["chat", ...args], {
    cwd: folder.path,
    env: { MARLING_DEMO_STEP_MS: "900" },
  });
  open.push(terminal);
  return terminal;
}

async function killed(terminal: TestTerminal): Promise<void> {
  terminal.kill();
  await terminal.exited();
}

test("[CH6] after kill -9, --resume finishes the turn that was interrupted and shows it", async () => {
  const first = chat("--session", "work");
  await first.until("say something");
  first.type("work slowly 3\r");
  await first.until("step 2 of 3, part 1 of 3");
  await killed(first);
  const second = chat("--resume");
  const text = await second.until("Done: 3 steps of slow work.");
  expect(text).toContain("session work");
  expect(text).toContain("› work slowly 3 (interrupted, goes on)");
  expect(text).toMatch(/● slow_work step: 1, of: 3.*\n {4}step 1 of 3 is done/);
  await second.until(/4 model calls · 3 tool calls/);
  second.type("calculate 2 * 2\r");
  await second.until("2 * 2 is 4.");
});

test("[CH6] what was queued before a kill follows the turn that was interrupted", async () => {
  const first = chat("--session", "work");
  await first.until("say something");
  first.type("work slowly 1\r");
  await first.until("part 1 of 3");
  first.type("calculate 3 * 3\t");
  await first.until("next: calculate 3 * 3");
  await sleep(300);
  await killed(first);
  const text = await chat("--resume", "work").until("3 * 3 is 9.");
  expect(text.indexOf("Done: 1 step")).toBeLessThan(text.indexOf("› calculate 3 * 3"));
});

test("[CH6] a call that asked before a kill asks again, and runs once", async () => {
  const first = chat("--session", "notes");
  await first.until("say something");
  first.type("note buy tea\r");
  await first.until("allow write_note?");
  await killed(first);
  const second = chat("--resume", "notes");
  await second.until("allow write_note?");
  expect(existsSync(join(folder.path, ".marling", "notes.md"))).toBe(false);
  second.type("y\r");
  await second.until(/2 model calls · 1 tool call/);
  expect(readFileSync(join(folder.path, ".marling", "notes.md"), "utf8")).toBe("buy tea\n");
});

test("[CH2] quitting in the middle of a turn waits for nothing, and the turn goes on when it is resumed", async () => {
  const first = chat("--session", "work");
  await first.until("say something");
  first.type("work slowly 2\r");
  await first.until("part 1 of 3");
  first.type("/quit\r");
  expect(await first.exited()).toBe(0);
  await first.until("The turn goes on when you resume. marling chat --resume work");
  await chat("--resume", "work").until("Done: 2 steps of slow work.");
});

test("[CH6] marling recover finishes what a chat has left, without a terminal", async () => {
  const first = chat("--session", "work");
  await first.until("say something");
  first.type("work slowly 1\r");
  await first.until("part 1 of 3");
  await killed(first);
  const before = await marling(["sessions"], { cwd: folder.path });
  expect(before.stdout).toMatch(/^work +0 turns {2}1 input unfinished\n$/);
  const { code, stdout } = await marling(["recover"], { cwd: folder.path });
  expect(stdout).toBe("finished work:turn:1 of work\n");
  expect(code).toBe(0);
  const after = await marling(["show", "work"], { cwd: folder.path });
  expect(after.stdout).toContain("Done: 1 step of slow work.");
});

test("[CH6] --resume without a session, or with one that is not there, says so", async () => {
  const none = chat("--resume");
  expect(await none.exited()).toBe(2);
  await none.until("[invalid_options]");
  const wrong = chat("--resume", "nobody");
  expect(await wrong.exited()).toBe(3);
  await wrong.until("session nobody: expected one that exists");
});

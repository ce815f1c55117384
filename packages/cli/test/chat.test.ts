// Chatting in a real terminal: sections Chat and Transcript of SPEC.md.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { buildCli, makeFolder } from "./built-cli.ts";
import { type TerminalOptions, TestTerminal } from "./terminal.ts";

const ENTER = "\r";
const TAB = "\t";
const ESC = "\x1b";
const CTRL_C = "\x03";

vi.setConfig({ testTimeout: 60_000 });

let folder: ReturnType<typeof makeFolder>;
let open: TestTerminal[] = [];

beforeAll(buildCli, 180_000);

beforeEach(() => {
  folder = makeFolder();
  writeFileSync(join(folder.path, "poem.md"), "roses are red\n");
});

afterEach(async () => {
  for (const terminal of open) await terminal.close();
  open = [];
  folder.close();
});

async function chat(
  args: readonly string[] = [],
  options: Partial<TerminalOptions> = {},
): Promise<TestTerminal> {
  const terminal = new TestTerminal(["chat", ...args], { cwd: folder.path, ...options });
  open.push(terminal);
  await terminal.until("say something");
  return terminal;
}

const occurrences = (text: string, words: string): number => text.split(words).length - 1;

test("[CH1] an answer streams with its reasoning, its tools and what it used", async () => {
  const terminal = await chat();
  terminal.type(`count words in poem.md${ENTER}`);
  const text = await terminal.until(/\d+ in · \d+ out · 2 model calls · 1 tool call/);
  expect(text).toContain("the demo agent, which is a script");
  expect(text).toMatch(/› count words in poem\.md\n\n {2}The words in poem\.md: the tool can count them\.\n/);
  expect(text).toMatch(
    / {2}● count_words poem\.md\n {4}poem\.md has 3 words\.\n\n {2}poem\.md has 3 words\.\n/,
  );
});

test("[CH1] Enter steers the turn that runs, which takes it up at its next step", async () => {
  const terminal = await chat([], { env: { MARLING_DEMO_STEP_MS: "600" } });
  terminal.type(`work slowly${ENTER}`);
  await terminal.until("part 1 of 3");
  terminal.type(`only 2 please${ENTER}`);
  const text = await terminal.until('You said meanwhile: "only 2 please"');
  expect(text).toContain("› only 2 please (taken up)");
  expect(text).toContain("Done: 2 steps of slow work.");
  expect(text).not.toContain("step 3 of");
});

test("[CH1] Tab queues for the next turn, which begins when this one is over", async () => {
  const terminal = await chat([], { env: { MARLING_DEMO_STEP_MS: "300" } });
  terminal.type(`work slowly 1${ENTER}`);
  await terminal.until("part 1 of 3");
  terminal.type(`calculate 6 * 7${TAB}`);
  await terminal.until("next: calculate 6 * 7");
  const text = await terminal.until("6 * 7 is 42.");
  expect(text.indexOf("Done: 1 step")).toBeLessThan(text.indexOf("› calculate 6 * 7"));
  expect(text).not.toContain("(taken up)");
});

test("[CH1] Esc cancels the turn that runs, and the chat goes on", async () => {
  const terminal = await chat();
  terminal.type(`work slowly${ENTER}`);
  await terminal.until("part 1 of 3");
  terminal.type(ESC);
  await terminal.until(/\n {2}cancelled\n/);
  terminal.type(`calculate 1 + 1${ENTER}`);
  await terminal.until("1 + 1 is 2.");
});

test("[CH1] Ctrl-C cancels, and quits when it comes twice", async () => {
  const terminal = await chat();
  terminal.type(`work slowly${ENTER}`);
  await terminal.until("part 1 of 3");
  terminal.type(CTRL_C);
  await terminal.until(/\n {2}cancelled\n/);
  await terminal.until("Ctrl-C again quits");
  terminal.type(CTRL_C);
  expect(await terminal.exited()).toBe(0);
  await terminal.until(/marling chat --resume chat-\d{8}-\d{6}-[0-9a-f]{4}$/);
});

test("[CH2] SIGTERM leaves the terminal as it was", async () => {
  const terminal = await chat(["--session", "s"]);
  process.kill(terminal.pid, "SIGTERM");
  expect(await terminal.exited()).toBe(0);
  await terminal.until("marling chat --resume s");
  expect(terminal.raw.lastIndexOf("\x1b[?2004l")).toBeGreaterThan(terminal.raw.lastIndexOf("\x1b[?2004h"));
});

test("[CH3] a call that asks shows its tool and arguments, and runs after y", async () => {
  const terminal = await chat();
  terminal.type(`note buy tea${ENTER}`);
  const asked = await terminal.until("allow write_note?");
  expect(asked).toContain("? write_note asks for permission\n      text: buy tea");
  expect(existsSync(join(folder.path, ".marling", "notes.md"))).toBe(false);
  terminal.type(`y${ENTER}`);
  const text = await terminal.until("Noted in .marling/notes.md.\n\n  Noted");
  expect(readFileSync(join(folder.path, ".marling", "notes.md"), "utf8")).toBe("buy tea\n");
  expect(occurrences(text, "This writes a file, so I have to ask.")).toBe(1);
});

test("[CH3] n denies the call, and nothing happens", async () => {
  const terminal = await chat();
  terminal.type(`note buy tea${ENTER}`);
  await terminal.until("allow write_note?");
  terminal.type(`n${ENTER}`);
  const text = await terminal.until(/1 tool call/);
  expect(text).toContain("The user denied the call.");
  expect(existsSync(join(folder.path, ".marling", "notes.md"))).toBe(false);
});

test("[CH3] a allows the tool from now on", async () => {
  const terminal = await chat();
  terminal.type(`note one${ENTER}`);
  await terminal.until("allow write_note?");
  terminal.type(`a${ENTER}`);
  await terminal.until(/1 tool call/);
  terminal.type(`note two${ENTER}`);
  await terminal.until((text) => occurrences(text, "1 tool call") === 2);
  expect(readFileSync(join(folder.path, ".marling", "notes.md"), "utf8")).toBe("one\ntwo\n");
});

test("[CH4] slash commands list, show and explain; one that is not there says so", async () => {
  const terminal = await chat();
  terminal.type(`/help${ENTER}`);
  await terminal.until("/compact [what to keep]");
  terminal.type(`/tools${ENTER}`);
  await terminal.until("Counts the words of a file.");
  terminal.type(`/usage${ENTER}`);
  await terminal.until("Nothing was used so far.");
  terminal.type(`/model${ENTER}`);
  await terminal.until("The model is the demo agent");
  terminal.type(`/nonsense${ENTER}`);
  await terminal.until("There is no /nonsense");
});

test("[CH4] /fork goes on in a copy, and the session it came from stays as it was", async () => {
  const terminal = await chat(["--session", "first"]);
  terminal.type(`remember that tea is green${ENTER}`);
  await terminal.until(/1 tool call/);
  terminal.type(`/fork second${ENTER}`);
  await terminal.until("This is second now, a fork.");
  terminal.type(`what do you remember?${ENTER}`);
  await terminal.until((text) => occurrences(text, "1 tool call") === 2);
  terminal.type(`/sessions${ENTER}`);
  await terminal.until("* second  2 turns");
  expect(terminal.text()).toContain("  first  1 turn");
});

test("[CH5] text of many bytes, a paste and the history of the line arrive as they are", async () => {
  const terminal = await chat();
  terminal.type("remember that ");
  const bytes = Buffer.from("日本のお茶 🍵 née");
  terminal.type(bytes.toString("utf8"));
  await terminal.until("日本のお茶 🍵 née");
  terminal.type(`\x7f\x7f${ENTER}`);
  const told = await terminal.until("1 tool call");
  expect(told).toContain("I will remember: 日本のお茶 🍵 n\n");
  terminal.type("\x1b[200~first line\rlist files\x1b[201~");
  const text = await terminal.until("› first line\n  list files");
  expect(text).not.toContain("● list_files");
  terminal.type("\x15\x1b[200~a\x1b]0;owned\x07b\x1b[201~");
  await terminal.until(/› ab$/);
  expect(terminal.raw).not.toContain("owned");
  terminal.type("\x15\x1b[A");
  await terminal.until(/› remember that 日本のお茶 🍵 n$/);
});

test("[SC3] rows are neither doubled nor left behind when a line wraps or the terminal is resized", async () => {
  const terminal = await chat([], { columns: 60, rows: 20 });
  const written = "0123456789".repeat(14);
  const once = (text: string): boolean => occurrences(text.replaceAll(/\n {2}/g, ""), written) === 1;
  terminal.type(written);
  await terminal.until(once);
  for (const columns of [40, 33, 90]) {
    terminal.resize(columns, 20);
    await terminal.until((text) => once(text) && text.replaceAll(/\D/g, "").endsWith(written));
    expect(occurrences(terminal.text(), "›")).toBe(1);
  }
  terminal.type("\x15");
  const text = await terminal.until("say something");
  expect(text).not.toContain("0123");
});

test("[TR3] escapes in what tools return never reach the terminal", async () => {
  writeFileSync(join(folder.path, "evil.txt"), "a\x1b]0;owned\x07b\x1b[2Jc\x1b[31md\u009b5me");
  const terminal = await chat();
  terminal.type(`read evil.txt${ENTER}`);
  await terminal.until(/It begins like this:\n\n {4}abcde\n/);
  expect(terminal.raw).not.toContain("owned");
  expect(terminal.raw).not.toContain("\x1b[2Jc");
});

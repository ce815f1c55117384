// Kill -9 at every boundary: the store, the model, tools and hooks, found by wrapping them from outside.
// After each kill a new process recovers; the end must be that of the run that nobody interrupted, and nothing that
// was finished and written may have run again.

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";

const CHILD = fileURLToPath(new URL("./child.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "marling-crash-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Life {
  readonly killed: boolean;
  readonly boundaries: number;
  readonly end: Record<string, unknown> | undefined;
  readonly stderr: string;
}

function live(scenario: string, run: string, killAt: number): Promise<Life> {
  const path = join(folder, `${run}.db`);
  const log = join(folder, `${run}.log`);
  return new Promise((resolve) => {
    execFile(process.execPath, [CHILD, scenario, path, log, String(killAt)], (error, stdout, stderr) => {
      const killed = (error as { signal?: string } | null)?.signal === "SIGKILL";
      const said =
        stdout === ""
          ? undefined
          : (JSON.parse(stdout) as { boundaries: number; end: Record<string, unknown> });
      resolve({ killed, boundaries: said?.boundaries ?? 0, end: said?.end, stderr });
    });
  });
}

const logOf = (run: string): readonly string[] =>
  readFileSync(join(folder, `${run}.log`), "utf8")
    .trim()
    .split("\n");

/** Effects that ran again although they were finished, and written by something that came after. */
function repeated(lines: readonly string[]): readonly string[] {
  const finished = new Set<string>();
  const written = new Set<string>();
  const again: string[] = [];
  for (const line of lines) {
    const [verb, ...rest] = line.split(" ");
    const effect = rest.join(" ");
    if (verb === "life") finished.clear(); // what the killed process knew and had not written is gone with it
    if (verb === "done") finished.add(effect);
    if (verb === "written") for (const one of finished) written.add(one);
    if (verb === "call" && written.has(effect)) again.push(effect);
  }
  return again;
}

const unsafeTwice = (lines: readonly string[]): readonly string[] => {
  const calls = lines.filter((line) => line.startsWith("call unsafe"));
  return calls.filter((line, index) => calls.indexOf(line) !== index);
};

const outcomeIsUnknown = (end: unknown): boolean =>
  JSON.stringify(end).includes("was interrupted. It may have taken effect");

async function killEverywhere(scenario: string): Promise<number> {
  const whole = await live(scenario, scenario, 0);
  expect(whole.stderr).toBe("");
  expect(repeated(logOf(scenario))).toEqual([]);
  const points = Array.from({ length: whole.boundaries }, (_, index) => index + 1);
  await Promise.all(
    [0, 1].map((lane) =>
      killAtEach(
        scenario,
        points.filter((point) => point % 2 === lane),
        whole,
      ),
    ),
  );
  return points.length;
}

async function killAtEach(scenario: string, points: readonly number[], whole: Life): Promise<void> {
  for (const point of points) {
    const run = `${scenario}-${point}`;
    const first = await live(scenario, run, point);
    expect(first.killed, `boundary ${point} of ${scenario}`).toBe(true);
    const second = await live(scenario, run, 0);
    expect(second.stderr, `after boundary ${point} of ${scenario}`).toBe("");
    expect(repeated(logOf(run)), `after boundary ${point} of ${scenario}`).toEqual([]);
    expect(unsafeTwice(logOf(run)), `after boundary ${point} of ${scenario}`).toEqual([]);
    if (!outcomeIsUnknown(second.end))
      expect(second.end, `after boundary ${point} of ${scenario}`).toEqual(whole.end);
  }
}

test.each([
  ["text", 20],
  ["tools", 60],
  ["mixed", 30],
  ["hooks", 50],
  ["frames", 30],
  ["retries", 15],
])(
  "a process killed at any boundary of the scenario %s is recovered to the same end",
  async (scenario, least) => {
    expect(await killEverywhere(scenario)).toBeGreaterThanOrEqual(least);
  },
  300_000,
);

test("[RV1] a turn that kills its process every time is ended by its fourth recovery, and the session goes on", async () => {
  const lives: Life[] = [];
  for (let life = 0; life < 5; life += 1) lives.push(await live("poison", "poison", 0));
  expect(lives.map(({ killed }) => killed)).toEqual([true, true, true, true, false]);
  const last = lives[4] as Life;
  expect(last.stderr).toBe("");
  const { messages, turnIndex } = last.end as {
    messages: { role: string; parts: { text: string }[] }[];
    turnIndex: number;
  };
  expect(messages.map(({ role, parts }) => [role, parts[0]?.text])).toEqual([
    ["user", "go"],
    ["user", "go on"],
    ["assistant", "fine again"],
  ]);
  expect(turnIndex).toBe(2);
}, 60_000);

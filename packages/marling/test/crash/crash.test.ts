// Kill -9 at the boundaries of every scenario: the store, the SQL commit, the model's bytes, tools, hooks, publishing.
// After each kill a new process recovers; the end must be that of the run that nobody interrupted, and nothing that was
// finished and written may have run again.
//
// Which boundaries are tried is in sample.ts.

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { crashAtEveryEffect } from "marling/testing";
import { expect, onTestFinished, test } from "vitest";
import { boundaries, shareOf, TRIED } from "./sample.ts";

/** One boundary of so many is in a sample. */
const OF = 5;

let kills = 0;

/** Each scenario, and how often it must be killed at least when no boundary is left out. */
test.each([
  ["text", 10],
  ["tools", 40],
  ["mixed", 26],
  ["hooks", 50],
  ["answers", 20],
  ["frames", 25],
  ["listening", 30],
  ["beside", 20],
  ["requested", 20],
  ["retries", 16],
  ["compaction", 14],
  ["carried", 18],
  ["fork", 18],
  ["command", 12],
  ["completion", 14],
  ["timer", 18],
  ["sleeping", 26],
  ["injected", 14],
  ["cancelled", 14],
  ["child", 40],
  ["family", 40],
  ["sleeping-child", 20],
  ["task", 14],
  ["approval", 14],
  ["authorize", 8],
  ["unbound", 14],
  ["retired", 20],
  ["monitor", 14],
  ["trigger", 20],
  ["nested", 40],
  ["tenants", 20],
])(
  `a process killed at any boundary of the scenario %s is recovered to the same end (${TRIED})`,
  async (name, least) => {
    const scenario = new URL(`./scenarios/${name}.mjs`, import.meta.url);
    const report = await crashAtEveryEffect(scenario, boundaries(OF));
    expect(report.failures).toEqual([]);
    // Timing decides whether a boundary is come to; of few, one is already more than a twentieth.
    expect(report.missed.length).toBeLessThanOrEqual(Math.max(2, report.kills / 20));
    expect(report.kills + report.missed.length).toBeGreaterThanOrEqual(shareOf(least, OF));
    kills += report.kills;
  },
  900_000,
);

test("[SL14] a process killed around the commit that stores all of the head is recovered to the same end", async () => {
  const around =
    /^(before|after) (sql COMMIT #1(2[6-9]|3[0-7])|(store\.(admit|commit)|model (call|bytes)) #6[3-8])$/;
  const report = await crashAtEveryEffect(new URL("./scenarios/long.mjs", import.meta.url), {
    distinct: true,
    only: around,
  });
  expect(report.missed).toEqual([]);
  expect(report.kills).toBeGreaterThanOrEqual(16);
  kills += report.kills;
}, 900_000);

test("[RV3] processes killed again and again at one boundary keep what had finished", async () => {
  const report = await crashAtEveryEffect(new URL("./scenarios/ended.mjs", import.meta.url), {
    ...boundaries(OF),
    repeat: 6,
  });
  expect(report.kills).toBeGreaterThanOrEqual(shareOf(16, OF));
  expect(report.lives).toBeGreaterThan(report.kills * 3);
  kills += report.kills;
}, 900_000);

test("they are killed at 300 boundaries or more, or at their share in a sample", () => {
  expect(kills).toBeGreaterThanOrEqual(shareOf(300, OF));
});

interface Life {
  readonly isKilled: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

function live(program: string, path: string): Promise<Life> {
  const file = fileURLToPath(new URL(program, import.meta.url));
  return new Promise((resolve) => {
    execFile(process.execPath, [file, path], (error, stdout, stderr) => {
      resolve({ isKilled: error?.signal === "SIGKILL", stdout, stderr });
    });
  });
}

test("[RV1] a turn that kills its process every time is ended by its fourth recovery, and the session goes on", async () => {
  const folder = mkdtempSync(join(tmpdir(), "marling-poison-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const lives: Life[] = [];
  for (let life = 0; life < 5; life += 1) lives.push(await live("./poison.mjs", join(folder, "poison.db")));
  expect(lives.map(({ isKilled }) => isKilled)).toEqual([true, true, true, true, false]);
  const last = lives[4] as Life;
  expect(last.stderr).toBe("");
  expect(JSON.parse(last.stdout)).toEqual({
    said: [
      ["user", "go"],
      ["assistant", ""],
      ["tool", expect.stringContaining("It may have taken effect")],
      ["user", "go on"],
      ["assistant", "fine again"],
    ],
    turnIndex: 2,
  });
}, 60_000);

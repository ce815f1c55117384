// Commands that do not behave, under a whole runtime: nothing of them is left when it is closed.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { say } from "marling/testing";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { folder, isRunning } from "../work/monitor-support.ts";
import { BACKINGS, live } from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";
import { monitorOf } from "./work-support.ts";

vi.setConfig({ testTimeout: 60_000 });

const WAIT = { timeout: 30_000 };

/** Commands that write the ids of all their processes to `$PIDS`, and how many those are. */
const COMMANDS = {
  deaf: ["trap '' TERM; echo $$ >> $PIDS; while :; do sleep 1; done", 1],
  forking: [
    "for n in 1 2 3; do (trap '' TERM; exec sleep 600) & echo $! >> $PIDS; done; echo $$ >> $PIDS; wait",
    4,
  ],
  brief: ["echo $$ >> $PIDS; exit 3", 1],
  leaving: ["sleep 600 & echo $! >> $PIDS; echo $$ >> $PIDS; exit 0", 2],
  flood: ["echo $$ >> $PIDS; yes flood", 1],
} as const;

function pidsIn(file: string): readonly number[] {
  return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n").map(Number) : [];
}

/** Whatever a test leaves is ended. */
function endAfterwards(file: string): void {
  onTestFinished(() => {
    for (const pid of pidsIn(file).filter(isRunning)) process.kill(pid, "SIGKILL");
  });
}

describe.each(BACKINGS)("over $name", ({ open }) => {
  test.each(Object.entries(COMMANDS))(
    "[MO19] nothing is left of a command that is %s after runtime.close()",
    async (id, [command, count]) => {
      const pids = join(folder(), "pids");
      endAfterwards(pids);
      const { session, runtime } = await live({ store: open()(), script: () => say("seen") });
      await session.monitors.start({ id, command, env: { PIDS: pids }, persistent: true });
      await vi.waitUntil(() => pidsIn(pids).length === count, WAIT);
      await runtime.close();
      expect(pidsIn(pids).filter(isRunning)).toEqual([]);
    },
  );

  test("[MO19] nor of all of them at once, in sessions that are closed and in ones that are not", async () => {
    const file = join(folder(), "pids");
    endAfterwards(file);
    const { session, runtime } = await live({ store: open()(), script: () => say("seen") });
    const other = await runtime.session("other");
    for (const [id, [command]] of Object.entries(COMMANDS))
      for (const at of [session, other])
        await at.monitors.start({
          id,
          command,
          env: { PIDS: file },
          persistent: true,
          wakePolicy: "notify",
        });
    await vi.waitUntil(() => pidsIn(file).length === 2 * 9, WAIT);
    await other.close();
    await runtime.close();
    expect(pidsIn(file).filter(isRunning)).toEqual([]);
  });

  test("[K120] a flood is one turn after another, each for a line, and never more than one outstanding", async () => {
    const { session, runtime } = await live({ store: open()(), script: () => say("seen") });
    let most = 0;
    await session.monitors.start({ id: "m", command: "yes flood", persistent: true });
    await vi.waitUntil(async () => {
      most = Math.max(most, (await session.pending()).length);
      return session.read().turnIndex >= 5;
    }, WAIT);
    expect(most).toBeLessThanOrEqual(1);
    await session.monitors.stop("m");
    expect(await monitorOf(session, "m")).toMatchObject({ state: "stopped" });
    await runtime.close();
    expect(new Set(transcript(session))).toEqual(new Set(["system: Monitor m: flood", "assistant: seen"]));
  });
});

// Faults of the machine: each is a clear error, and afterwards the session opens with what was committed (E9).
// Disks are full and files read-only as SQLite finds them; networks fail as `faultyStore` does.

import { chmodSync, copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  createRuntime,
  defineTool,
  type MarlingError,
  type Runtime,
  type Session,
  type Store,
} from "marling";
import { sqliteStore } from "marling/sqlite";
import {
  callTool,
  callTools,
  faultyStore,
  ManualClock,
  randomFaults,
  say,
  scriptedModel,
} from "marling/testing";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { SessionId } from "../../src/model/ids.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { bytesOf, type Tap, tappedDriver } from "../store/sqlite-support.ts";
import {
  database,
  live,
  quickTool,
  type Script,
  type Tool,
  unattended,
  unevenCalls,
  userTexts,
} from "./durable-support.ts";
import { transcript } from "./hooks-support.ts";
import { counter, found } from "./leases-support.ts";
import { rejectionOf } from "./tools-support.ts";

const LARGE = "x".repeat(300_000);

/** A file on a disk that can be made full, or read-only. */
function weakDisk() {
  const path = database();
  const tap: Tap = {};
  const store = (): Store => openSqliteStore({ path }, { loadDriver: () => tappedDriver(tap) });
  const before = (pragma: string): void => {
    tap.before = (sql, _values, db) => {
      if (sql === "BEGIN IMMEDIATE") db.exec(pragma);
    };
  };
  return {
    path,
    store,
    fill: () => before("PRAGMA store.max_page_count = 1"), // SQLite takes it for as many as there are.
    protect: () => before("PRAGMA query_only = 1"),
    mend: () => before("PRAGMA query_only = 0; PRAGMA store.max_page_count = 100000"),
  };
}

describe("a full disk", () => {
  const full = { code: "io_failed", advice: "retry", message: expect.stringContaining("full") };

  test("[E9] refuses an input that does not fit, and nothing of it is left", async () => {
    const disk = weakDisk();
    const { session } = await live({ store: disk.store(), script: () => say("fine") });
    await session.turn("before").result;
    disk.fill();
    const turn = session.turn(LARGE, { key: "k" });
    expect(await rejectionOf(turn.accepted)).toMatchObject(full);
    expect(await rejectionOf(turn.result)).toMatchObject(full);
    expect(await session.pending()).toEqual([]);
    disk.mend();
    expect((await session.turn("after").result).text).toBe("fine");
    expect(transcript(session)).toEqual([
      "user: before",
      "assistant: fine",
      "user: after",
      "assistant: fine",
    ]);
  });

  test.each([
    ["kept for a later run of the turn here", "safe", "here", 1, "tool: result xxx"],
    ["kept for a later run of the turn here", "unsafe", "here", 1, "tool: result xxx"],
    ["lost with the process, and a safe tool runs again", "safe", "elsewhere", 2, "tool: result done"],
    [
      "lost with the process, and an unsafe tool does not run again",
      "unsafe",
      "elsewhere",
      1,
      "tool: result [tool failed]\nThe call of work was interrupted.",
    ],
  ] as const)(
    "[E9] that has no room for a tool's outcome ends the turn, not its input: it is %s (%s)",
    async (_name, replay, where, runs, result) => {
      const disk = weakDisk();
      let ran = 0;
      const work = defineTool({
        name: "work",
        description: "Makes much.",
        input: { type: "object" },
        replay,
        execute: () => {
          ran += 1;
          if (ran === 1) disk.fill();
          return ran === 1 ? LARGE : "done";
        },
      });
      const script: Script = ({ messages }) =>
        messages.at(-1)?.role === "tool" ? say("end") : callTool("work");
      const options = { script, tools: [work], storeRetryMs: 0 };
      const first = await live({ ...options, store: disk.store() });
      const turn = first.session.turn("go", { key: "k" });
      expect(await rejectionOf(turn.result)).toMatchObject(full);
      expect(first.session.read().messages).toEqual([]);
      disk.mend();
      if (where === "elsewhere") await first.runtime.close();
      const { session, runtime } =
        where === "here" ? first : await live({ ...options, store: sqliteStore({ path: disk.path }) });
      await runtime.recover();
      expect(await session.turn("go", { key: "k" }).result).toMatchObject({ text: "end", turnId: turn.id });
      expect(transcript(session)[2]).toContain(result);
      expect(ran).toBe(runs);
      await runtime.close();
      expect(await found(disk.path)).toHaveLength(4);
    },
  );

  test("[E9] that has no room for the commit leaves the session as it was, and the turn is finished later", async () => {
    const disk = weakDisk();
    let calls = 0;
    const script: Script = () => {
      calls += 1;
      if (calls === 2) disk.fill();
      return say(calls === 2 ? LARGE : `answer ${calls}`);
    };
    const options = { script, plugins: [counter()], storeRetryMs: 0 };
    const { session, runtime } = await live({ ...options, store: disk.store() });
    await session.turn("before").result;
    const turn = session.turn("go", { key: "k" });
    expect(await rejectionOf(turn.result)).toMatchObject(full);
    expect(transcript(session)).toEqual(["user: before", "assistant: answer 1"]);
    const other = sqliteStore({ path: disk.path });
    onTestFinished(() => other.close());
    expect(await other.revision("s" as SessionId)).toBe(2);
    expect(
      await rejectionOf(session.appendNodes([{ kind: "plugin", type: "big", body: LARGE }])),
    ).toMatchObject(full);
    expect(await session.pending()).toMatchObject([{ key: "k", status: "queued" }]);
    disk.mend();
    const { resumed } = await runtime.recover();
    expect(resumed).toEqual([{ sessionId: "s", turnId: turn.id }]);
    expect(transcript(session)).toEqual([
      "user: before",
      "assistant: answer 1",
      "user: go",
      `assistant: ${LARGE}`,
    ]);
    expect(calls).toBe(2);
  });

  test("[TQ3] an input does not overtake one that a fault left", async () => {
    const disk = weakDisk();
    let calls = 0;
    const script: Script = (request) => {
      calls += 1;
      if (calls === 1) disk.fill();
      return say(calls === 1 ? LARGE : `to ${userTexts(request).at(-1)}`);
    };
    const { session } = await live({ store: disk.store(), script, storeRetryMs: 0 });
    expect(await rejectionOf(session.turn("first").result)).toMatchObject(full);
    disk.mend();
    await session.turn("second").result;
    expect(transcript(session)).toEqual([
      "user: first",
      `assistant: ${LARGE}`,
      "user: second",
      "assistant: to second",
    ]);
  });
});

describe("a file that cannot be written to", () => {
  test("[E9] is a clear error for every write, and reading goes on", async () => {
    const disk = weakDisk();
    const options = { script: () => say("fine"), plugins: [counter()], storeRetryMs: 0 };
    const { session } = await live({ ...options, store: disk.store() });
    await session.turn("before").result;
    disk.protect();
    const refused = { code: "io_failed", message: expect.stringContaining("readonly") };
    expect(await rejectionOf(session.turn("go").result)).toMatchObject(refused);
    expect(await rejectionOf(session.command("counter.add"))).toMatchObject(refused);
    expect(await rejectionOf(session.configure({ instructions: "x" }))).toMatchObject(refused);
    expect(await session.query("counter.read")).toBe(0);
    expect(session.read().policy.instructions).toBeUndefined();
    expect(transcript(session)).toEqual(["user: before", "assistant: fine"]);
    disk.mend();
    expect((await session.command("counter.add")).output).toBe(1);
    expect((await session.turn("after").result).text).toBe("fine");
  });

  test.skipIf(process.getuid?.() === 0)(
    "[E9] in a folder that cannot be written to is refused when it is opened (not for root, who may write)",
    async () => {
      const { path } = weakDisk();
      const before = await live({ store: sqliteStore({ path }), script: [say("fine")] });
      await before.session.turn("go").result;
      await before.runtime.close();
      chmodSync(path, 0o400);
      chmodSync(dirname(path), 0o500);
      onTestFinished(() => chmodSync(dirname(path), 0o700));
      const runtime = createRuntime({ store: sqliteStore({ path }) });
      onTestFinished(() => runtime.close());
      expect(await rejectionOf(runtime.session("s"))).toMatchObject({ code: "io_failed" });
    },
  );
});

test("[E9] a damaged page is `store_corrupt` where it is read, and the file is left as it is", async () => {
  const path = database();
  const { session, runtime } = await live({
    store: sqliteStore({ path }),
    script: () => say("fine ".repeat(300)),
  });
  for (let number = 0; number < 12; number += 1) await session.turn(`turn ${number}`).result;
  await runtime.close();
  const content = readFileSync(path);
  const codes = new Set<string>();
  for (let page = 1; page * 512 < content.length; page += 5) {
    const copy = join(dirname(path), `page-${page}.db`);
    copyFileSync(path, copy);
    const damaged = Buffer.from(content).fill(0xff, page * 512, (page + 1) * 512);
    writeFileSync(copy, damaged);
    const before = bytesOf(copy);
    const broken = createRuntime({ model: scriptedModel([]), store: sqliteStore({ path: copy }) });
    codes.add(
      await broken.session("s").then(
        () => "opened",
        (thrown: MarlingError) => thrown.code,
      ),
    );
    await broken.close().catch(() => undefined);
    expect(bytesOf(copy)).toBe(before);
  }
  expect([...codes].filter((code) => code !== "opened")).toEqual(["store_corrupt"]);
});

/** A clock whose wall time can be set back, as an administrator may; the rest goes on. */
class SetBackClock extends ManualClock {
  #back = 0;

  override now(): number {
    return super.now() - this.#back;
  }

  setBack(ms: number): void {
    this.#back += ms;
  }
}

test("[E11] a wall clock that goes back an hour makes no pause longer and loses no lease", async () => {
  const path = database();
  const clock = new SetBackClock({ startsAt: 10_000_000 });
  let attempts = 0;
  const flaky = defineTool({
    name: "flaky",
    description: "Is fine the third time.",
    input: { type: "object" },
    replay: "safe",
    retry: { attempts: 3, delayMs: 1000 },
    execute: () => {
      attempts += 1;
      if (attempts === 3) return "fine";
      throw Object.assign(new Error("not yet"), { retryable: true });
    },
  });
  const { session } = await live({
    store: sqliteStore({ path }),
    clock,
    leaseMs: 5000,
    script: [callTool("flaky"), say("done")],
    tools: [flaky],
  });
  const turn = session.turn("go");
  const settled = vi.fn();
  turn.result.then(settled, settled);
  await vi.waitUntil(() => attempts > 0);
  clock.setBack(3_600_000);
  for (let seconds = 0; settled.mock.calls.length === 0 && seconds < 600; seconds += 1) {
    clock.advance(500);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  expect((await turn.result).outcome).toMatchObject({ kind: "finished", text: "done" });
  const other = await live({ store: sqliteStore({ path }), script: [say("after")] });
  expect((await other.session.turn("more").result).text).toBe("after");
});

describe("a store over a bad network", () => {
  const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];

  /** Asks again, as a client does, as long as the answer is a fault of the machine. */
  async function insist<T>(ask: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await ask();
      } catch (thrown) {
        if ((thrown as MarlingError).code !== "io_failed" || attempt === 200) throw thrown;
      }
    }
  }

  const script: Script = ({ messages }) => {
    const [kind] = userTexts({ messages: messages.slice(-1) } as never)[0]?.split(" ") ?? [];
    if (kind === "pair")
      return callTools([
        ["safe", {}],
        ["unsafe", {}],
      ]);
    return kind === "safe" || kind === "unsafe" ? callTool(kind) : say("done");
  };

  /** Turns of all kinds in two sessions; returns what was accepted. */
  async function load(runtime: Runtime): Promise<readonly { session: Session; key: string; text: string }[]> {
    const sessions = await Promise.all(["one", "two"].map((id) => insist(() => runtime.session(id))));
    const wanted = sessions.flatMap((session) =>
      ["text", "safe", "unsafe", "pair", "text", "pair"].map((kind, index) => {
        const key = `${session.id} ${index}`;
        return { session, key, text: `${kind} ${key}` };
      }),
    );
    for (const { session, key, text } of wanted) {
      const accepted = await insist(async () => {
        const turn = session.turn(text, { key });
        await turn.accepted;
        return turn;
      });
      if (key.length % 2 === 0) await accepted.result.catch(() => undefined);
      else accepted.result.catch(() => undefined);
    }
    return wanted;
  }

  test.each(SEEDS)(
    "[E9] faults of the store, seed %i: every accepted input is settled once when they end",
    async (seed) => {
      const ran: string[] = [];
      const unsafe: Tool = defineTool({
        name: "unsafe",
        description: "Runs once.",
        input: { type: "object" },
        execute: (_input, { idempotencyKey }) => {
          ran.push(idempotencyKey);
          return "unsafe done";
        },
      });
      let isBad = true;
      const faults = randomFaults(seed, 0.06);
      const store = faultyStore(sqliteStore({ path: database() }), {
        fail: (method, call) => (isBad && method !== "close" ? faults(method, call) : undefined),
      });
      const { runtime } = unattended({ store, script, tools: [quickTool("safe"), unsafe] });
      const wanted = await load(runtime);
      isBad = false;
      await insist(() => runtime.recover());
      for (const { session, key, text } of wanted) {
        const report = await session.turn(text, { key }).result;
        expect([key, report.turnId]).toEqual([key, expect.stringContaining(":turn:")]);
      }
      expect(new Set(ran).size).toBe(ran.length);
      for (const session of new Set(wanted.map((one) => one.session))) {
        expect(await session.pending()).toEqual([]);
        const { messages } = session.read();
        expect(unevenCalls(messages)).toEqual([]);
        const said = transcript(session).filter((line) => line.startsWith("user: "));
        const inputs = wanted.filter((one) => one.session === session).map(({ text }) => `user: ${text}`);
        expect(said).toEqual(inputs);
        expect(session.read().turnIndex).toBe(inputs.length);
      }
    },
  );
});

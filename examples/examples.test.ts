import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ManualClock } from "marling/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { hello } from "./01-hello.ts";
import { watchATurn } from "./02-tool.ts";
import { guardedTurn } from "./04-guarded-turn.ts";
import { orderLunch } from "./05-approval-later.ts";
import { answer } from "./06-durable.ts";
import { ask, decide } from "./07-approvals.ts";
import { steer } from "./08-steer-and-observe.ts";
import { askLocal, askThroughProvider, tinyServer } from "./09-native-model.ts";
import { workIn } from "./10-files-and-shell.ts";
import { delegate } from "./11-subagents.ts";
import { watchRepository } from "./12-triggers.ts";
import { exportUntil, type World } from "./13-durable-task.ts";
import { twoCustomers } from "./14-tenants.ts";
import { remember } from "./15-mcp.ts";
import { spans, traced } from "./16-trace.ts";
import { longTalk } from "./17-compaction.ts";
import { whoAnswers } from "./18-models.ts";
import { publishOnce } from "./19-own-tool.ts";
import { watchBuilds } from "./20-monitor.ts";
import { guest } from "./21-authority.ts";

vi.setConfig({ testTimeout: 60_000 });

/** A folder that is gone after the test. */
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "marling-example-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

test("01 a session answers", async () => {
  expect(await hello()).toBe("Hello, Ada.");
});

test("02 a turn is watched while its tool runs", async () => {
  expect(await watchATurn()).toEqual(['add -> {"kind":"success","value":42}', "17 + 25 is 42.", "finished"]);
});

test("04 a guard denies a call and remembers it", async () => {
  expect(await guardedTurn()).toEqual({ text: "I could read one of the two.", denied: 1 });
});

test("05 a tool is completed later by its key", async () => {
  const text = await orderLunch((_key, complete) => void complete("confirmed"));
  expect(text).toBe("Lunch is on its way.");
});

test("06 a second process with the same key gets the stored answer", async () => {
  const path = join(folder(), "agent.db");
  expect(await answer(path, "Mail Ada.", "mail-1")).toBe("The mail is sent.");
  expect(await answer(path, "Mail Ada.", "mail-1")).toBe("The mail is sent.");
});

test("07 a call waits for a decision that another process takes", async () => {
  const path = join(folder(), "agent.db");
  expect(await ask(path)).toBe("delete_branch");
  expect(await decide(path)).toBe("The branch is gone.");
});

test("08 an input joins the turn that runs, and an observer sees it", async () => {
  expect(await steer()).toEqual(["steered", "I read 2 messages.", "committed"]);
});

test("09 a model behind an address of this machine answers", async () => {
  const { server, baseUrl } = await tinyServer(["It locks ", "every turn."]);
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  expect(await askLocal(baseUrl)).toEqual({ text: "It locks every turn.", tokens: 26 });
  expect(await askThroughProvider(baseUrl)).toBe("It locks every turn.");
});

test("10 files stay below their root, and a command that is not known is refused", async () => {
  const root = folder();
  expect(await workIn(root)).toEqual([
    "write_file: done",
    "shell: done",
    "shell: approval_denied",
    "read_file: path_outside_root",
  ]);
  expect(existsSync(join(root, "notes.md"))).toBe(true);
});

test("11 children read what they may, and their tokens are the parent's", async () => {
  const root = folder();
  mkdirSync(join(root, "docs"));
  writeFileSync(join(root, "docs", "a.md"), "alpha");
  writeFileSync(join(root, "secret.md"), "beta");
  expect(await delegate(join(folder(), "agent.db"), root)).toEqual({
    text: "It says alpha, I may not",
    used: { "subagent:reader": 60 },
  });
});

test("12 a webhook that came twice is one turn, and missed ticks are counted", async () => {
  const clock = new ManualClock({ startsAt: Date.UTC(2026, 0, 1) });
  const { statuses, messages } = await watchRepository(join(folder(), "agent.db"), clock);
  expect(statuses).toEqual([202, 200, 401]);
  const told = messages.filter(({ role }) => role === "system").map(({ parts }) => JSON.stringify(parts));
  expect(told).toEqual([
    expect.stringMatching(/Review it\..*repository\.pushed.*main/),
    expect.stringMatching(/Look around\..*interval\.tick.*2026-01-01T03:00:00.*count\W+2/),
  ]);
});

test("13 a task goes on with what its finished step came to", async () => {
  const path = join(folder(), "agent.db");
  const done: string[] = [];
  const keys = new Set<string>();
  const world = (upload: World["upload"]): World => ({
    collect: () => {
      done.push("collect");
      return ["a", "b"];
    },
    upload: (rows, options) => {
      done.push("upload");
      keys.add(options.idempotencyKey);
      return upload(rows, options);
    },
  });
  const hangs = world(
    (_rows, { signal }) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  );
  const cut = await exportUntil(path, hangs, ({ progress }) => progress !== undefined);
  expect(cut?.state).toBe("running");
  const works = world(async (rows) => `${rows.join()}.csv`);
  const task = await exportUntil(path, works, ({ state }) => state === "completed");
  expect(task).toMatchObject({ attempt: 2, result: "a,b.csv" });
  expect(done.filter((step) => step === "collect")).toHaveLength(1);
  expect(keys.size).toBe(1);
});

test("14 the same session id of two tenants is two sessions", async () => {
  expect(await twoCustomers(join(folder(), "agent.db"))).toEqual({
    acme: ["I know 3 messages.", "support"],
    initech: ["I know 3 messages.", "support"],
    nobody: [],
  });
});

test("15 tools of an MCP server ask once each", async () => {
  expect(await remember(join(folder(), "memory.jsonl"))).toEqual({
    text: "Ada likes boats.",
    asked: ["mcp__memory__create_entities", "mcp__memory__search_nodes"],
  });
});

test("16 a trace says what happened", async () => {
  expect(await traced(join(folder(), "trace.jsonl"))).toEqual([
    "round 0: completed",
    "add: success",
    "round 1: completed",
    "finished after 2 rounds",
  ]);
  expect(await spans()).toBe("42.");
});

test("17 the older part becomes a summary, and nothing is deleted", async () => {
  const { frames, seen, kept } = await longTalk();
  expect(frames).toEqual(["initial", "compaction", "compaction"]);
  expect(seen).toBe(3);
  expect(kept).toBeGreaterThan(8);
});

test("18 another model answers when the first is overloaded", async () => {
  expect(await whoAnswers()).toEqual({
    models: ["default: failed", "small: completed"],
    after: "From the small one.",
  });
});

test("19 a failure that says so is tried again, and takes effect once", async () => {
  expect(await publishOnce()).toEqual({
    text: "It is published.",
    progress: ["attempt 1 of 3", "attempt 2 of 3"],
    times: 1,
  });
});

test("20 a line of a command wakes the session", async () => {
  expect(await watchBuilds()).toEqual({ role: "system", answer: "I will look at build 7." });
});

test("21 a session is given more by its host, which says why", async () => {
  const root = folder();
  mkdirSync(join(root, "notes"));
  writeFileSync(join(root, "notes", "plan.md"), "gamma");
  expect(await guest(join(folder(), "agent.db"), root)).toEqual({
    texts: ["I may not.", "It says gamma."],
    why: ["ada: The agreement is signed. docs, notes"],
  });
});

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { hello } from "./01-hello.ts";
import { watchATurn } from "./02-tool.ts";
import { guardedTurn } from "./04-guarded-turn.ts";
import { orderLunch } from "./05-approval-later.ts";
import { answer } from "./06-durable.ts";
import { ask, decide } from "./07-approvals.ts";
import { steer } from "./08-steer-and-observe.ts";

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
  const folder = mkdtempSync(join(tmpdir(), "marling-example-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "agent.db");
  expect(await answer(path, "Mail Ada.", "mail-1")).toBe("The mail is sent.");
  expect(await answer(path, "Mail Ada.", "mail-1")).toBe("The mail is sent.");
});

test("07 a call waits for a decision that another process takes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "marling-example-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "agent.db");
  expect(await ask(path)).toBe("delete_branch");
  expect(await decide(path)).toBe("The branch is gone.");
});

test("08 an input joins the turn that runs, and an observer sees it", async () => {
  expect(await steer()).toEqual(["steered", "I read 2 messages.", "committed"]);
});

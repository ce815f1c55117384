// The budget for tool results: what is shown, what is kept, and how the rest is read.

import { mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { attachment, defineTool, memoryStore, type Session } from "marling";
import { type ToolOutputBudgetOptions, toolOutputBudget } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, type ScriptStep, say } from "marling/testing";
import { expect, test } from "vitest";
import { BACKINGS, database, live } from "../kernel/durable-support.ts";
import { folder } from "./stock-support.ts";

const TEXT = Array.from({ length: 300 }, (_, line) => `line ${line + 1}`).join("\n"); // 2591 characters

function returning(name: string, value: unknown): ReturnType<typeof defineTool> {
  return defineTool({
    name,
    description: "Returns it.",
    input: { type: "object" },
    replay: "safe",
    execute: () => value,
  }) as ReturnType<typeof defineTool>;
}

/** What the model was shown of the latest result. */
function shown(session: Session): string {
  const results = session
    .read()
    .messages.flatMap(({ parts }) => parts.filter(({ kind }) => kind === "tool_result"));
  const last = results.at(-1);
  return last?.kind === "tool_result" ? last.text : "";
}

/** Calls one tool after the other, one turn each. */
async function world(
  options: ToolOutputBudgetOptions,
  { value, steps = [callTool("big")] }: { value: unknown; steps?: readonly ScriptStep[] },
): Promise<Session> {
  const { session } = await live({
    store: memoryStore(),
    plugins: [toolOutputBudget(options)],
    tools: [returning("big", value)],
    script: steps.flatMap((step) => [step, say("Done.")]),
  });
  for (const _ of steps) await session.turn("Go").result;
  return session;
}

const refIn = (text: string): string => /out_[0-9a-f]{24}/.exec(text)?.[0] ?? "";

test("[OB1] a result within the budget is shown as it is", async () => {
  expect(shown(await world({ maxChars: 400 }, { value: "x".repeat(400) }))).toBe("x".repeat(400));
});

test("[OB1] of a larger result the beginning and the end are shown, within the budget, and what is missing is said", async () => {
  const text = shown(await world({ maxChars: 600 }, { value: TEXT }));
  expect(text.length).toBeLessThanOrEqual(600);
  expect(text.startsWith("line 1\nline 2\nline 3\n")).toBe(true);
  expect(text.endsWith("line 299\nline 300")).toBe(true);
  expect(text).toMatch(/\n\[\d+ of 2591 characters are cut here; read more with read_output \{ "ref": "out_/);
});

test("[OB1] tools have budgets of their own, and 0 is none", async () => {
  expect(shown(await world({ maxChars: 400, perTool: { big: 0 } }, { value: TEXT }))).toBe(TEXT);
  const text = shown(await world({ maxChars: 400, perTool: { big: 1_000 } }, { value: TEXT }));
  expect(text.length).toBeGreaterThan(900);
  expect(text.length).toBeLessThanOrEqual(1_000);
});

test.each([600, 601, 602, 603])("[OB2] no character is cut in two with a budget of %i", async (maxChars) => {
  const text = shown(await world({ maxChars }, { value: "😀".repeat(1_000) }));
  expect(text).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/);
});

test("[OB2] attachments stay, and only text counts", async () => {
  const image = attachment({ kind: "inline", mediaType: "image/png", base64: "AQID" });
  const session = await world({ maxChars: 600 }, { value: { note: TEXT, image } });
  const parts = session.read().messages.flatMap((message) => message.parts);
  expect(parts.filter(({ kind }) => kind === "attachment")).toHaveLength(1);
  // Behind the text the protocol writes a word for the attachment.
  expect(shown(session).replace(/\[[^\]]*\]$/, "").length).toBeLessThanOrEqual(601);
});

test("[OB3] a structured result stays JSON, beside a notice", async () => {
  const value = { name: "log", lines: TEXT.split("\n"), text: "t".repeat(2_000), ok: true };
  const text = shown(await world({ maxChars: 800 }, { value }));
  expect(text.length).toBeLessThanOrEqual(800);
  const json = JSON.parse(text) as {
    notice: string;
    value: { name: string; lines: string[]; text: string; ok: boolean };
  };
  expect(json.notice).toMatch(/^The result was cut: it has \d+ characters; read more with read_output/);
  expect(json.value).toMatchObject({ name: "log", ok: true });
  expect(json.value.lines[0]).toBe("line 1");
  expect(json.value.lines.at(-1)).toMatch(/^\[\d+ more items\]$/);
  expect(json.value.text).toMatch(/^t+\[\d+ characters cut\]t+$/);
});

test("[OB3] a structured result that cannot be made small enough is cut as text, and the notice says so", async () => {
  const value = Array.from({ length: 40 }, () => Array.from({ length: 40 }, () => [["a".repeat(12)]]));
  const deep = Object.fromEntries(
    value.map((item, index) => [`member-with-a-long-name-${"n".repeat(400)}-${index}`, item]),
  );
  const text = shown(await world({ maxChars: 500 }, { value: deep }));
  expect(text.length).toBeLessThanOrEqual(500);
  expect(text).toContain("what is shown is no longer JSON");
});

test.each(BACKINGS)(
  "[OB4] read_output reads the rest in pieces, on $name",
  async ({ open }) => {
    const store = open();
    const options = { plugins: [toolOutputBudget({ maxChars: 1_000 })], tools: [returning("big", TEXT)] };
    const first = await live({ store: store(), ...options, script: [callTool("big"), say("Done.")] });
    await first.session.turn("Go").result;
    const ref = refIn(shown(first.session));
    const read = (args: object): ScriptStep[] => [callTool("read_output", { ref, ...args }), say("Read.")];
    const script = [...read({}), ...read({ offset: 1_000, limit: 500 }), ...read({ offset: 2_500 })];
    await first.runtime.close();
    const { session } = await live({ store: store(), ...options, script });
    const pieces: unknown[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      await session.turn("Read").result;
      pieces.push(JSON.parse(shown(session)));
    }
    expect(pieces).toEqual([
      { text: TEXT.slice(0, 1_000), offset: 0, total: 2_591, next: 1_000 },
      { text: TEXT.slice(1_000, 1_500), offset: 1_000, total: 2_591, next: 1_500 },
      { text: TEXT.slice(2_500), offset: 2_500, total: 2_591 },
    ]);
  },
  20_000,
);

test("[OB4] a fork can read what its source kept", async () => {
  const { session, runtime } = await live({
    store: sqliteStore({ path: database() }),
    plugins: [toolOutputBudget({ maxChars: 1_000 })],
    tools: [returning("big", TEXT)],
    script: (request) => {
      const last = request.messages.at(-1);
      if (last?.role === "tool") return say("Done.");
      const text = last?.parts.map((part) => (part.kind === "text" ? part.text : "")).join("") ?? "";
      return text.startsWith("out_") ? callTool("read_output", { ref: text, limit: 10 }) : callTool("big");
    },
  });
  await session.turn("Go").result;
  const fork = await runtime.sessions.fork("s", { as: "fork" });
  await fork.turn(refIn(shown(session))).result;
  expect(JSON.parse(shown(fork))).toMatchObject({ text: "line 1\nlin", next: 10 });
});

test("[OB4] a reference that nobody gave is a failure that says what to do", async () => {
  const session = await world(
    {},
    { value: "", steps: [callTool("read_output", { ref: "../../etc/passwd" })] },
  );
  expect(shown(session)).toBe(
    '[tool failed]\nExpected the reference of a result that was cut, found "../../etc/passwd". Use the reference in the notice of the cut, or call the tool again.',
  );
});

test("[OB4] in a folder, outputs are files for their owner only, each once", async () => {
  const path = join(folder(), "outputs");
  const session = await world(
    { maxChars: 1_000, folder: path },
    { value: TEXT, steps: [callTool("big"), callTool("big")] },
  );
  const ref = refIn(shown(session));
  expect(readdirSync(path)).toEqual([`${ref}.txt`]);
  expect(statSync(join(path, `${ref}.txt`)).mode & 0o777).toBe(0o600);
  expect(session.read().messages).toHaveLength(8);
  const reader = await world(
    { folder: path },
    { value: "", steps: [callTool("read_output", { ref, offset: 2_581 })] },
  );
  expect(JSON.parse(shown(reader))).toEqual({ text: TEXT.slice(2_581), offset: 2_581, total: 2_591 });
});

test("[OB4] a link in the folder is not followed", async () => {
  const path = join(folder(), "outputs");
  const secret = join(folder(), "secret");
  mkdirSync(path);
  writeFileSync(secret, "secret");
  const ref = `out_${"a".repeat(24)}`;
  symlinkSync(secret, join(path, `${ref}.txt`));
  const session = await world({ folder: path }, { value: "", steps: [callTool("read_output", { ref })] });
  expect(shown(session)).toMatch(/^\[tool failed\]/);
});

test("[OB4] what is kept in the history has a limit, and the notice says so", async () => {
  const session = await world({ maxChars: 600, maxKeptChars: 1_500 }, { value: TEXT });
  expect(shown(session)).toContain("; the first 1500 of them are kept;");
});

test.each<[Record<string, unknown>, string]>([
  [{ maxChars: 10 }, "maxChars: expected a whole number from 400, found 10"],
  [{ perTool: { shell: 1 } }, "perTool: expected an object, and under shell a whole number from 400"],
  [{ folder: " " }, "folder: expected a text that is not blank"],
  [{ limit: 1 }, "limit: expected one of the options maxChars"],
])("options %j are refused by name", (options, message) => {
  expect(() => toolOutputBudget(options as ToolOutputBudgetOptions)).toThrow(
    expect.objectContaining({ code: "invalid_plugin_options", message: expect.stringContaining(message) }),
  );
});

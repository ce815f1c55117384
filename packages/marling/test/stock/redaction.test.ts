// Secrets: replaced in everything that comes in, before it is stored or shown.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { defineTool, memoryStore, type ToolDefinition, toolFailure } from "marling";
import { type RedactionOptions, redaction } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, failWith, type ScriptStep, say } from "marling/testing";
import { expect, test } from "vitest";
import { Redactor, SHAPES, StreamRedactor } from "../../src/stock/redaction/redactor.ts";
import { database, type Life, live } from "../kernel/durable-support.ts";
import { spoken, textIn, watched } from "./stock-support.ts";

const KEY = `sk-${"a1B2".repeat(8)}`;
const TOKEN = `ghp_${"Z9".repeat(18)}`;
const PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----";

function returning(name: string, value: () => unknown): ToolDefinition {
  return defineTool({
    name,
    description: "Returns it.",
    input: { type: "object" },
    replay: "safe",
    execute: value,
  }) as ToolDefinition;
}

const TOOLS = [
  returning("env", () => ({ path: "/bin", keys: [{ api: KEY }, TOKEN], count: 2 })),
  returning("broken", () =>
    toolFailure({ message: `refused ${KEY}`, code: "refused", raw: { header: TOKEN } }),
  ),
];

function begin(script: readonly ScriptStep[], options: RedactionOptions = {}, path?: string): Promise<Life> {
  const store = path === undefined ? memoryStore() : sqliteStore({ path });
  return live({ store, plugins: [redaction(options)], tools: TOOLS, script });
}

test("[RD1] an input is stored and sent without its secrets", async () => {
  const { session, model } = await begin([say("ok")]);
  await session.turn(`Use ${KEY} and ${TOKEN}.`).result;
  expect(spoken(model.requests[0])).toEqual(["user: Use [redacted:api_key] and [redacted:github_token]."]);
  expect(session.read().messages.map(textIn)).toEqual([
    "Use [redacted:api_key] and [redacted:github_token].",
    "ok",
  ]);
});

test("[RD1] nothing in the files of a database has a secret of an input, an answer or a result", async () => {
  const path = database();
  const life = await begin([callTool("env"), callTool("broken"), say(`It is ${KEY}.`)], {}, path);
  const turn = life.session.turn(`Use ${KEY}`, { key: "k" });
  await turn.result;
  expect(await life.session.turn(`Use ${KEY}`, { key: "k" }).accepted).toMatchObject({ status: "duplicate" });
  await expect(life.session.turn(`Use ${TOKEN}`, { key: "k" }).accepted).rejects.toMatchObject({
    code: "idempotency_conflict",
  });
  await life.session.configure({ instructions: `Never say ${TOKEN}` });
  await life.runtime.close();
  const bytes = readdirSync(dirname(path)).map((name) => readFileSync(join(dirname(path), name)));
  for (const secret of [KEY, TOKEN]) expect(bytes.filter((file) => file.includes(secret))).toEqual([]);
  expect(bytes.some((file) => file.includes("[redacted:api_key]"))).toBe(true);
});

test("[RD1] tool results keep their shape, failures too", async () => {
  const { session } = await begin([callTool("env"), callTool("broken"), say("ok")]);
  const { toolCalls, issues } = await session.turn("Go").result;
  expect(toolCalls.map(({ output }) => output.outcome)).toMatchObject([
    {
      kind: "success",
      value: { path: "/bin", keys: [{ api: "[redacted:api_key]" }, "[redacted:github_token]"], count: 2 },
    },
    {
      kind: "failure",
      code: "refused",
      message: "refused [redacted:api_key]",
      raw: { header: "[redacted:github_token]" },
    },
  ]);
  expect(issues).toEqual([]);
});

test("[RD1] instructions are redacted when they are changed", async () => {
  const { session } = await begin([]);
  await session.configure({ instructions: `Key: ${KEY}` });
  expect(session.read().policy.instructions).toBe("Key: [redacted:api_key]");
});

test("[RD2] a secret that comes in pieces is never shown, and all other text is", async () => {
  const text = `The key is ${KEY} and\n${PEM}\nthat is all`;
  const chunks = text.match(/[\s\S]{1,3}/g) ?? [];
  const { session } = await begin([say(text, { chunks })]);
  const { events, report } = await watched(session.turn("Go"));
  const shown = events.flatMap((event) => (event.kind === "text_delta" ? [event.text] : []));
  const expected = "The key is [redacted:api_key] and\n[redacted:private_key]\nthat is all";
  expect(shown.join("")).toBe(expected);
  expect(report.text).toBe(expected);
  expect(shown.length).toBeGreaterThan(5);
  expect(textIn(session.read().messages.at(-1) as never)).toBe(expected);
});

test("[RD2] what was held back of an attempt that is given up is not part of the next", async () => {
  const { session } = await begin([
    failWith({ kind: "truncated_stream", chunks: ["Hel"], retryable: true }),
    say("Hello", { chunks: ["Hel", "lo"] }),
  ]);
  const { events, report } = await watched(session.turn("Go"));
  expect(report.text).toBe("Hello");
  expect(events.flatMap((event) => (event.kind === "text_delta" ? [event.text] : []))).toEqual(["Hello"]);
});

test("[RD1] reasoning is redacted in what is stored", async () => {
  const { session } = await begin([say("ok", { reasoning: `I know ${KEY}` })]);
  await session.turn("Go").result;
  expect(JSON.stringify(session.read())).not.toContain(KEY);
});

test("[RD3] arguments of calls run as the model wrote them", async () => {
  const seen: unknown[] = [];
  const login = defineTool({
    name: "login",
    description: "Logs in.",
    input: { type: "object" },
    execute: (args) => void seen.push(args),
  }) as ToolDefinition;
  const { session } = await live({
    store: memoryStore(),
    plugins: [redaction()],
    tools: [login],
    script: [callTool("login", { key: KEY }), say("ok")],
  });
  await session.turn("Go").result;
  expect(seen).toEqual([{ key: KEY }]);
});

test("[RD3] where calls are redacted too, no argument with a secret is run, shown or stored", async () => {
  const path = database();
  const seen: unknown[] = [];
  const login = defineTool({
    name: "login",
    description: "Logs in.",
    input: { type: "object" },
    execute: (args) => {
      seen.push(args);
      return null;
    },
  }) as ToolDefinition;
  const life = await live({
    store: sqliteStore({ path }),
    plugins: [redaction({ calls: true })],
    tools: [login],
    script: [callTool("login", { key: KEY, deep: [PEM, 'a "quoted" text'] }), say("ok")],
  });
  const events = await watched(life.session.turn("Go"));
  await life.runtime.close();
  expect(seen).toEqual([{ key: "[redacted:api_key]", deep: ["[redacted:private_key]", 'a "quoted" text'] }]);
  const files = readdirSync(dirname(path)).map((name) => readFileSync(join(dirname(path), name), "latin1"));
  for (const text of [JSON.stringify(events), ...files]) {
    expect(text).not.toContain(KEY);
    expect(text).not.toContain("MIIEow");
  }
});

test("secrets and patterns of the host count, and the known shapes can be left out", async () => {
  const options = { secrets: ["hunter2 the second"], patterns: { badge: /B-\d{4}/i }, knownShapes: false };
  const { session } = await begin(
    [
      say(`b-1234, hunter2 the second, ${KEY}`, {
        chunks: ["b-12", "34, hunter2 the", " second", `, ${KEY}`],
      }),
    ],
    options,
  );
  const { report } = await watched(session.turn("Go"));
  expect(report.text).toBe(`[redacted:badge], [redacted:secret], ${KEY}`);
});

test("[RE2] a stream of any cut shows the same as the whole text", () => {
  const redactor = new Redactor(SHAPES, ["two words secret"]);
  const text = `a ${KEY} b ${PEM} c two words secret d two words e AKIA${"ABCD".repeat(4)} f`;
  const whole = redactor.text(text);
  expect(whole).toBe(
    "a [redacted:api_key] b [redacted:private_key] c [redacted:secret] d two words e [redacted:aws_access_key] f",
  );
  for (let size = 1; size < 40; size += 1) {
    const stream = new StreamRedactor(redactor);
    const shown = (text.match(new RegExp(`[\\s\\S]{1,${size}}`, "g")) ?? []).map((chunk) =>
      stream.push(chunk),
    );
    expect(shown.join("") + stream.end(), `pieces of ${size}`).toBe(whole);
  }
});

test.each(["eyJ-", "eyJa.", "-----BEGIN ", "sk-", "A", "xoxb-", "two words "])(
  "a megabyte of %j is looked through at once",
  (piece) => {
    const redactor = new Redactor(SHAPES, ["two words secret"]);
    const text = piece.repeat(1_000_000 / piece.length);
    expect(redactor.text(text).length).toBeLessThanOrEqual(text.length);
  },
  10_000,
);

test("[RE1] text with marks is left as it is", () => {
  const redactor = new Redactor(SHAPES, []);
  expect(redactor.text(redactor.text(`x ${KEY}`))).toBe("x [redacted:api_key]");
  const value = { list: ["a", { b: 1 }] };
  expect(redactor.json(value)).toBe(value);
});

test.each<[Record<string, unknown>, string]>([
  [{ secrets: ["short"] }, "secrets: expected an array of texts with at least 8 characters"],
  [{ patterns: { any: /x*/ } }, "patterns: expected an object, and under any a regular expression"],
  [{ pattern: 1 }, "pattern: expected one of the options patterns, secrets, knownShapes"],
])("options %j are refused by name", (options, message) => {
  expect(() => redaction(options as RedactionOptions)).toThrow(
    expect.objectContaining({ code: "invalid_plugin_options", message: expect.stringContaining(message) }),
  );
});

// The command line runs turns of its own sessions and of no others: section Model and agent of SPEC.md.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRuntime, defineTool, type RuntimeOptions } from "marling";
import { approvals, planMode, redaction } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, say, scriptedModel } from "marling/testing";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { buildCli, makeFolder, marling } from "./built-cli.ts";

vi.setConfig({ testTimeout: 60_000 });

let folder: ReturnType<typeof makeFolder>;

beforeAll(buildCli, 180_000);

beforeEach(() => {
  folder = makeFolder();
});

afterEach(() => folder.close());

const path = (): string => join(folder.path, "program.db");
const cli = (...args: readonly string[]) => marling([...args, "--store", path()], { cwd: folder.path });

/** Leaves a session whose turn is cut before its model answers. */
async function leaveCut(options: Omit<RuntimeOptions, "store" | "model">): Promise<void> {
  let isDead = false;
  let asked = (): void => undefined;
  const begun = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const store = sqliteStore({ path: path() });
  const model = scriptedModel(async () => {
    asked();
    while (!isDead) await new Promise((resolve) => setTimeout(resolve, 10));
    return say("too late");
  });
  const runtime = createRuntime({ ...options, model, store });
  const turn = (await runtime.session("s")).turn("pay it back", { key: "k" });
  turn.result.catch(() => undefined);
  await begun;
  await store.close(); // As a crash: nothing that comes after it is written.
  isDead = true;
  await runtime.close({ graceMs: 0 }).catch(() => undefined);
}

const refunds: string[] = [];
const refund = defineTool({
  name: "refund",
  description: "Pays back.",
  input: { type: "object" },
  execute: () => {
    refunds.push("paid");
    return "paid";
  },
});

test.each<[string, Omit<RuntimeOptions, "store" | "model">]>([
  ["plugins", { plugins: [approvals({ rules: { refund: "ask" } })], tools: [refund] }],
  ["tools", { tools: [refund] }],
  ["nothing but a model", {}],
])("[OW1] a program with %s keeps its interrupted turn", async (_name, options) => {
  await leaveCut(options);
  const ran = await cli("run", "--session", "s", "hello");
  expect(ran.code).toBe(3);
  expect(ran.stderr).toContain("session s was made by a program; only that program runs its turns.");
  expect(ran.stderr).toContain("[needs_binding]");
  const recovered = await cli("recover");
  expect(recovered.stdout).toContain("skipped s: ");
  expect(recovered.stdout).toContain("[needs_binding]");
  expect((await cli("show", "s")).stdout).toContain("1 input unfinished");

  refunds.length = 0;
  const model = scriptedModel(({ messages }) =>
    options.tools !== undefined && messages.length < 2 ? callTool("refund") : say("finished"),
  );
  const runtime = createRuntime({ ...options, model, store: sqliteStore({ path: path() }) });
  try {
    const session = await runtime.session("s");
    const turn = session.turn("pay it back", { key: "k" });
    if (options.plugins !== undefined) {
      const [question] = await vi.waitUntil(async () => {
        const found = await runtime.approvals.list();
        return found.length > 0 ? found : undefined;
      });
      await runtime.approvals.decide(question as never, { decision: "allow", actor: "test" });
    }
    expect((await turn.result).text).toBe("finished");
    expect(refunds).toEqual(options.tools === undefined ? [] : ["paid"]);
  } finally {
    await runtime.close();
  }
});

test("[OW2] a session of an older version is taken over when it is opened", async () => {
  await leaveCut({ plugins: [redaction(), approvals({ otherwise: "ask" }), planMode()] });
  const ran = await cli("run", "--session", "s", "calculate 2 * 3");
  expect(ran.stdout).toBe("2 * 3 is 6.\n");
  const shown = await cli("show", "s");
  expect(shown.stdout).toContain("s: 2 turns");
});

test("[OW2] recover finishes what an older version left", async () => {
  await leaveCut({ plugins: [redaction(), approvals({ otherwise: "ask" }), planMode()] });
  const recovered = await cli("recover");
  expect(recovered.stdout).toBe("finished s:turn:1 of s\n");
});

test("[AG3] a server that the settings leave out is retired, and the session goes on", async () => {
  const config = join(folder.path, "marling.json");
  const server = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js"));
  const mcpServers = { every: { command: process.execPath, args: [server] } };
  writeFileSync(config, JSON.stringify({ mcpServers }));
  const first = await cli("run", "--session", "s", "--config", config, "calculate 1 + 1");
  expect(first.stdout).toBe("1 + 1 is 2.\n");
  writeFileSync(config, "{}");
  const second = await cli("run", "--session", "s", "--config", config, "calculate 1 + 2");
  expect(second.stdout).toBe("1 + 2 is 3.\n");
  const store = sqliteStore({ path: path() });
  const stored = await store.load("s" as never);
  await store.close();
  const retired = (stored?.nodes ?? []).filter(({ kind }) => kind === "plugin_retired");
  expect(retired.map(({ pluginId, reason }) => `${pluginId}: ${reason}`)).toEqual([
    "mcp: the settings of the command line leave it out",
    "tool_discovery: the settings of the command line leave it out",
  ]);
});

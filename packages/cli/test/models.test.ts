// Real wires, real tools: sections Model and Agent of SPEC.md.

import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { buildCli, makeFolder, marling } from "./built-cli.ts";
import { type Answer, type ModelServer, startModelServer } from "./model-server.ts";
import { TestTerminal } from "./terminal.ts";

vi.setConfig({ testTimeout: 60_000 });

let folder: ReturnType<typeof makeFolder>;
let servers: ModelServer[] = [];

beforeAll(buildCli, 180_000);

beforeEach(() => {
  folder = makeFolder();
});

afterEach(async () => {
  for (const server of servers) await server.close();
  servers = [];
  folder.close();
});

async function serve(...answers: readonly Answer[]): Promise<ModelServer> {
  const server = await startModelServer(answers);
  servers.push(server);
  return server;
}

const run = (args: readonly string[], env: Record<string, string> = {}) =>
  marling(["run", ...args], { cwd: folder.path, env });

const NOW = { call: { name: "write_file", args: { path: "new.txt", content: "hello\n" } } };

test("[MO2] an address without a name or a key uses the first model that it offers, and says so", async () => {
  const server = await serve({ text: "Hello from here." });
  const { code, stdout, stderr } = await run(["--base-url", server.url, "hi"]);
  expect(stderr).toContain(`local-model at ${server.url} (from --base-url)`);
  expect(stdout).toBe("Hello from here.\n");
  expect(code).toBe(0);
  expect(server.seen.map(({ path }) => path)).toEqual(["/v1/models", "/v1/chat/completions"]);
  expect(server.seen[1]?.body.model).toBe("local-model");
  expect(server.seen[1]?.authorization).toBeUndefined();
});

test("[MO1] ANTHROPIC_API_KEY is enough for a model of Anthropic", async () => {
  const server = await serve({ text: "Good morning." });
  const env = { ANTHROPIC_API_KEY: "sk-ant-test-123456", ANTHROPIC_BASE_URL: server.url };
  const { stdout, stderr } = await run(["--model", "anthropic/claude-test", "hi"], env);
  expect(stderr).toContain("model: anthropic/claude-test");
  expect(stdout).toBe("Good morning.\n");
  expect(server.seen[0]?.apiKey).toBe("sk-ant-test-123456");
});

test("[AG1] what reads runs, and its result reaches the model", async () => {
  writeFileSync(join(folder.path, "poem.md"), "roses are red\n");
  const server = await serve({ call: { name: "read_file", args: { path: "poem.md" } } }, { text: "Red." });
  const { stdout } = await run(["--base-url", server.url, "--model", "x", "what colour?"]);
  expect(stdout).toBe("Red.\n");
  expect(JSON.stringify(server.seen[1]?.body.messages)).toContain("roses are red");
});

test("[AG1] what writes asks: denied without a terminal, done with --yes", async () => {
  const denied = await serve(NOW, { text: "I could not." });
  expect((await run(["--base-url", denied.url, "--model", "x", "write"])).stderr).toContain(
    "Nobody can be asked",
  );
  expect(existsSync(join(folder.path, "new.txt"))).toBe(false);
  const allowed = await serve(NOW, { text: "Done." });
  await run(["--base-url", allowed.url, "--model", "x", "--yes", "write"]);
  expect(readFileSync(join(folder.path, "new.txt"), "utf8")).toBe("hello\n");
});

test("[AG1] in a chat, the file is written after y", async () => {
  const server = await serve(NOW, { text: "Written." });
  const args = ["chat", "--base-url", server.url, "--model", "x"];
  const terminal = new TestTerminal(args, { cwd: folder.path });
  try {
    await terminal.until("say something");
    terminal.type("write it\r");
    const asked = await terminal.until("allow write_file?");
    expect(asked).toContain("path: new.txt\n      content: hello");
    terminal.type("y\r");
    await terminal.until("Written.");
    expect(readFileSync(join(folder.path, "new.txt"), "utf8")).toBe("hello\n");
  } finally {
    await terminal.close();
  }
});

test("[AG2] a key of the environment reaches neither a prompt nor the store", async () => {
  const key = "sk-test-0123456789abcdef";
  writeFileSync(join(folder.path, "leak.txt"), `the key is ${key}\n`);
  const server = await serve({ call: { name: "read_file", args: { path: "leak.txt" } } }, { text: "Seen." });
  await run(["--base-url", server.url, "--model", "x", "read it"], { OPENAI_API_KEY: key });
  expect(server.seen[0]?.authorization).toBe(`Bearer ${key}`);
  expect(JSON.stringify(server.seen.map(({ body }) => body))).not.toContain(key);
  expect(readFileSync(join(folder.path, ".marling", "marling.db"), "latin1")).not.toContain(key);
});

test("[MO1] an address where nothing answers is one sentence that says what to do", async () => {
  const { code, stderr } = await run(["--base-url", "http://127.0.0.1:9/v1", "hi"]);
  expect(stderr).toMatch(
    /expected a list of models, found .*; name one with --model\. \[provider_unavailable\]/,
  );
  expect(code).toBe(3);
});

test("[CH7] /plan and /model change what the next turn runs with", async () => {
  const server = await serve({ text: "From the server." });
  const terminal = new TestTerminal(["chat"], {
    cwd: folder.path,
    env: { OPENAI_BASE_URL: server.url, MARLING_MODEL: "demo" },
  });
  try {
    await terminal.until("say something");
    terminal.type("/plan on\r");
    await terminal.until("Plan mode is on");
    terminal.type("note buy tea\r");
    await terminal.until("1 tool call");
    expect(existsSync(join(folder.path, ".marling", "notes.md"))).toBe(false);
    terminal.type("/plan off\r");
    await terminal.until("Plan mode is off");
    terminal.type("/model other-model\r");
    await terminal.until("openai/other-model");
    terminal.type("who are you?\r");
    await terminal.until("From the server.");
    expect(JSON.stringify(server.seen.at(-1)?.body.messages)).toContain("note buy tea");
  } finally {
    await terminal.close();
  }
});

const QUESTION = {
  call: { name: "ask", args: { question: "Which tea?", choices: ["green", "black"] } },
};

test("[AK1] what the model asks is answered in the chat, also after a kill -9", async () => {
  const server = await serve(QUESTION, { text: "Green it is." });
  const args = ["--base-url", server.url, "--model", "x"];
  const first = new TestTerminal(["chat", "--session", "tea", ...args], { cwd: folder.path });
  await first.until("say something");
  first.type("make tea\r");
  await first.until("Which tea?\n      1  green\n      2  black");
  await first.until("your answer");
  const file = join(folder.path, ".marling", "marling.db.asked.json");
  expect(statSync(file).mode & 0o777).toBe(0o600);
  first.kill();
  await first.exited();
  const second = new TestTerminal(["chat", "--resume", ...args], { cwd: folder.path });
  try {
    await second.until("your answer");
    second.type("blue\r");
    await second.until("expected one of green, black");
    second.type("1\r");
    await second.until("Green it is.");
    expect(JSON.stringify(server.seen.at(-1)?.body.messages)).toContain("green");
    expect(existsSync(file)).toBe(false);
  } finally {
    await first.close();
    await second.close();
  }
});

test("[AK1] run asks on a terminal, and offers nobody to ask without one", async () => {
  const server = await serve(QUESTION, { text: "Black it is." }, { text: "No questions." });
  const args = ["run", "--base-url", server.url, "--model", "x", "make tea"];
  const terminal = new TestTerminal(args, { cwd: folder.path });
  try {
    await terminal.until("your answer:");
    terminal.type("black\r");
    await terminal.until("Black it is.");
    expect(await terminal.exited()).toBe(0);
  } finally {
    await terminal.close();
  }
  const toolsOf = (at: number): string => JSON.stringify(server.seen[at]?.body.tools);
  await marling(args, { cwd: folder.path });
  expect(toolsOf(0)).toContain('"ask"');
  expect(toolsOf(2)).not.toContain('"ask"');
});

test("[QU1] a child that wants to write asks in the chat of its parent", async () => {
  const server = await serve(
    { call: { name: "spawn", args: { task: "Write the file." } } },
    NOW,
    { text: "The child has written." },
    { text: "All done." },
  );
  const args = ["chat", "--base-url", server.url, "--model", "x"];
  const terminal = new TestTerminal(args, { cwd: folder.path });
  try {
    await terminal.until("say something");
    terminal.type("delegate\r");
    await terminal.until("allow write_file?");
    terminal.type("y\r");
    await terminal.until("All done.");
    expect(readFileSync(join(folder.path, "new.txt"), "utf8")).toBe("hello\n");
  } finally {
    await terminal.close();
  }
});

test("[SE2] MCP servers of a trusted folder are tools of the agent", async () => {
  const program = fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js"));
  const config = { mcpServers: { every: { command: process.execPath, args: [program] } } };
  writeFileSync(join(folder.path, "marling.config.json"), JSON.stringify(config));
  await marling(["trust"], { cwd: folder.path });
  const server = await serve(
    { call: { name: "mcp__every__echo", args: { message: "from the other side" } } },
    { text: "Heard." },
  );
  const { stdout } = await run(["--base-url", server.url, "--model", "x", "--yes", "echo"]);
  expect(stdout).toBe("Heard.\n");
  expect(JSON.stringify(server.seen[1]?.body.messages)).toContain("from the other side");
});

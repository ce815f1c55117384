// Turns that go on in another process, whose servers are not up yet, or not at all.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRuntime, type Session } from "marling";
import { sqliteStore } from "marling/sqlite";
import { callTool, type ScriptFunction, say, scriptedModel } from "marling/testing";
import { build } from "vite";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type McpServers, type McpStdioServer, mcp } from "../../../src/mcp.ts";
import { database, gate, gatedStep, mortal } from "../../kernel/durable-support.ts";
import { failureOf, successOf } from "../../kernel/tools-support.ts";
import { folder, isAlive, linesOf, outputsOf, ownServer, until } from "./mcp-support.ts";

/** Calls the tool once per round, twice in all, then answers; any process can go on with it. */
const TWICE: ScriptFunction = ({ messages }) => {
  const round = messages.filter(({ role }) => role === "assistant").length;
  return round < 2 ? callTool("mcp__own__echo", { text: String(round + 1) }) : say("Done.");
};

interface Life {
  readonly servers: McpServers;
  readonly session: Session;
}

async function secondLife(path: string, server: McpStdioServer, script: ScriptFunction): Promise<Life> {
  const servers = mcp({ servers: { own: server }, reconnect: { minMs: 20, attempts: 2 } });
  const runtime = createRuntime({
    model: scriptedModel(script),
    store: sqliteStore({ path }),
    plugins: [servers.plugin],
  });
  onTestFinished(() => runtime.close());
  return { servers, session: await runtime.session("s") };
}

test("[MC50] a turn goes on in a new runtime with the tools of a server that takes its time to start", async () => {
  const path = database();
  const log = join(folder(), "log");
  const at = gate();
  const first = mcp({ servers: { own: ownServer({ LOG: log }) } });
  onTestFinished(() => first.close());
  const life = await mortal({
    store: sqliteStore({ path }),
    plugins: [first.plugin],
    script: [callTool("mcp__own__echo", { text: "1" }), gatedStep(at, say("Never."))],
  });
  void life.session.turn("go", { key: "k" }).result.catch(() => undefined);
  await at.begun;
  await life.die();
  const own = ownServer({ LOG: log });
  const late = {
    ...own,
    command: "sh",
    args: ["-c", `sleep 1; exec "$0" "$1"`, process.execPath, own.args?.[0] ?? ""],
  };
  const { session } = await secondLife(path, late, TWICE);
  const { text, toolCalls } = await session.turn("go", { key: "k" }).result;
  expect(text).toBe("Done.");
  expect(toolCalls.map(({ output }) => successOf(output))).toEqual(["echo: 1", "echo: 2"]);
  expect(linesOf(log).filter((line) => line === "call echo")).toHaveLength(2);
});

test("[MC50] after a restart the tools of a server that is down are known, and calling them says that it is down", async () => {
  const path = database();
  const first = await secondLife(path, ownServer(), () => say("Hello."));
  await first.session.turn("hello").result;
  await first.session.close();
  await first.servers.close();
  const shown: string[][] = [];
  const { session } = await secondLife(path, ownServer({ DIES: "1" }), ({ messages, tools }) => {
    shown.push(tools.map(({ name }) => name));
    return messages.at(-1)?.role === "tool" ? say("Done.") : callTool("mcp__own__echo", { text: "x" });
  });
  const [output] = await outputsOf(session.turn("go"));
  expect(failureOf(output)).toMatchObject({
    code: "mcp_server_down",
    message: expect.stringContaining("own is down: the process ended with code 7"),
  });
  expect(shown[0]).toContain("mcp__own__echo");
});

test("[MC52] a call that a crash cut is not repeated", async () => {
  const path = database();
  const log = join(folder(), "log");
  const first = mcp({ servers: { own: ownServer({ LOG: log }) } });
  onTestFinished(() => first.close());
  const life = await mortal({
    store: sqliteStore({ path }),
    plugins: [first.plugin],
    script: [callTool("mcp__own__slow")],
  });
  void life.session.turn("go", { key: "k" }).result.catch(() => undefined);
  await until(() => linesOf(log).includes("call slow"), "the call to run");
  await life.die();
  const { session } = await secondLife(path, ownServer({ LOG: log }), ({ messages }) =>
    messages.at(-1)?.role === "tool" ? say("Done.") : callTool("mcp__own__slow"),
  );
  const [output] = await outputsOf(session.turn("go", { key: "k" }));
  expect(failureOf(output).code).toBe("unknown_outcome");
  expect(linesOf(log).filter((line) => line === "call slow")).toHaveLength(1);
});

test("[MC62] what was agreed to in one process needs no question in another", async () => {
  const path = database();
  const own = ownServer({}, { approve: "allow" });
  const script: ScriptFunction = ({ messages }) =>
    messages.at(-1)?.role === "tool" ? say("Done.") : callTool("mcp__own__stamp");
  const first = await secondLife(path, own, script);
  expect(successOf((await outputsOf(first.session.turn("one")))[0])).toBe("stamp done");
  await first.session.close();
  const second = await secondLife(path, { ...own, approve: "ask" }, script);
  expect(successOf((await outputsOf(second.session.turn("two")))[0])).toBe("stamp done");
});

const root = fileURLToPath(new URL("../../../../../", import.meta.url));
let built = "";

/** The program of the child for plain Node, below node_modules, where packages are found. */
beforeAll(async () => {
  built = mkdtempSync(join(root, "node_modules", ".marling-child-"));
  await build({
    configFile: false,
    root,
    logLevel: "silent",
    build: {
      ssr: fileURLToPath(new URL("restart-child.ts", import.meta.url)),
      outDir: built,
      emptyOutDir: false,
      minify: false,
      rolldownOptions: { output: { entryFileNames: "child.mjs" } },
    },
  });
});
afterAll(() => rmSync(built, { recursive: true, force: true }));

test("[MC50] [MC11] a process that is killed in the middle of a turn leaves no server, and another one finishes the turn", async () => {
  const path = database();
  const log = join(folder(), "log");
  const own = ownServer({ LOG: log });
  const child = spawn(process.execPath, [join(built, "child.mjs"), path, own.args?.[0] ?? "", log], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<void>((resolve) => void child.once("close", () => resolve()));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let said = "";
  child.stdout.on("data", (chunk: Buffer) => {
    said += chunk.toString();
  });
  await until(() => said.includes("second round") || child.exitCode !== null, "the second round");
  const pid = Number(linesOf(log)[0]?.split(" ")[1]);
  expect(isAlive(pid)).toBe(true);
  child.kill("SIGKILL");
  await ended;
  await until(() => !isAlive(pid), "the server of the dead process to end");
  const { session } = await secondLife(path, own, TWICE);
  const { text, toolCalls } = await session.turn("go", { key: "k" }).result;
  expect(text).toBe("Done.");
  expect(toolCalls.map(({ output }) => successOf(output))).toEqual(["echo: 1", "echo: 2"]);
  expect(linesOf(log).filter((line) => line === "call echo")).toHaveLength(2);
});

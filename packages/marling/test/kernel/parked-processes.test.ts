// Turns that sleep, and processes that are killed, leave, or come later.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { callTool, say } from "marling/testing";
import { build } from "vite";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import {
  asking,
  claimAsStranger,
  database,
  desk,
  parked,
  transcript,
  until,
  worker,
} from "./parked-support.ts";

const ASK = { go: [callTool("ask", {}), say("Done.")] };
const TOLD = ["user: go", "assistant calls ask call_1", "tool call_1: yes", "assistant: Done."];

const root = fileURLToPath(new URL("../../../../", import.meta.url));
let folder = "";

/** The program of the children for plain Node, below node_modules, where packages are found. */
beforeAll(async () => {
  folder = mkdtempSync(join(root, "node_modules", ".marling-child-"));
  await build({
    configFile: false,
    root,
    logLevel: "silent",
    build: {
      ssr: fileURLToPath(new URL("parked-child.ts", import.meta.url)),
      outDir: folder,
      emptyOutDir: false,
      minify: false,
      rolldownOptions: { output: { entryFileNames: "child.mjs" } },
    },
  });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Child {
  readonly lines: readonly string[];
  /** Resolves with the rest of the first line that begins so; rejects when the child ends without. */
  said(start: string): Promise<string>;
  /** Resolves with the code that the child ended with by itself. */
  readonly ended: Promise<number | null>;
  /** Ends the child as a crash does, and waits for its end. */
  kill(): Promise<void>;
}

function start(...args: readonly string[]): Child {
  const child = spawn(process.execPath, [join(folder, "child.mjs"), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const lines: string[] = [];
  let text = "";
  let errors = "";
  child.stdout.on("data", (chunk: Buffer) => {
    const parts = (text + chunk.toString()).split("\n");
    text = parts.pop() ?? "";
    lines.push(...parts);
  });
  child.stderr.on("data", (chunk: Buffer) => {
    errors += chunk.toString();
  });
  let isOver = false;
  const ended = new Promise<number | null>((resolve) => {
    child.on("close", (code) => {
      isOver = true;
      resolve(code);
    });
  });
  const kill = async (): Promise<void> => {
    if (!isOver) child.kill("SIGKILL");
    await ended;
  };
  onTestFinished(kill);
  const said = async (begin: string): Promise<string> => {
    const find = (): string | undefined => lines.find((line) => line.startsWith(begin));
    await until(() => find() !== undefined || isOver);
    const line = find();
    if (line === undefined) throw new Error(`expected a line ${begin}, found ${lines.join(", ")} ${errors}`);
    return line.slice(begin.length).trim();
  };
  return { lines, said, ended, kill };
}

test("[E10] a turn that sleeps in a process that is killed goes on in another one", async () => {
  const path = database();
  const child = start("park", path);
  const key = await child.said("key");
  await child.said("parked");
  await child.kill();
  const { tool, keys } = asking();
  const { runtime, session } = await desk(path, { tools: [tool], answers: ASK });
  expect((await session.pending())[0]?.status).toBe("parked");
  expect(await runtime.resolve(key, { ok: "yes" })).toBe("resolved");
  expect((await session.turn("go", { key: "k" }).result).text).toBe("Done.");
  expect(await transcript(session)).toEqual(TOLD);
  expect(keys).toEqual([]);
});

test("[E10] a value from another process wakes the turn where it is awaited, and both processes see one end", async () => {
  const path = database();
  const sleeper = start("park", path);
  const key = await sleeper.said("key");
  await sleeper.said("parked");
  const waker = start("wake", path, key, "yes");
  expect(await waker.said("resolved")).toBe("");
  expect(await sleeper.said("done")).toBe("Done.");
  expect(await waker.said("done")).toBe("Done.");
  expect(await waker.ended).toBe(0);
  const { session } = await desk(path);
  expect(await transcript(session)).toEqual(TOLD);
});

test("[E10] a value that is brought to a process that is killed at once is not lost", async () => {
  const path = database();
  const sleeper = start("park", path);
  const key = await sleeper.said("key");
  await sleeper.said("parked");
  await sleeper.kill();
  const waker = start("wake", path, key, "yes");
  await waker.said("resolved");
  await waker.kill();
  const { tool } = asking();
  const { session } = await desk(path, { tools: [tool], answers: ASK });
  expect((await session.turn("go", { key: "k" }).result).text).toBe("Done.");
  expect(await transcript(session)).toEqual(TOLD);
});

test("[E7] a process that is killed after its tool took a key leaves a call that the key completes", async () => {
  const path = database();
  const child = start("cut", path);
  const key = await child.said("key");
  await child.kill();
  const { tool, keys } = asking();
  const { runtime, session, store } = await desk(path, { tools: [tool], answers: ASK });
  await parked(session);
  expect(keys).toEqual([]);
  expect(await claimAsStranger(store)).toMatchObject({ kind: "claimed" });
  expect(await runtime.resolve(key, { ok: "yes" })).toBe("resolved");
  expect((await session.turn("go", { key: "k" }).result).text).toBe("Done.");
  expect(await transcript(session)).toEqual(TOLD);
});

test("[SW2] a process that closes its runtime over a turn that sleeps ends by itself, and the turn goes on later", async () => {
  const path = database();
  const child = start("leave", path);
  const key = await child.said("key");
  expect(await child.said("closed")).toBe("runtime_closed");
  expect(await child.ended).toBe(0);
  const { tool } = asking();
  const { runtime } = worker(path, { tools: [tool], answers: ASK });
  expect(await runtime.resolve(key, { ok: "yes" })).toBe("resolved");
  const session = await runtime.session("s");
  expect((await session.turn("go", { key: "k" }).result).text).toBe("Done.");
});

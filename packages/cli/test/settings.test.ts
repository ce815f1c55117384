// Where settings come from, and which model they mean: sections Settings and Model of SPEC.md.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readCommandLine } from "../src/command-line.ts";
import { COMMANDS } from "../src/commands/index.ts";
import type { Environment } from "../src/environment.ts";
import { chooseModel, describeChoice } from "../src/model-choice.ts";
import { readSettings, type Settings } from "../src/settings.ts";
import { trust } from "../src/trust.ts";
import { makeFolder } from "./built-cli.ts";

let folder: ReturnType<typeof makeFolder>;

beforeEach(() => {
  folder = makeFolder();
});

afterEach(() => folder.close());

function settings(words: readonly string[], env: Record<string, string> = {}): Settings {
  const run = COMMANDS.find(({ name }) => name === "run");
  if (run === undefined) throw new Error("expected the command run");
  const output = { write: () => true, on: () => undefined, off: () => undefined };
  const environment: Environment = {
    env: { HOME: folder.path, XDG_CONFIG_HOME: join(folder.path, "xdg"), ...env },
    cwd: folder.path,
    stdin: new PassThrough(),
    stdout: output,
    stderr: output,
    onSignal: () => () => undefined,
    exit: () => {
      throw new Error("expected no exit");
    },
  };
  return readSettings(environment, readCommandLine(run, words));
}

const write = (name: string, value: unknown): void => {
  mkdirSync(join(folder.path, name, ".."), { recursive: true });
  writeFileSync(join(folder.path, name), typeof value === "string" ? value : JSON.stringify(value));
};

const trustFolder = (): void =>
  trust(folder.path, { HOME: folder.path, XDG_CONFIG_HOME: join(folder.path, "xdg") });

test("[SE4] options come before the environment, that before the folder's config, that before the user's", () => {
  expect(settings([]).model).toBeUndefined();
  write("xdg/marling/config.json", { model: "user/one", maxTurns: 7 });
  expect(settings([]).model).toBe("user/one");
  write("marling.config.json", { model: "folder/one" });
  expect(settings([]).model).toBe("folder/one");
  expect(settings([], { MARLING_MODEL: "env/one" }).model).toBe("env/one");
  expect(settings(["--model", "flag/one"], { MARLING_MODEL: "env/one" }).model).toBe("flag/one");
  expect(settings([]).maxTurns).toBe(7);
});

test("[SE4] --config names another file, and the store is relative to the folder", () => {
  write("marling.config.json", { model: "folder/one" });
  write("other.json", { model: "other/one", store: "db/x.db" });
  const found = settings(["--config", "other.json"]);
  expect(found.model).toBe("other/one");
  expect(found.store).toBe(join(folder.path, "db", "x.db"));
  expect(settings([]).store).toBe(join(folder.path, ".marling", "marling.db"));
  expect(() => settings(["--config", "none.json"])).toThrow("config none.json: expected a file, found none");
});

test("[SE1] unknown keys and wrong values name the file and the key", () => {
  write("marling.config.json", { modle: "x" });
  expect(() => settings([])).toThrow(
    "marling.config.json: unknown key modle; expected model, baseUrl, store",
  );
  write("marling.config.json", { maxTurns: "many" });
  expect(() => settings([])).toThrow(
    'marling.config.json: maxTurns: expected a whole number from 1, found "many"',
  );
  write("marling.config.json", "{ nope");
  expect(() => settings([])).toThrow("marling.config.json: expected JSON");
  write("marling.config.json", {});
  expect(() => settings(["--approve", "maybe"])).toThrow(
    'option: approve: expected ask, all or none, found "maybe"',
  );
  expect(() => settings([], { MARLING_MAX_TURNS: "0" })).toThrow("environment: maxTurns");
});

test("[SE3] a config file with a key of a provider is refused", () => {
  write("marling.config.json", { apiKey: "sk-1234" });
  expect(() => settings([])).toThrow(/unknown key apiKey.*read from the environment/);
});

test("[SE2] what is dangerous counts only in a folder that was trusted", () => {
  write("marling.config.json", {
    model: "openai/x",
    baseUrl: "http://evil.example/v1",
    approve: "all",
    instructions: "obey",
    mcpServers: { a: { command: "rm" } },
  });
  const before = settings([]);
  expect(before).toMatchObject({ model: "openai/x", baseUrl: undefined, approve: "ask", mcpServers: {} });
  expect(before.notes).toEqual([
    "marling.config.json: baseUrl, approve, instructions, mcpServers not used, because this folder is not trusted; `marling trust` trusts it",
  ]);
  trustFolder();
  const after = settings([]);
  expect(after).toMatchObject({ baseUrl: "http://evil.example/v1", approve: "all", instructions: "obey" });
  expect(after.mcpServers).toEqual({ a: { command: "rm" } });
  expect(after.notes).toEqual([]);
});

test("[SE1] an MCP server has a command or an address, and nothing that nobody knows", () => {
  trustFolder();
  for (const server of [{}, { command: "a", url: "http://b" }, { command: "a", nope: 1 }, { url: 1 }, "a"]) {
    write("marling.config.json", { mcpServers: { a: server } });
    expect(() => settings([]), JSON.stringify(server)).toThrow("mcpServers: expected an object of servers");
  }
});

const choose = (given: { model?: string; baseUrl?: string }, env: Record<string, string> = {}) =>
  chooseModel({ model: given.model, baseUrl: given.baseUrl }, env);

const KEYS = { ANTHROPIC_API_KEY: "a", OPENAI_API_KEY: "o", GOOGLE_GENERATIVE_AI_API_KEY: "g" };

test("[MO1] what was named wins over every key of the environment", () => {
  expect(choose({ model: "openai/gpt-x" }, KEYS)).toMatchObject({ kind: "openai", model: "gpt-x" });
  expect(choose({ model: "google/gem" }, KEYS)).toMatchObject({ kind: "google", model: "gem" });
  expect(choose({ model: "demo" }, KEYS)).toEqual({ kind: "demo" });
});

test("[MO1] without a name it is the first provider with a key", () => {
  expect(choose({}, KEYS)).toMatchObject({ kind: "anthropic", why: "ANTHROPIC_API_KEY" });
  const { ANTHROPIC_API_KEY: _, ...two } = KEYS;
  expect(choose({}, two)).toMatchObject({ kind: "openai", why: "OPENAI_API_KEY" });
  expect(choose({}, { GOOGLE_GENERATIVE_AI_API_KEY: "g" })).toMatchObject({ kind: "google" });
  expect(choose({}, { ANTHROPIC_API_KEY: " " })).toEqual({ kind: "demo" });
});

test("[MO1] a provider without its key, and a name without a provider, are errors that say what is missing", () => {
  expect(() => choose({ model: "anthropic/claude" })).toThrow(
    "expected ANTHROPIC_API_KEY in the environment",
  );
  expect(() => choose({ model: "gpt-x" }, KEYS)).toThrow("expected demo, anthropic/<name>");
});

test("[MO2] an address needs no key and takes names as they are", () => {
  const baseUrl = "http://127.0.0.1:11434/v1";
  expect(choose({ baseUrl })).toMatchObject({ kind: "openai", model: undefined, baseUrl });
  expect(choose({ baseUrl, model: "qwen/qwen3" })).toMatchObject({ kind: "openai", model: "qwen/qwen3" });
  expect(choose({}, { OPENAI_BASE_URL: baseUrl })).toMatchObject({ kind: "openai", why: "OPENAI_BASE_URL" });
});

test("[MO3] with nothing at hand it is the demo agent, which says that it is a script", () => {
  expect(describeChoice(choose({}))).toContain("the demo agent, which is a script");
});

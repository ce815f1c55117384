// Commands that run while the model waits.

import { readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { shellTools } from "../../../src/stock/tools/shell/shell-tools.ts";
import { type Bench, bench, folder, isRunning, until } from "./tool-bench.ts";

type Settings = Omit<Parameters<typeof shellTools>[0], "approval">;

interface Ran {
  readonly exitCode?: number;
  readonly signal?: string;
  readonly durationMs: number;
  readonly output: string;
}

function shellBench(settings: Settings = {}): Promise<Bench> {
  return bench({ tools: shellTools({ approval: "host", graceMs: 200, ...settings }) });
}

test("[SH1] the exit code, the time and the output are returned", async () => {
  const { value } = await shellBench();
  const ran = await value<Ran>("shell", { command: "echo hello; exit 3" });
  expect(ran).toEqual({ exitCode: 3, durationMs: expect.any(Number), output: "hello\n" });
});

test("[SH1] a command that a signal ends says which", async () => {
  const { value } = await shellBench();
  expect(await value<Ran>("shell", { command: "kill -USR1 $$" })).toMatchObject({
    signal: "SIGUSR1",
    output: "",
  });
});

test("[SH1] stdout and stderr are one text in the order in which they were written", async () => {
  const { value } = await shellBench();
  const command = "for n in 1 2 3 4 5 6 7 8; do echo out$n; echo err$n >&2; done";
  const { output } = await value<Ran>("shell", { command });
  const expected = [1, 2, 3, 4, 5, 6, 7, 8].map((n) => `out${n}\nerr${n}\n`).join("");
  expect(output).toBe(expected);
});

test("[SH1] a command that reads its input finds it at its end", async () => {
  const { value } = await shellBench();
  expect(await value<Ran>("shell", { command: "cat; echo over" })).toMatchObject({
    exitCode: 0,
    output: "over\n",
  });
});

test("[SH1] the command and the shell are given as they are: quotes and dollars are not read twice", async () => {
  const { value } = await shellBench();
  const { output } = await value<Ran>("shell", { command: `printf '%s\\n' 'a"b$HOME\`c' "$0"` });
  expect(output).toBe('a"b$HOME`c\n/bin/sh\n');
});

test("[SH1] a folder is relative to that of the options, which is where commands run by default", async () => {
  const cwd = realpathSync(folder());
  const { value, failure } = await shellBench({ cwd });
  await value("shell", { command: "mkdir inner" });
  expect((await value<Ran>("shell", { command: "pwd" })).output).toBe(`${cwd}\n`);
  expect((await value<Ran>("shell", { command: "pwd", cwd: "inner" })).output).toBe(`${cwd}/inner\n`);
  expect(await failure("shell", { command: "pwd", cwd: "nowhere" })).toMatchObject({
    code: "invalid_cwd",
    message: `cwd: expected a folder, found none at ${cwd}/nowhere. Leave it out for ${cwd}.`,
  });
});

test("[SH1] security rule 6: the environment is an allow list without keys", async () => {
  const environment = {
    PATH: process.env.PATH,
    HOME: "/nowhere",
    LANG: "C.UTF-8",
    LC_ALL: "C",
    TERM: "dumb",
    TZ: "UTC",
    USER: "ada",
    SHELL: "/bin/sh",
    TMPDIR: "/tmp",
    ANTHROPIC_API_KEY: "sk-secret",
    AWS_SECRET_ACCESS_KEY: "secret",
    GITHUB_TOKEN: "secret",
    NODE_OPTIONS: "--inspect",
    LD_PRELOAD: "/tmp/x.so",
    SSH_AUTH_SOCK: "/tmp/agent",
    lc_all: "x",
    LC_PAPER: "C",
    LC_API_KEY: "sk-secret",
    LC_: "secret",
    LC_ALL_TOKEN: "secret",
  };
  const { value } = await shellBench({ environment, env: { CI: "1", TERM: "xterm" } });
  const { output } = await value<Ran>("shell", { command: "env" });
  const names = output
    .trim()
    .split("\n")
    .map((line) => line.split("=")[0])
    .filter((name) => !["PWD", "OLDPWD", "SHLVL", "_"].includes(name ?? ""));
  expect(names.sort()).toEqual([
    "CI",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_PAPER",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
  ]);
  expect(output).toContain("TERM=xterm\n");
  expect(output).not.toContain("secret");
});

test("[SH1] without options the keys of this process are not in the environment either", async () => {
  process.env.MARLING_TEST_KEY = "sk-secret";
  const { value } = await shellBench();
  const { output } = await value<Ran>("shell", { command: "env" });
  delete process.env.MARLING_TEST_KEY;
  expect(output).toContain("PATH=");
  expect(output).not.toContain("sk-secret");
});

test("[SH2] a command that is late is ended with its children, and the model reads what it printed", async () => {
  const { failure } = await shellBench();
  const place = join(folder(), "pids");
  const command = `echo begun; sleep 600 & echo $! > ${place}; echo $$ >> ${place}; wait`;
  const { code, message } = await failure("shell", { command, timeoutMs: 500 });
  expect(code).toBe("shell_timeout");
  expect(message).toBe(
    "The command was stopped: expected it to end within 500 ms. What it printed until then:\nbegun\n",
  );
  expect(pidsIn(place).map(isRunning)).toEqual([false, false]);
});

test("[SH2] a command that ended in time is a result, though what it left behind takes longer to end", async () => {
  const { value } = await shellBench({ graceMs: 2_500 });
  const command = "(trap '' TERM; echo ready; while :; do sleep 1; done) & sleep 0.2; exit 6";
  const ran = await value<Ran>("shell", { command, timeoutMs: 2_000 });
  expect(ran).toMatchObject({ exitCode: 6, output: "ready\n" });
});

test("[SH8] what ignores SIGTERM gets SIGKILL after the grace time", async () => {
  const { failure } = await shellBench();
  const place = join(folder(), "pids");
  const command = `trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $! > ${place}; echo $$ >> ${place}; while :; do sleep 1; done`;
  const { code } = await failure("shell", { command, timeoutMs: 500 });
  expect(code).toBe("shell_timeout");
  const pids = pidsIn(place);
  expect(pids).toHaveLength(2);
  expect(pids.map(isRunning)).toEqual([false, false]);
});

test("[SH2] what a command leaves behind in its group ends with it, and holds nobody up", async () => {
  const { value } = await shellBench();
  const ran = await value<Ran>("shell", { command: "sleep 600 & echo $!" });
  expect(ran).toMatchObject({ exitCode: 0 });
  expect(Number(ran.output)).toBeGreaterThan(1);
  expect(isRunning(Number(ran.output))).toBe(false);
});

test("[SH2] a child that left the group and holds the output open is out of reach, and not waited for", async () => {
  const { value } = await shellBench();
  const place = join(folder(), "pid");
  const command = `setsid sh -c 'echo $$ > ${place}; exec sleep 600' & while [ ! -s ${place} ]; do sleep 0.05; done; echo over`;
  const ran = await value<Ran>("shell", { command });
  const [pid = 0] = pidsIn(place);
  expect(isRunning(pid)).toBe(true);
  process.kill(pid, "SIGKILL");
  expect(ran).toMatchObject({ exitCode: 0, output: "over\n" });
});

test("[SH2] a cancelled turn ends the command", async () => {
  const { session, begin } = await shellBench();
  const place = join(folder(), "pid");
  const turn = begin("shell", { command: `echo $$ > ${place}; sleep 600` });
  await until(() => pidsIn(place).length === 1);
  await session.cancel(turn.id);
  const { outcome, toolCalls } = await turn.result;
  expect(outcome).toMatchObject({ kind: "stopped", reason: "cancelled" });
  expect(toolCalls[0]?.output.outcome.kind).toBe("cancelled");
  const [pid = 0] = pidsIn(place);
  await until(() => !isRunning(pid));
});

test("[SH13] watchers are told of the output while the command runs", async () => {
  const { call } = await shellBench({ progressMs: 0 });
  const { events } = await call("shell", { command: "echo one; sleep 0.3; echo two" });
  const told = events.flatMap((event) => (event.kind === "tool_progress" ? [event.message] : []));
  expect(told[0]).toBe("one\n");
  expect(told.at(-1)).toBe("one\ntwo\n");
});

test("[SH13] there are no more messages than intervals", async () => {
  const { call } = await shellBench({ progressMs: 600_000 });
  const { events } = await call("shell", { command: "for n in 1 2 3 4 5; do echo $n; sleep 0.02; done" });
  expect(events.filter(({ kind }) => kind === "tool_progress")).toHaveLength(1);
});

test("[SH1] arguments beyond the limits are refused before anything runs", async () => {
  const { failure } = await shellBench({ maxTimeoutMs: 1_000 });
  expect((await failure("shell", { command: "true", timeoutMs: 1_001 })).code).toBe("invalid_tool_args");
  expect((await failure("shell", { command: "" })).code).toBe("invalid_tool_args");
  expect((await failure("shell", { command: "x".repeat(100_001) })).code).toBe("invalid_tool_args");
});

test("[SH1] a command with a zero byte, or a shell that is not there, is a failure and not a crash", async () => {
  const { failure } = await shellBench();
  expect((await failure("shell", { command: "echo a\0b" })).code).toBe("shell_start_failed");
  const { failure: other } = await shellBench({ shell: "/nowhere/sh" });
  expect(await other("shell", { command: "true" })).toMatchObject({
    code: "shell_unavailable",
    message: "Expected a program at /nowhere/sh, the shell of this session, found none.",
  });
});

test("[SH14] security rule 6: tools without the plugin ask nobody, and must be told that this is known", () => {
  expect(() => shellTools({} as never)).toThrow(
    expect.objectContaining({
      code: "invalid_options",
      message:
        'shell: option approval: expected "host", since tools alone ask nobody; the plugin `shell` does, found undefined',
    }),
  );
});

test.each([
  [{ timeoutMs: -1 }, "timeoutMs"],
  [{ outputBytes: 1.5 }, "outputBytes"],
  [{ shell: "sh" }, "shell"],
  [{ timeoutMs: 10, maxTimeoutMs: 5 }, "timeoutMs"],
])("[SH1] options %j are refused by name", (settings, option) => {
  expect(() => shellTools({ approval: "host", ...settings })).toThrow(
    expect.objectContaining({ code: "invalid_options", details: { option } }),
  );
});

test("security rule 6: the file root does not confine the shell, and the documentation says so", async () => {
  const [inside, outside] = [folder(), folder()];
  writeFileSync(join(outside, "secret.txt"), "reachable");
  const { value } = await shellBench({ cwd: inside });
  const { output } = await value<Ran>("shell", { command: `cat ${outside}/secret.txt` });
  expect(output).toBe("reachable");
  const page = readFileSync(new URL("../../../src/stock/tools/shell/README.md", import.meta.url), "utf8");
  expect(page).toContain("does not confine the shell");
});

test.each([
  "cannot stop a synchronous loop in the host's own code",
  "Code that a model writes belongs in the sandbox.",
])("security rule 10: the documentation says: %s", (sentence) => {
  const page = readFileSync(new URL("../../../src/stock/tools/shell/README.md", import.meta.url), "utf8");
  expect(page).toContain(sentence);
});

function pidsIn(path: string): readonly number[] {
  try {
    return readFileSync(path, "utf8").trim().split("\n").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

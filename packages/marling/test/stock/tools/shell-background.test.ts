// Commands that run while the model does something else, and whoever may end them.

import { expect, onTestFinished, test } from "vitest";
import { shell } from "../../../src/stock/tools/shell/shell.ts";
import type { ShellOptions } from "../../../src/stock/tools/shell/shell-options.ts";
import { shellTools } from "../../../src/stock/tools/shell/shell-tools.ts";
import { failureOf } from "../../kernel/tools-support.ts";
import { type Bench, bench, folder, isRunning, until } from "./tool-bench.ts";

interface Started {
  readonly shellId: string;
  readonly pid: number;
  readonly status: string;
}

interface State {
  readonly shellId: string;
  readonly status: "running" | "ended";
  readonly exitCode?: number;
  readonly signal?: string;
  readonly output: string;
  readonly omittedBytes?: number;
  readonly file?: string;
}

const behind = (command: string): object => ({ command, background: true });

function unasked(options: ShellOptions = {}): Promise<Bench> {
  return bench({ plugins: [shell({ ask: "never", graceMs: 200, ...options })] });
}

async function outputOnce({ value }: Bench, shellId: string, text: string): Promise<string> {
  let seen = "";
  await until(async () => {
    seen += (await value<State>("shell_output", { shellId })).output;
    return seen.includes(text);
  });
  return seen;
}

test("[SH11] a command goes on, and each read returns what came since the last", async () => {
  const desk = await unasked();
  const place = folder();
  const command = `echo one; while [ ! -e ${place}/go ]; do sleep 0.02; done; echo two; exit 4`;
  const started = await desk.value<Started>("shell", behind(command));
  expect(started).toMatchObject({ status: "running", shellId: expect.stringMatching(/^sh_[0-9a-f]{12}$/) });
  expect(isRunning(started.pid)).toBe(true);
  const { shellId } = started;
  expect(await outputOnce(desk, shellId, "one")).toBe("one\n");
  expect(await desk.value<State>("shell_output", { shellId })).toMatchObject({
    status: "running",
    output: "",
  });
  await desk.value("shell", { command: `touch ${place}/go` });
  const last = await desk.value<State>("shell_output", { shellId, waitMs: 60_000 });
  expect(last).toMatchObject({ status: "ended", exitCode: 4, output: "two\n" });
  expect(await desk.value<State>("shell_output", { shellId })).toMatchObject({ status: "ended", output: "" });
});

test("[SH11] of more unread output than the limit the newest is returned, with where the rest is", async () => {
  const desk = await unasked({ outputBytes: 4, spillFolder: folder() });
  const { shellId } = await desk.value<Started>("shell", behind("printf 0123456789"));
  const state = await desk.value<State>("shell_output", { shellId, waitMs: 60_000 });
  expect(state).toMatchObject({ status: "ended", omittedBytes: 6 });
  expect(state.output).toBe(`[6 bytes are left out here. The whole output is in ${state.file}]\n6789`);
});

test("[SH8] shell_stop ends the command with its children and returns its last words", async () => {
  const desk = await unasked();
  const { shellId, pid } = await desk.value<Started>("shell", behind("sleep 600 & echo $!; wait"));
  const child = Number(await outputOnce(desk, shellId, "\n"));
  expect([isRunning(pid), isRunning(child)]).toEqual([true, true]);
  expect(await desk.value<State>("shell_stop", { shellId })).toMatchObject({
    status: "ended",
    signal: "SIGTERM",
  });
  expect([isRunning(pid), isRunning(child)]).toEqual([false, false]);
  expect(await desk.value<State>("shell_stop", { shellId })).toMatchObject({ status: "ended", output: "" });
});

test("[SH10] nothing is left running when the runtime closes", async () => {
  const desk = await unasked();
  const stubborn =
    "trap '' TERM; (trap '' TERM; echo $(sh -c 'echo $PPID'); while :; do sleep 1; done) & wait; sleep 600";
  const { shellId, pid } = await desk.value<Started>("shell", behind(stubborn));
  const child = Number(await outputOnce(desk, shellId, "\n"));
  const { pid: other } = await desk.value<Started>("shell", behind("sleep 600"));
  expect([pid, child, other].map(isRunning)).toEqual([true, true, true]);
  await desk.runtime.close();
  expect([pid, child, other].map(isRunning)).toEqual([false, false, false]);
});

test("[SH10] commands end when their session closes, those of others go on", async () => {
  const desk = await unasked();
  const { pid } = await desk.value<Started>("shell", behind("sleep 600"));
  await (await desk.runtime.session("other")).close();
  expect(isRunning(pid)).toBe(true);
  await desk.session.close();
  expect(isRunning(pid)).toBe(false);
});

test("[SH10] tools alone run in the background only with a signal, and end when it aborts", async () => {
  const alone = shellTools({ approval: "host" });
  expect(alone.map(({ name }) => name)).toEqual(["shell"]);
  const { failure } = await bench({ tools: alone });
  expect((await failure("shell", behind("sleep 600"))).code).toBe("invalid_tool_args");

  const life = new AbortController();
  const tools = shellTools({ approval: "host", signal: life.signal, graceMs: 200 });
  expect(tools.map(({ name }) => name)).toEqual(["shell", "shell_output", "shell_stop"]);
  const desk = await bench({ tools });
  const { pid } = await desk.value<Started>("shell", behind("sleep 600"));
  life.abort();
  await until(() => !isRunning(pid));
  expect((await desk.failure("shell", { command: "true" })).code).toBe("shell_closed");
});

test("[SH11] a handle is known to its own session only, and to nobody after a restart", async () => {
  const life = new AbortController();
  onTestFinished(() => life.abort());
  const desk = await bench({ tools: shellTools({ approval: "host", signal: life.signal }) });
  const { shellId } = await desk.value<Started>("shell", behind("sleep 600"));
  const session = await desk.runtime.session("other");
  for (const name of ["shell_output", "shell_stop"]) {
    const { toolCalls } = await desk.begin(name, { shellId }, { session }).result;
    expect(failureOf(toolCalls[0]?.output).code).toBe("unknown_shell");
  }
  expect(await desk.value<State>("shell_output", { shellId })).toMatchObject({ status: "running" });
  const later = await unasked();
  expect(await later.failure("shell_output", { shellId })).toMatchObject({
    code: "unknown_shell",
    message: `shellId: expected the handle of a command that this session runs in the background, found ${shellId}. Commands end with the process that started them; start it again if it is needed.`,
  });
});

test("[SH12] commands in the background are limited in number, and a place that is free is used again", async () => {
  const desk = await unasked({ maxBackground: 2 });
  const one = await desk.value<Started>("shell", behind("sleep 600"));
  const two = await desk.value<Started>("shell", behind("sleep 600"));
  const { code, message } = await desk.failure("shell", behind("sleep 600"));
  expect([code, message]).toEqual([
    "too_many_shells",
    `Expected fewer than 2 commands in the background, found ${one.shellId}, ${two.shellId}. End one with shell_stop first.`,
  ]);
  await desk.value("shell_stop", { shellId: one.shellId });
  expect((await desk.value<Started>("shell", behind("true"))).status).toBe("running");
});

test("[SH12] of the commands that have ended the latest are kept", async () => {
  const desk = await unasked();
  const ids: string[] = [];
  for (let count = 0; count < 18; count += 1) {
    const { shellId } = await desk.value<Started>("shell", behind("true"));
    ids.push(shellId);
    await until(() =>
      desk.session.tasks.list().some(({ id, state }) => id === shellId && state === "completed"),
    );
  }
  expect((await desk.failure("shell_output", { shellId: ids[0] })).code).toBe("unknown_shell");
  expect(await desk.value<State>("shell_output", { shellId: ids[1] })).toMatchObject({ status: "ended" });
});

test("[SH12] a time limit of a call ends a command in the background too", async () => {
  const desk = await unasked();
  const { shellId } = await desk.value<Started>("shell", { ...behind("sleep 600"), timeoutMs: 300 });
  const state = await desk.value<State>("shell_output", { shellId, waitMs: 60_000 });
  expect(state).toMatchObject({ status: "ended", signal: "SIGTERM" });
});

test("[SH15] commands in the background are tasks of their session, and end as such", async () => {
  const desk = await unasked();
  const { shellId, pid } = await desk.value<Started>("shell", behind("sleep 600"));
  expect(desk.session.tasks.list()).toMatchObject([
    { id: shellId, kind: "other", producer: "shell", label: "sleep 600", state: "running" },
  ]);
  await desk.session.tasks.cancel(shellId);
  expect(isRunning(pid)).toBe(false);
  expect(await desk.value<State>("shell_output", { shellId })).toMatchObject({
    status: "ended",
    signal: "SIGTERM",
  });
  const { shellId: short } = await desk.value<Started>("shell", behind("exit 3"));
  await until(() => desk.session.tasks.list().some(({ id, state }) => id === short && state === "completed"));
  expect(desk.session.tasks.list().find(({ id }) => id === short)?.result).toMatchObject({ exitCode: 3 });
});

test("[SH9] a host that exits takes its commands with it", async () => {
  const before = process.listeners("exit");
  const desk = await unasked();
  const { pid } = await desk.value<Started>("shell", behind("trap '' TERM; sleep 600 & wait; sleep 600"));
  const [onExit, ...more] = process.listeners("exit").filter((listener) => !before.includes(listener));
  expect(more).toEqual([]);
  onExit?.call(process, 0); // what the process does first when it exits
  await until(() => !isRunning(pid));
  await desk.runtime.close();
  expect(process.listeners("exit")).toEqual(before);
});

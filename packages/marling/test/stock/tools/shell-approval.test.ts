// Who is asked before a command runs.

import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { approvals } from "../../../src/stock/approvals/approvals.ts";
import { shell } from "../../../src/stock/tools/shell/shell.ts";
import type { ShellOptions } from "../../../src/stock/tools/shell/shell-options.ts";
import { question, questions } from "../../kernel/approvals-support.ts";
import { database, live, mortal } from "../../kernel/durable-support.ts";
import { parked } from "../../kernel/parked-support.ts";
import { answering } from "../../kernel/services-support.ts";
import { failureOf, stage, successOf } from "../../kernel/tools-support.ts";
import { bench } from "./tool-bench.ts";

test("[SH14] security rule 6: the shell asks by default, and runs what was allowed", async () => {
  const desk = await bench({ plugins: [shell()] });
  const turn = desk.begin("shell", { command: "echo hello" });
  const asked = await question(desk.runtime);
  expect(asked).toMatchObject({
    toolName: "shell",
    pluginId: "shell",
    args: { command: "echo hello" },
    reason: "It runs a command on this machine.",
  });
  await desk.runtime.approvals.decide(asked, { decision: "allow", actor: "ada" });
  expect(successOf((await turn.result).toolCalls[0]?.output)).toMatchObject({
    exitCode: 0,
    output: "hello\n",
  });
});

test("[SH14] what was denied does not run", async () => {
  const desk = await bench({ plugins: [shell()] });
  const turn = desk.begin("shell", { command: "echo hello" });
  await desk.runtime.approvals.decide(await question(desk.runtime), { decision: "deny", actor: "ada" });
  expect(failureOf((await turn.result).toolCalls[0]?.output).code).toBe("approval_denied");
});

test("[SH14] watching and ending a command asks nobody", async () => {
  const desk = await bench({ plugins: [shell()] });
  for (const name of ["shell_output", "shell_stop"])
    expect((await desk.failure(name, { shellId: "sh_1" })).code).toBe("unknown_shell");
});

test.each<[string, ShellOptions["ask"], string, string | undefined]>([
  ["never", "never", "ls", undefined],
  ["a function that allows", () => "allow", "ls", undefined],
  ["a function that denies", () => "deny", "ls", "approval_denied"],
  [
    "a function that looks at the command",
    async ({ args }) =>
      (args as { command: string }).command === "ls" ? "allow" : { decision: "deny", reason: "No." },
    "rm x",
    "approval_denied",
  ],
  [
    "a function that fails",
    () => {
      throw new Error("no database");
    },
    "ls",
    "approval_denied",
  ],
])("[SH14] %s decides without asking", async (_what, ask, command, code) => {
  const desk = await bench({ plugins: [shell({ ask: ask ?? "always" })] });
  const { output } = await desk.call("shell", { command });
  if (code === undefined) expect(successOf(output)).toMatchObject({ exitCode: 0 });
  else expect(failureOf(output).code).toBe(code);
});

test("[SH14] the strictest answer holds: `never` does not overrule another policy", async () => {
  const desk = await bench({ plugins: [shell({ ask: "never" }), approvals({ rules: { shell: "deny" } })] });
  expect((await desk.failure("shell", { command: "ls" })).code).toBe("approval_denied");
});

test("[SH14] each command in a batch is asked about by itself", async () => {
  const calls = ["one", "two"].map((word) => ({ tool: "shell", args: { command: `echo ${word}` } }));
  const { runtime, session } = await stage({
    plugins: [shell()],
    script: [callTool("batch", { calls }), say("Done.")],
  });
  const turn = session.turn("Go");
  const asked = await questions(runtime, 2);
  const commands = asked.map(({ args }) => (args as { command: string }).command);
  expect(commands.sort()).toEqual(["echo one", "echo two"]);
  for (const each of asked) {
    const { command } = each.args as { command: string };
    await runtime.approvals.decide(each, {
      decision: command === "echo one" ? "allow" : "deny",
      actor: "ada",
    });
  }
  expect(successOf((await turn.result).toolCalls[0]?.output)).toMatchObject({
    results: [
      { index: 0, tool: "shell", success: true, result: { exitCode: 0, output: "one\n" } },
      { index: 1, tool: "shell", success: false },
    ],
  });
});

test("[SH14] a command that waits for a decision survives a restart and then runs once", async () => {
  const path = database();
  const options = {
    plugins: [shell()],
    script: answering({ Go: [callTools([["shell", { command: "echo hello" }]]), say("Done.")] }),
  };
  const first = await mortal({ store: sqliteStore({ path }), ...options });
  first.session.turn("Go", { id: "t" });
  await questions(first.runtime, 1);
  await parked(first.session);
  await first.die();
  const { session, runtime } = await live({ store: sqliteStore({ path }), ...options });
  await runtime.approvals.decide(await question(runtime), { decision: "allow", actor: "ada" });
  const { outcome, toolCalls } = await session.turn("Go", { id: "t" }).result;
  expect(outcome).toMatchObject({ kind: "finished", text: "Done." });
  expect(successOf(toolCalls[0]?.output)).toMatchObject({ output: "hello\n" });
});

test("[SH1] a command that a crash cut is not run again by itself", () => {
  const replays = shell().build({ sessionId: "s" } as never).tools as readonly {
    readonly manifest: { readonly name: string; readonly replay: string };
  }[];
  expect(replays.map(({ manifest }) => `${manifest.name} ${manifest.replay}`)).toEqual([
    "shell unsafe",
    "shell_output safe",
    "shell_stop idempotent",
  ]);
});

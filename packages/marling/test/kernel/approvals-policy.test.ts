// What policies say about a call: every one is asked, the strictest holds, and one that fails denies.

import { directive, memoryStore, type Plugin, toolFailure } from "marling";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import type { ApprovalHookContext } from "../../src/plugin/hook-context.ts";
import { asks, policy, question } from "./approvals-support.ts";
import { echo } from "./approvals-tools.ts";
import { live, type Tool } from "./durable-support.ts";
import { answering } from "./services-support.ts";
import { failureOf, outputsOf, type Played, play, plugin, TestClock } from "./tools-support.ts";

const allows = policy("allows", () => ({ decision: "allow" }));
const denies = policy("denies", () => ({ decision: "deny", reason: "Never." }));
const silent = policy("silent", () => undefined);

async function played(
  plugins: readonly Plugin[],
  { tools, ran }: { readonly tools: readonly Tool[]; readonly ran: string[] },
): Promise<Played & { readonly ran: readonly string[] }> {
  const { session } = await live({
    store: memoryStore(),
    plugins,
    tools: [...tools],
    script: answering({ Go: [callTool("echo", { text: "x" }), say("Done.")] }),
  });
  return { ...(await play(session.turn("Go"))), ran };
}

test.each<[string, readonly Plugin[]]>([
  ["one allows it", [allows]],
  ["no policy has anything to say", [silent]],
  ["there is no policy", []],
  ["several allow it", [allows, silent]],
])("[AP1] a call runs when %s", async (_when, plugins) => {
  const { report, ran } = await played(plugins, echo());
  expect(ran).toEqual(["x"]);
  expect(report.toolCalls[0]?.output.outcome).toEqual({ kind: "success", value: "echo x" });
});

test.each<[string, readonly Plugin[]]>([
  ["alone", [denies]],
  ["before one that allows", [denies, allows]],
  ["after one that allows", [allows, denies]],
  ["before one that asks", [denies, asks]],
  ["after one that asks", [asks, denies]],
])("[AP1] a denial holds %s, and the model is told whose it is", async (_where, plugins) => {
  const { report, ran } = await played(plugins, echo());
  expect(ran).toEqual([]);
  expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
  expect(report.toolCalls).toEqual([
    expect.objectContaining({
      name: "echo",
      args: { text: "x" },
      output: expect.objectContaining({
        outcome: expect.objectContaining({
          kind: "failure",
          class: "permission_denied",
          source: "policy",
          code: "approval_denied",
          message: "Never.",
          raw: { pluginId: "denies" },
        }),
      }),
    }),
  ]);
});

test("[AP1] one that asks is stricter than one that allows", async () => {
  for (const plugins of [
    [allows, asks],
    [asks, allows],
  ]) {
    const { tools, ran } = echo();
    const { session, runtime } = await live({
      store: memoryStore(),
      plugins,
      tools: [...tools],
      script: answering({ Go: [callTool("echo", { text: "x" })] }),
    });
    const turn = session.turn("Go");
    const asked = await question(runtime);
    expect(asked.pluginId).toBe("asks");
    expect(ran).toEqual([]);
    await runtime.approvals.decide(asked, { decision: "allow", actor: "ada" });
    await turn.result;
    expect(ran).toEqual(["x"]);
  }
});

test.each<[string, () => never]>([
  [
    "throws",
    () => {
      throw new Error("no database");
    },
  ],
  ["rejects", (() => Promise.reject(new Error("no database"))) as never],
  ["answers nonsense", (() => ({ decision: "alow" })) as never],
  ["answers with a time that is none", (() => ({ decision: "ask", expiresMs: -1 })) as never],
])("[AP1] a policy that %s denies", async (_how, fail) => {
  const { report, ran } = await played([allows, policy("broken", fail)], echo());
  expect(ran).toEqual([]);
  expect(report.toolCalls[0]?.output.outcome).toMatchObject({
    kind: "failure",
    code: "approval_denied",
    raw: { pluginId: "broken" },
  });
});

test("[AP1] a policy that takes too long denies", async () => {
  const clock = new TestClock();
  let begun = (): void => undefined;
  const isAsked = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const slow = policy("slow", () => {
    begun();
    return new Promise(() => undefined);
  });
  const { tools, ran } = echo();
  const { session } = await live({
    store: memoryStore(),
    clock,
    hookTimeoutMs: 1000,
    plugins: [slow],
    tools: [...tools],
    script: answering({ Go: [callTool("echo", { text: "x" })] }),
  });
  const turn = session.turn("Go");
  await isAsked;
  clock.advance(1000);
  const { toolCalls } = await turn.result;
  expect(ran).toEqual([]);
  expect(failureOf(toolCalls[0]?.output)).toMatchObject({ code: "approval_denied" });
});

test("[AP1] policies see the arguments as hooks left them, and are not asked about what a hook answered", async () => {
  const seen: unknown[] = [];
  const watching = policy("watching", ({ args, toolName, callId, sessionId }: ApprovalHookContext) => {
    seen.push({ args, toolName, callId, sessionId });
    return { decision: "allow" };
  });
  const replacing = plugin("replacing", {
    toolCalls: {
      before: ({ toolName }) =>
        toolName === "echo"
          ? directive.replaceToolArgs({ text: "changed" })
          : directive.shortCircuitTool(toolFailure({ code: "no", class: "internal", message: "No." })),
    },
  });
  const { tools, ran } = echo("echo", "other");
  const { session } = await live({
    store: memoryStore(),
    plugins: [watching, replacing],
    tools: [...tools],
    script: answering({
      Go: [
        callTools([
          ["echo", { text: "x" }],
          ["other", { text: "y" }],
        ]),
      ],
    }),
  });
  await play(session.turn("Go"));
  expect(ran).toEqual(["changed"]);
  expect(seen).toEqual([{ args: { text: "changed" }, toolName: "echo", callId: "call_1", sessionId: "s" }]);
});

test("[AP1] arguments that do not fit are refused before anybody is asked", async () => {
  const seen: unknown[] = [];
  const watching = policy("watching", ({ args }) => {
    seen.push(args);
    return { decision: "deny" };
  });
  const { tools } = echo();
  const { session } = await live({
    store: memoryStore(),
    plugins: [watching],
    tools: [...tools],
    script: answering({ Go: [callTool("echo", { text: 1 })] }),
  });
  const { report } = await play(session.turn("Go"));
  expect(seen).toEqual([]);
  expect(failureOf(report.toolCalls[0]?.output).code).not.toBe("approval_denied");
});

test("[AP1] calls inside a batch are asked about one by one, and denied ones leave the others alone", async () => {
  const picky = policy("picky", ({ args }) => ({
    decision: (args as { readonly text?: string }).text === "no" ? "deny" : "allow",
  }));
  const { tools, ran } = echo();
  const { session } = await live({
    store: memoryStore(),
    plugins: [picky],
    tools: [...tools],
    script: answering({
      Go: [
        callTool("batch", {
          calls: [
            { tool: "echo", args: { text: "yes" } },
            { tool: "echo", args: { text: "no" } },
          ],
        }),
      ],
    }),
  });
  const result = await play(session.turn("Go"));
  expect(ran).toEqual(["yes"]);
  expect(
    outputsOf(result, "echo")
      .map(({ outcome }) => outcome.kind)
      .sort(),
  ).toEqual(["failure", "success"]);
  expect(result.report.toolCalls.map(({ name }) => name)).toEqual(["batch"]);
});

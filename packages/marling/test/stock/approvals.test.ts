// Approvals by rule.

import { memoryStore } from "marling";
import { type ApprovalsOptions, approvals } from "marling/plugins";
import { sqliteStore } from "marling/sqlite";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { question, questions } from "../kernel/approvals-support.ts";
import { echo, echoTool } from "../kernel/approvals-tools.ts";
import { database, live, mortal } from "../kernel/durable-support.ts";
import { parked } from "../kernel/parked-support.ts";
import { answering } from "../kernel/services-support.ts";
import { failureOf, TestClock } from "../kernel/tools-support.ts";

const TOOLS = ["read_file", "read_secret", "write_file", "shell"];
const ALL = answering({
  Go: [callTools(TOOLS.map((name) => [name, { text: name }] as const)), say("Done.")],
  Batch: [callTool("batch", { calls: TOOLS.map((tool) => ({ tool, args: { text: tool } })) }), say("Done.")],
  One: [callTool("shell", { text: "ls" }), say("Done.")],
});

/** Which tools ran and which were asked about when all of them were called. */
async function outcome(
  options: ApprovalsOptions | undefined,
  input = "Go",
): Promise<{
  readonly ran: readonly string[];
  readonly asked: readonly string[];
  readonly denied: readonly string[];
}> {
  const { tools, ran } = echo(...TOOLS);
  const { session, runtime } = await live({
    store: memoryStore(),
    plugins: [approvals(options)],
    tools: [...tools],
    script: ALL,
  });
  const turn = session.turn(input);
  const denied: string[] = [];
  const asked = new Set<string>();
  let isOver = false;
  const watched = (async () => {
    for await (const event of turn) {
      if (event.kind !== "tool_finished" || event.record.output.outcome.kind !== "failure") continue;
      if (event.record.output.outcome.message === "The call was denied.") denied.push(event.record.name);
    }
    isOver = true;
  })();
  await expect
    .poll(
      async () => {
        for (const each of await runtime.approvals.list()) {
          asked.add(each.toolName);
          await runtime.approvals.decide(each, { decision: "deny", actor: "ada", reason: "asked" });
        }
        return isOver;
      },
      { timeout: 20_000, interval: 5 },
    )
    .toBe(true);
  await watched;
  return { ran: [...ran].sort(), asked: [...asked].sort(), denied: denied.sort() };
}

test.each<[string, ApprovalsOptions | undefined, { ran: string[]; asked: string[]; denied: string[] }]>([
  ["without options everything is asked about", undefined, { ran: [], asked: [...TOOLS], denied: [] }],
  [
    "a rule for a name holds for that tool",
    { rules: { shell: "deny", read_file: "allow" } },
    { ran: ["read_file"], asked: ["read_secret", "write_file"], denied: ["shell"] },
  ],
  [
    "a name that ends in * holds for all that begin so, and the longest that fits counts",
    { rules: { "*": "deny", "read_*": "allow", "read_s*": "ask" } },
    { ran: ["read_file"], asked: ["read_secret"], denied: ["shell", "write_file"] },
  ],
  [
    "a whole name is stronger than any that ends in *",
    { rules: { "read_secret*": "allow", read_secret: "deny" }, otherwise: "allow" },
    { ran: ["read_file", "shell", "write_file"], asked: [], denied: ["read_secret"] },
  ],
  [
    "what has no rule is as `otherwise` says",
    { rules: { shell: "ask" }, otherwise: "deny" },
    { ran: [], asked: ["shell"], denied: ["read_file", "read_secret", "write_file"] },
  ],
  [
    "a function decides first, and the rules where it has nothing to say",
    {
      policy: ({ toolName, args }) =>
        (args as { readonly text: string }).text === "shell"
          ? "allow"
          : toolName === "write_file"
            ? { decision: "deny" }
            : undefined,
      rules: { "*": "ask" },
    },
    { ran: ["shell"], asked: ["read_file", "read_secret"], denied: ["write_file"] },
  ],
  [
    "a function may take its time",
    { policy: async () => "allow" as const, otherwise: "deny" },
    { ran: [...TOOLS], asked: [], denied: [] },
  ],
])("[AP1] %s", async (_what, options, expected) => {
  const sorted = { ...expected, ran: [...expected.ran].sort(), asked: [...expected.asked].sort() };
  expect(await outcome(options)).toEqual(sorted);
});

test("[AP1] a function that fails denies", async () => {
  const { tools, ran } = echo("shell");
  const broken = approvals({
    policy: () => {
      throw new Error("no database");
    },
    otherwise: "allow",
  });
  const { session } = await live({ store: memoryStore(), plugins: [broken], tools: [...tools], script: ALL });
  const { toolCalls } = await session.turn("One").result;
  expect(failureOf(toolCalls[0]?.output).code).toBe("approval_denied");
  expect(ran).toEqual([]);
});

test("[AP1] calls in a batch are decided one by one, and the batch itself only when there is a rule for it", async () => {
  const rules = { read_file: "allow", shell: "deny" } as const;
  expect(await outcome({ rules }, "Batch")).toEqual({
    ran: ["read_file"],
    asked: ["read_secret", "write_file"],
    denied: ["shell"],
  });
  expect(await outcome({ rules: { ...rules, batch: "deny" } }, "Batch")).toEqual({
    ran: [],
    asked: [],
    denied: ["batch"],
  });
});

test("[AP3] questions expire when the options say so, also those of a function that says nothing about it", async () => {
  const clock = new TestClock();
  const { tools, ran } = echo("shell");
  const plugins = [approvals({ expiresMs: 1000, policy: () => ({ decision: "ask", reason: "Sure?" }) })];
  const { session, runtime } = await live({
    store: memoryStore(),
    clock,
    plugins,
    tools: [...tools],
    script: ALL,
  });
  const turn = session.turn("One");
  const asked = await question(runtime);
  expect([asked.reason, asked.pluginId, (asked.expiresAt ?? 0) - asked.askedAt]).toEqual([
    "Sure?",
    "approvals",
    1000,
  ]);
  for (let wait = 0; wait < 20; wait += 1) await new Promise((resolve) => setImmediate(resolve));
  clock.advance(1000);
  expect(failureOf((await turn.result).toolCalls[0]?.output).code).toBe("approval_expired");
  expect(ran).toEqual([]);
});

test("[AP4] a call that waits survives a restart", async () => {
  const path = database();
  const ran: string[] = [];
  const options = { plugins: [approvals()], tools: [echoTool("shell", ran)], script: ALL };
  const first = await mortal({ store: sqliteStore({ path }), ...options });
  first.session.turn("One", { id: "t" });
  await questions(first.runtime, 1);
  await parked(first.session);
  await first.die();
  const { session, runtime } = await live({ store: sqliteStore({ path }), ...options });
  await runtime.approvals.decide(await question(runtime), { decision: "allow", actor: "ada" });
  const report = await session.turn("One", { id: "t" }).result;
  expect(report.outcome).toMatchObject({ kind: "finished", text: "Done." });
  expect(ran).toEqual(["ls"]);
});

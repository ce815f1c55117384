// Replays of the rarer things a turn does: each is played live, then from its journal, to the same commits.

import {
  attachment,
  createRuntime,
  defineTool,
  directive,
  failTurn,
  type Plugin,
  type Runtime,
  type Session,
  switchFrame,
} from "marling";
import { callTool, callTools, failWith, type ScriptStep, say, scriptedModel } from "marling/testing";
import { expect, test } from "vitest";
import { commitLog, journalHost, journalOf } from "./sessions-replay-world.ts";
import { codeProtocol } from "./tools-code-protocol.ts";
import { plugin } from "./tools-support.ts";

interface Case {
  readonly script: readonly ScriptStep[];
  /** Built anew for every run; `runtime` is there when a turn runs. */
  plugins(runtime: () => Runtime): readonly Plugin[];
}

const noise = (): string => Math.random().toString(36).slice(2);

function tool(
  name: string,
  execute: Parameters<typeof defineTool>[0]["execute"],
  more: object = {},
): ReturnType<typeof defineTool> {
  return defineTool({ name, description: "Does something.", input: { type: "object" }, execute, ...more });
}

const CASES: Readonly<Record<string, Case>> = {
  "a result that comes later": {
    script: [
      callTools([
        ["later", {}],
        ["later", {}],
      ]),
      say("Done."),
    ],
    plugins: (runtime) => [
      plugin("p", {
        tools: [
          tool("later", async (_input, context) => {
            await runtime().resolve(await context.completionKey(), { ok: noise() });
            return context.pending({ deadlineMs: 60_000 });
          }),
        ],
        toolCalls: {
          after: ({ result }) =>
            directive.enqueueMessages([{ role: "system", content: `${result.outcome.kind} ${noise()}` }]),
        },
      }),
    ],
  },
  "a deadline that ends the turn": {
    script: [callTool("later")],
    plugins: () => [
      plugin("p", {
        tools: [
          tool("later", async (_input, context) => {
            await context.completionKey();
            return context.pending({ deadlineMs: 1, onTimeout: "fail_turn" });
          }),
        ],
      }),
    ],
  },
  "bytes in a batch": {
    script: [callTool("batch", { calls: [{ tool: "photo" }, { tool: "photo" }] }), say("Done.")],
    plugins: () => [
      plugin("p", (ctx) => {
        const count = ctx.durable({ version: 1, initial: () => 0 });
        return {
          tools: [
            tool("photo", () => {
              count.update((n) => n + 1);
              return {
                at: noise(),
                photo: attachment({ kind: "inline", mediaType: "image/png", base64: "aGVsbG8=" }),
              };
            }),
          ],
          toolCalls: {
            after: ({ toolName }) => {
              count.update((n) => n + 100);
              return toolName === "batch"
                ? directive.emitEvents([{ kind: "status", key: "k", label: noise() }])
                : undefined;
            },
          },
        };
      }),
    ],
  },
  "calls from code": {
    script: [say("run one"), say("run two"), say("Done.")],
    plugins: () => [
      codeProtocol(async (context, code) => {
        const replies = await context.callTools([
          { name: "work", args: { code } },
          { name: "missing", args: {} },
        ]);
        return { observations: [noise(), ...replies.map(({ output }) => output.outcome.kind)] };
      }),
      plugin("p", (ctx) => {
        const count = ctx.durable({ version: 1, initial: () => 0 });
        return {
          tools: [
            tool("work", () => {
              count.update((n) => n + 1);
              return noise();
            }),
          ],
          toolCalls: {
            after: () => {
              count.update((n) => n + 10);
              return directive.enqueueMessages([{ role: "system", content: noise() }]);
            },
          },
        };
      }),
    ],
  },
  "tools that hooks take away and put back": {
    script: [callTool("a"), callTool("b"), callTool("a"), say("Done.")],
    plugins: () => [
      plugin("p", {
        tools: [tool("a", noise), tool("b", noise)],
        turn: {
          before: async ({ host, sessionId }) => {
            await host.setToolMembership(sessionId, ["b"], false);
            return undefined;
          },
        },
        toolCalls: {
          after: async ({ host, sessionId }) => {
            await host.setToolMembership(sessionId, ["b"], true);
            await host.setToolsAvailability(sessionId, ["a"], "off");
            return undefined;
          },
        },
      }),
    ],
  },
  "a switch of frames": {
    script: [callTool("go"), callTool("stop")],
    plugins: () => [
      plugin("p", {
        tools: [
          tool("go", () =>
            switchFrame({
              key: "next",
              task: `Go on ${noise()}`,
              nodes: [{ kind: "message", message: { role: "user", content: noise() } }],
            }),
          ),
          tool("stop", () => failTurn({ code: "stopped", message: noise() })),
        ],
        turn: { before: () => directive.enqueueMessages([{ role: "system", content: noise() }]) },
      }),
    ],
  },
  "a context that is compacted in the middle of a turn": {
    script: [failWith({ kind: "context_overflow" }), callTool("work"), say("Done.")],
    plugins: () => [
      plugin("p", {
        tools: [tool("work", noise)],
        model: { error: () => ({ kind: "compact_and_retry" }) },
        context: {
          compact: {
            priority: 1,
            compact: () => ({
              initialNodes: [{ kind: "message", message: { role: "user", content: `In short: ${noise()}` } }],
            }),
          },
        },
      }),
    ],
  },
  "a model that fails and hooks that fail around it": {
    script: [failWith({ kind: "overloaded", retryAfterMs: 1 }), say("Done.", { chunks: ["Do", "ne."] })],
    plugins: () => [
      plugin("p", {
        output: {
          stream: ({ chunk }) => ({
            chunk: `${chunk}${noise()}`,
            events: [{ kind: "status", key: "k", label: noise() }],
          }),
          streamFinished: () => {
            throw new Error(`No end ${noise()}`);
          },
        },
        turn: { after: () => directive.enqueueMessages([{ role: "assistant", content: "not taken" }]) },
      }),
    ],
  },
};

async function run(
  one: Case,
  options: { readonly effects: ReturnType<typeof journalHost>; readonly commits: string[] },
): Promise<Session> {
  let runtime: Runtime | undefined;
  runtime = createRuntime({
    model: scriptedModel(one.script),
    store: commitLog(options.commits),
    effects: options.effects,
    plugins: one.plugins(() => runtime as Runtime),
  });
  const session = await runtime.session("s");
  await session.turn("Go").result;
  await runtime.close();
  return session;
}

test.each(Object.entries(CASES))(
  "[E1] %s is replayed to the same commits, and nothing is performed",
  async (_name, one) => {
    const journal = journalOf();
    const [live, replayed]: [string[], string[]] = [[], []];
    await run(one, { effects: journalHost(journal), commits: live });
    const missed: string[] = [];
    await run(
      { ...one, script: [] },
      { effects: journalHost(journal, (key) => missed.push(key)), commits: replayed },
    );
    expect([missed, journal.twice]).toEqual([[], []]);
    expect(replayed.map((text) => JSON.parse(text))).toEqual(live.map((text) => JSON.parse(text)));
    expect(live.at(-1)).toContain('"settles"');
  },
);

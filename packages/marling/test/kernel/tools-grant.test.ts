// Grants: one tool for one call, outside the catalog, with everything else as for any call.

import {
  defineTool,
  type ExecutionGrant,
  type Json,
  type NestedReply,
  type Plugin,
  type ToolProvider,
} from "marling";
import { callTool, say } from "marling/testing";
import { expect, test } from "vitest";
import { failureOf, outputsOf, play, plugin, stage, successOf } from "./tools-support.ts";

const VAULT = { id: "vault-id", name: "vault", description: "Opens." };
const CONTRACT = {
  inputSchema: { type: "object", properties: { code: { type: "number" } }, required: ["code"] },
};

function grantOf(change: Partial<ExecutionGrant> = {}): ExecutionGrant {
  return { manifest: VAULT, contract: CONTRACT, sourceId: "plugins", binding: { seat: 7 }, ...change };
}

/** A provider whose vault is in no list and opens only for granted calls. */
function vault(log: unknown[], change: Partial<ToolProvider> = {}): ToolProvider {
  return {
    manifests: () => [],
    resolve: (key) => ("id" in key && key.id === VAULT.id ? VAULT : undefined),
    contract: () => undefined,
    execute: () => "never",
    prepareGranted: (call, context) => {
      log.push(["prepare", call.args, context.binding]);
      return { kind: "prepared", call: { ...call, payload: "key" } };
    },
    executeGranted: (call, context) => {
      log.push(["execute", call.args, call.payload ?? null, context.binding]);
      return "open";
    },
    ...change,
  };
}

/** A tool that calls with a grant and gives back what it was told. */
function borrower(grant: ExecutionGrant, args: Json, replies: (readonly NestedReply[])[] = []): Plugin {
  return plugin("borrower", {
    tools: [
      defineTool({
        name: "borrow",
        description: "Calls with a grant.",
        input: { type: "object" },
        execute: async (_input, context) => {
          const given = await context.callTools([{ name: "whatever", args, grant }]);
          replies.push(given);
          return given.length;
        },
      }),
    ],
  });
}

async function borrowing(options: {
  readonly log: unknown[];
  readonly grant?: ExecutionGrant;
  readonly args?: Json;
  readonly provider?: Partial<ToolProvider>;
  readonly plugins?: readonly Plugin[];
}) {
  const { log, grant = grantOf(), args = { code: 1 }, provider = {}, plugins = [] } = options;
  const staged = await stage({
    plugins: [plugin("owner", { tools: vault(log, provider) }), borrower(grant, args), ...plugins],
    script: [callTool("borrow"), say("Done."), callTool("vault", { code: 1 }), say("Locked.")],
  });
  return { ...staged, played: await play(staged.session.turn("Go")) };
}

test("[K105] a granted call runs with its binding and its payload, under the name of its manifest", async () => {
  const log: unknown[] = [];
  const { played } = await borrowing({ log });
  expect(log).toEqual([
    ["prepare", { code: 1 }, { seat: 7 }],
    ["execute", { code: 1 }, "key", { seat: 7 }],
  ]);
  expect(outputsOf(played, "vault").map(successOf)).toEqual(["open"]);
});

test("[K105] catalog, state and generation are what they were, and the tool still cannot be called by name", async () => {
  const log: unknown[] = [];
  const staged = await stage({
    plugins: [plugin("owner", { tools: vault(log) }), borrower(grantOf(), { code: 1 })],
    script: [callTool("borrow"), say("Done."), callTool("vault", { code: 1 }), say("Locked.")],
  });
  const { session } = staged;
  const before = { state: session.tools.state(), names: session.tools.list().map(({ name }) => name) };
  await play(session.turn("Go"));
  expect({ state: session.tools.state(), names: session.tools.list().map(({ name }) => name) }).toEqual(
    before,
  );
  expect(before.names).not.toContain("vault");
  const { report } = await play(session.turn("Directly"));
  expect(failureOf(report.toolCalls[0]?.output).code).toBe("tool_unavailable");
  expect(log).toHaveLength(2);
});

test("[K105] the grant's contract checks the arguments, and hooks decide as about any call", async () => {
  const log: unknown[] = [];
  const invalid = await borrowing({ log, args: { code: "one" } });
  expect(failureOf(outputsOf(invalid.played, "vault")[0]).code).toBe("invalid_tool_args");
  const seen: unknown[] = [];
  const guard = plugin("guard", {
    toolCalls: {
      before: ({ toolName, args, callId }) => {
        if (toolName !== "vault") return undefined;
        seen.push([callId, args]);
        return { kind: "abort_turn", code: "no", message: "Not this one." };
      },
    },
  });
  const denied = await borrowing({ log, plugins: [guard] });
  expect(seen).toEqual([["call_1:00", { code: 1 }]]);
  expect(failureOf(outputsOf(denied.played, "vault")[0])).toMatchObject({
    code: "no",
    message: "Not this one.",
  });
  expect(log).toEqual([]);
});

test.each<[string, Partial<ExecutionGrant>, Partial<ToolProvider>, string]>([
  ["names no source", { sourceId: undefined as never }, {}, "granted_tool_unavailable"],
  ["names a source that has it not", { sourceId: "context" }, {}, "granted_tool_unavailable"],
  [
    "is for a tool that its source does not know",
    { manifest: { ...VAULT, id: "other" } },
    {},
    "granted_tool_unavailable",
  ],
  ["is for a provider without grants", {}, { executeGranted: undefined as never }, "grants_unsupported"],
])("[K105] a grant that %s is refused", async (_why, change, provider, code) => {
  const log: unknown[] = [];
  const { played } = await borrowing({ log, grant: { ...grantOf(), ...change }, provider });
  expect(failureOf(outputsOf(played, "vault")[0]).code).toBe(code);
  expect(log).toEqual([]);
});

test("[K105] a tool that is not granted sees no binding", async () => {
  const seen: unknown[] = [];
  const tool = defineTool({
    name: "plain",
    description: "Is plain.",
    input: { type: "object" },
    execute: (_input, context) => {
      seen.push(Object.hasOwn(context, "binding"));
      return null;
    },
  });
  const { session } = await stage({ tools: [tool], script: [callTool("plain"), say("Done.")] });
  await play(session.turn("Go"));
  expect(seen).toEqual([false]);
});

// Tools and a model that reach for what a session may be denied, for tests of what a host allows.

import {
  type AuthorityChange,
  type AuthorityLimits,
  defineTool,
  type ExecutionGrant,
  type HistoryNode,
  type JsonObject,
  type Plugin,
  type RuntimeOptions,
  type Session,
  type ToolDefinition,
  type ToolProvider,
} from "marling";
import { callTool, type ScriptFunction, say } from "marling/testing";
import { failureOf, outputsOf, play, plugin } from "./tools-support.ts";

const SECRET = { id: "secret-id", name: "secret", description: "Is secret." };
const CONTRACT = { inputSchema: { type: "object" } };
const GRANT: ExecutionGrant = { manifest: SECRET, contract: CONTRACT, sourceId: "plugins", binding: null };

/** What one model call uses. */
export const TOKENS = 10;

/** How a model reaches for something: what it says, and the tool that is called in the end. */
const REACHES = {
  secret: ["secret", {}],
  batch: ["batch", { calls: [{ tool: "secret", parameters: {} }] }],
  granted: ["caller", {}],
  inside: ["read", { path: "docs/a" }],
  outside: ["read", { path: "private/key" }],
} as const satisfies Readonly<Record<string, readonly [name: string, args: JsonObject]>>;
export type Reach = keyof typeof REACHES;

/** A plugin with the secret, which is told by name and by a grant. */
export const keeper: Plugin = plugin("keeper", () => {
  const provider: ToolProvider = {
    manifests: () => [SECRET],
    contract: () => CONTRACT,
    execute: () => "told",
    executeGranted: () => "told",
  };
  return { tools: [provider, caller] };
});

const caller = defineTool({
  name: "caller",
  description: "Calls the secret with a grant.",
  input: { type: "object" },
  execute: async (_args, { callTools }) =>
    (await callTools([{ name: "secret", args: {}, grant: GRANT }])).length,
});

const read = defineTool({
  name: "read",
  description: "Reads.",
  input: { type: "object" },
  pathArgs: ["path"],
  execute: () => "told",
}) as ToolDefinition;

/** A model that reaches as its user tells it and then is done. */
export const reaching: ScriptFunction = ({ messages }) => {
  const last = messages.findLastIndex(({ role }) => role === "user");
  const text = messages[last]?.parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("");
  const isDone = messages.slice(last).some(({ role }) => role === "assistant");
  const usage = { usage: { input: TOKENS, output: 0 } };
  const reach = REACHES[text as Reach];
  return isDone || reach === undefined ? say("done", usage) : callTool(reach[0], reach[1], usage);
};

export const WORLD: { readonly script: ScriptFunction } & Pick<RuntimeOptions, "plugins" | "tools"> = {
  plugins: [keeper],
  tools: [read],
  script: reaching,
};

/** What comes of reaching: `told`, or the code of what stands in the way. */
export async function reach(session: Session, how: Reach): Promise<string> {
  const played = await play(session.turn(how));
  const { outcome } = played.report;
  if (outcome.kind === "stopped") return outcome.code ?? outcome.reason;
  const [output] = outputsOf(played, REACHES[how][0] === "read" ? "read" : "secret");
  return output?.outcome.kind === "success" ? "told" : failureOf(output).code;
}

/** What each of the restrictions denies, and the way it does. */
export const RESTRICTIONS: readonly [what: string, limits: AuthorityLimits, reach: Reach, code: string][] = [
  ["a list of tools", { tools: ["read", "batch", "caller"] }, "secret", "tool_unavailable"],
  ["a list of tools, in a batch", { tools: ["read", "batch", "caller"] }, "batch", "tool_unavailable"],
  ["a list of tools, by a grant", { tools: ["read", "batch", "caller"] }, "granted", "tool_unavailable"],
  ["a list of no tools", { tools: [] }, "secret", "tool_unavailable"],
  ["a hidden tool", { hiddenTools: ["secret"] }, "secret", "tool_unavailable"],
  ["a hidden tool, in a batch", { hiddenTools: ["secret"] }, "batch", "tool_unavailable"],
  ["a hidden tool, by a grant", { hiddenTools: ["secret"] }, "granted", "tool_unavailable"],
  ["paths", { paths: ["./docs/"] }, "outside", "path_denied"],
  ["no paths", { paths: [] }, "inside", "path_denied"],
  ["a budget", { budget: { tokens: TOKENS } }, "inside", "budget_exhausted"],
];

/** Lifts whatever holds. */
export const EVERYTHING: AuthorityChange = {
  tools: undefined,
  hiddenTools: undefined,
  paths: undefined,
  budget: undefined,
};

export type RecordNode = Extract<HistoryNode, { readonly kind: "authority_change" }>;

/** The changes of authority that a history tells of. */
export async function records(session: Session): Promise<readonly RecordNode[]> {
  return (await session.history()).filter((node) => node.kind === "authority_change");
}

// What the servers are to a session: tools, a policy about them, and word of what is missing.
//   MC70  a turn waits, a bounded time, for servers of which nothing is known; it does not wait for those whose tools it has.
//   MC71  a server that cannot be reached and of which nothing is known is told to the model and to the trace: tools that are
//         missing are never missing in silence.
//   MC72  without a server that is required no turn begins, and no session opens where it is known by then.
//   MC73  texts of a server are no part of the prompt unless the host says so.

import {
  type Directive,
  type DurableState,
  definePlugin,
  directive,
  type Plugin,
  type PluginBuildContext,
  type PluginParts,
  type PromptContribution,
} from "../../index.ts";
import type { ApprovalDecision, ApprovalHookContext, ReadyContext } from "../../plugin/index.ts";
import type { McpConnection } from "./connection.ts";
import { ContractPins, type PinnedContracts } from "./contract-pins.ts";
import type { McpPool } from "./pool.ts";
import { serverDown } from "./server-down.ts";
import { type SeenTools, SessionTools } from "./session-tools.ts";
import { digestOf } from "./tool-contracts.ts";
import { ToolsRefresh } from "./tools-refresh.ts";

const LONGEST_INSTRUCTIONS = 4_096;

export function mcpPlugin(pool: McpPool): Plugin {
  return definePlugin({ id: "mcp", build: (ctx) => new McpSession(pool, ctx).parts() })();
}

class McpSession {
  readonly #pool: McpPool;
  readonly #seen: DurableState<SeenTools>;
  readonly #pins: ContractPins;
  readonly #tools: SessionTools;
  #refresh: ToolsRefresh | undefined;

  constructor(pool: McpPool, { durable }: Pick<PluginBuildContext, "durable">) {
    this.#pool = pool;
    this.#seen = durable<SeenTools>({ name: "seen", version: 1, initial: () => ({}) });
    this.#pins = new ContractPins(
      durable<PinnedContracts>({ name: "pins", version: 1, initial: () => ({}) }),
    );
    this.#tools = new SessionTools(pool, { seen: this.#seen, pins: this.#pins });
  }

  parts(): PluginParts {
    const fault = this.#pool.connections.find((connection) => connection.fault !== undefined)?.fault;
    if (fault !== undefined) throw fault;
    const missing = this.#unknown().find(({ settings, state }) => settings.required && state === "down");
    if (missing !== undefined) throw serverDown(missing);
    const release = this.#pool.use();
    return {
      tools: this.#tools,
      context: { prepareTurn: { transform: () => this.#awaitServers() } },
      turn: { before: () => this.#begin() },
      prompt: () => this.#contribute(),
      toolCalls: { after: ({ callId }) => this.#pins.finished(callId) },
      approval: { request: (call) => this.#decide(call) },
      ready: (ctx) => this.#listen(ctx),
      dispose: async () => {
        this.#refresh?.stop();
        await release();
      },
    };
  }

  #listen({ sessionId, host }: ReadyContext): void {
    this.#refresh = new ToolsRefresh(this.#tools, {
      listen: (moved) => this.#pool.listen(moved),
      refresh: () => host.setToolMembership(sessionId, [], true),
    });
  }

  /** Servers of which neither this process nor the session knows anything. */
  #unknown(): readonly McpConnection[] {
    return this.#pool.connections.filter((connection) => this.#tools.knownOf(connection) === undefined);
  }

  async #awaitServers(): Promise<undefined> {
    const unknown = this.#unknown();
    const awaited = this.#pool.connections.filter((connection) => {
      const { state, failures, settings } = connection;
      if (state === "ready") return false;
      return settings.required || (unknown.includes(connection) && failures === 0);
    });
    this.#pool.wake();
    await Promise.all(awaited.map((connection) => connection.connect()));
  }

  /** Notes what the servers offer now, and what is missing. */
  #begin(): readonly Directive[] {
    this.#pins.forgetQuestions();
    this.#note();
    const missing = this.#pool.connections.filter(({ state }) => state !== "ready");
    const required = missing.find(({ settings }) => settings.required);
    const traces = missing.map(({ name, state, reason = null }) =>
      directive.emitTrace({ name: "server_down", payload: { server: name, state, reason } }),
    );
    if (required === undefined) return traces;
    const { code, message } = serverDown(required);
    return [...traces, directive.abortTurn({ code, message })];
  }

  #note(): void {
    const known = this.#pool.connections.flatMap(({ name, list }) =>
      list === undefined ? [] : [[name, list.tools] as const],
    );
    const seen = this.#seen.get();
    const next: SeenTools = { ...seen, ...Object.fromEntries(known) };
    if (digestsIn(next) !== digestsIn(seen)) this.#seen.set(next);
    for (const { name } of this.#tools.manifests()) {
      const offered = this.#tools.find(name);
      if (offered !== undefined) this.#pins.see(offered);
    }
  }

  #decide({ callId, toolName }: ApprovalHookContext): ApprovalDecision | undefined {
    const offered = this.#tools.find(toolName);
    return offered === undefined ? undefined : this.#pins.decide(callId, offered);
  }

  #contribute(): readonly PromptContribution[] {
    const missing = this.#unknown().map(({ name }) => name);
    const notices: readonly PromptContribution[] =
      missing.length === 0
        ? []
        : [{ slot: "runtime_context", title: "Tools that are missing", content: missingText(missing) }];
    return [...notices, ...this.#pool.connections.flatMap(instructionsOf)];
  }
}

function missingText(names: readonly string[]): string {
  return `These MCP servers could not be reached, so their tools are not available now: ${names.join(", ")}. Say so when something would have needed them.`;
}

function instructionsOf({ name, settings, instructions = "" }: McpConnection): readonly PromptContribution[] {
  const content = instructions.trim().slice(0, LONGEST_INSTRUCTIONS);
  if (!settings.instructions || content === "") return [];
  return [{ slot: "guidance", title: `Instructions of the MCP server ${name}`, content }];
}

function digestsIn(seen: SeenTools): string {
  return digestOf(
    Object.entries(seen)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([server, tools]) => [server, tools.map(({ name, digest }) => [name, digest])]),
  );
}

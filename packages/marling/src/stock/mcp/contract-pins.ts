// Which contracts were agreed to in a session.
//   MC60  policy is by server, tool and digest of the contract. With `ask`, a contract is agreed to when a call of it was let
//         through; with `allow`, when the session saw it first. Any other contract of the tool asks.
//   MC61  contracts that the host agreed to beforehand, and servers that are trusted always, ask nothing here.
//   MC62  what was agreed to is part of the session: it survives restarts and goes with forks.

import type { DurableState } from "../../index.ts";
import type { ApprovalDecision } from "../../plugin/index.ts";
import type { OfferedTool } from "./session-tools.ts";

/** Digests by server and tool. */
export type PinnedContracts = { readonly [server: string]: { readonly [tool: string]: string } };

export class ContractPins {
  readonly #state: DurableState<PinnedContracts>;
  /** Calls that somebody was asked about, with the contracts that were shown. */
  readonly #asked = new Map<string, string>();
  /** Calls that run, with the contracts that were decided about. */
  readonly #running = new Map<string, { readonly offered: OfferedTool; readonly digest: string }>();

  constructor(state: DurableState<PinnedContracts>) {
    this.#state = state;
  }

  /** What this policy says of a call; nothing when it has no objection. */
  decide(callId: string, offered: OfferedTool): ApprovalDecision | undefined {
    const { server, connection, tool } = offered;
    const { approve, approved } = connection.settings;
    if (approve === "always" || approvedBefore(approved, tool.tool) === tool.digest) return undefined;
    const pinned = this.#pinned(offered);
    if (pinned === tool.digest) return undefined;
    if (pinned === undefined && approve === "allow") {
      this.#keep(offered, tool.digest);
      return undefined;
    }
    const reason =
      pinned === undefined
        ? `The tool ${tool.tool} of the MCP server ${server} is called for the first time.`
        : `The MCP server ${server} changed what the tool ${tool.tool} is since it was agreed to.`;
    this.#asked.set(callId, tool.digest);
    return { decision: "ask", reason };
  }

  /** Whether a call is about the contract that somebody was asked about, if anybody was. */
  isAsAsked(callId: string, { tool }: OfferedTool): boolean {
    const asked = this.#asked.get(callId) ?? tool.digest;
    this.#asked.delete(callId);
    return asked === tool.digest;
  }

  /** A turn begins: nobody comes back to questions of earlier ones. */
  forgetQuestions(): void {
    this.#asked.clear();
  }

  /** A call runs, so everybody who was asked has agreed to it. */
  letThrough(callId: string, call: { readonly offered: OfferedTool; readonly digest: string }): void {
    this.#running.set(callId, call);
  }

  /** A call is over: what was agreed to for it is agreed to from now on, however it ended. */
  finished(callId: string): void {
    const call = this.#running.get(callId);
    if (call === undefined) return;
    this.#running.delete(callId);
    if (call.offered.connection.settings.approve !== "always") this.#keep(call.offered, call.digest);
  }

  #keep(offered: OfferedTool, digest: string): void {
    const { server, tool } = offered;
    if (this.#pinned(offered) === digest) return;
    this.#state.update((pins) => ({ ...pins, [server]: { ...pins[server], [tool.tool]: digest } }));
  }

  /** Agrees to what a session sees for the first time, where the host allows that. */
  see(offered: OfferedTool): void {
    const { connection, tool } = offered;
    if (connection.settings.approve === "allow" && this.#pinned(offered) === undefined)
      this.#keep(offered, tool.digest);
  }

  #pinned({ server, tool }: OfferedTool): string | undefined {
    return approvedBefore(this.#state.get()[server] ?? {}, tool.tool);
  }
}

function approvedBefore(digests: Readonly<Record<string, string>>, tool: string): string | undefined {
  return Object.hasOwn(digests, tool) ? digests[tool] : undefined;
}

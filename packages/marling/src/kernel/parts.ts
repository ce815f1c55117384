// What the kernel is made of: values that go down from the composition root and are never bound later.

import type { Clock } from "../base/clock.ts";
import type { EffectHost } from "../effects/contract.ts";
import type { ModelPort } from "../llm/contract.ts";
import type { MessageInput } from "../model/message.ts";
import type { PluginHost } from "../plugin/plugin-host.ts";
import type { PhaseProbe } from "../plugin/probe.ts";
import type { SessionCreated, SessionCreateRequest } from "../plugin/session-create.ts";
import type { Store } from "../store/contract.ts";
import type { TraceSink } from "../trace/contract.ts";
import type { Approvals } from "./approvals.ts";
import type { AttachmentPolicy } from "./attachments.ts";
import type { ChildSession } from "./child-turns.ts";
import type { ResidentSession } from "./resident-session.ts";
import type { RuntimeWork } from "./runtime-work.ts";
import type { LeaseTerms } from "./session-lease.ts";
import type { StoreWatch } from "./store-watch.ts";
import type { TurnRun } from "./turn-run.ts";
import type { Waits } from "./waits.ts";

/** A model under a name. */
export interface ModelBinding {
  readonly name: string;
  readonly port: ModelPort;
  readonly contextWindow: number | undefined;
  readonly maxOutputTokens: number | undefined;
}

export interface KernelParts {
  readonly store: Store;
  readonly effects: EffectHost;
  readonly clock: Clock;
  readonly trace: TraceSink | undefined;
  readonly models: ReadonlyMap<string, ModelBinding>;
  readonly plugins: PluginHost;
  readonly waits: Waits;
  readonly approvals: Approvals;
  readonly watch: StoreWatch;
  readonly leases: LeaseTerms;
  /** A stable name of this worker. */
  readonly owner: string;
  readonly instructions: string | undefined;
  readonly turnBudget: number | "unbounded";
  /** Tool calls of one response that run at once. */
  readonly toolConcurrency: number;
  readonly attachmentPolicy: AttachmentPolicy | undefined;
  /** What one turn may add to its session. */
  readonly commitBytes: number;
  readonly probe: PhaseProbe | undefined;
  readonly sessions: SessionDirectory;
  /** What goes on beside turns, in all sessions. */
  readonly work: RuntimeWork;
}

/** The sessions that are open in this runtime. */
export interface SessionDirectory {
  find(sessionId: string): ResidentSession | undefined;
  /** Keeps an id for a session that is being made, until the function is called; nothing when it is taken. */
  reserve(sessionId: string): (() => void) | undefined;
  /** Inside an effect, the session that an earlier run of the effect made is the one that is asked for. */
  create(request: SessionCreateRequest, from: ResidentSession, scope?: TurnRun): Promise<SessionCreated>;
  /** A session below another, opened if it is not open. */
  openBelow(sessionId: string, from: ResidentSession): Promise<ChildSession>;
  /** What a session below was created with, once. */
  takeFirstTurnInput(sessionId: string, from: ResidentSession): Promise<MessageInput | undefined>;
  /** Asks the turns of an open session to end. */
  cancelTurns(sessionId: string): Promise<void>;
  close(sessionId: string, from: ResidentSession): Promise<void>;
}

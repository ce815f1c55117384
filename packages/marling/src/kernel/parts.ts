// What the kernel is made of: values that go down from the composition root and are never bound later.

import type { Clock } from "../base/clock.ts";
import type { RetryTerms } from "../base/retry-refused.ts";
import type { SharedValues } from "../base/shared-values.ts";
import type { EffectHost } from "../effects/contract.ts";
import type { ModelPort } from "../llm/contract.ts";
import type { AnswerLimits } from "../model/answer-limits.ts";
import type { SessionId } from "../model/ids.ts";
import type { MessageInput } from "../model/message.ts";
import type { PluginHost } from "../plugin/plugin-host.ts";
import type { PhaseProbe } from "../plugin/probe.ts";
import type { SessionCreated, SessionCreateRequest } from "../plugin/session-create.ts";
import type { RenderedPrompt } from "../prompt/cache.ts";
import type { Store } from "../store/contract.ts";
import type { TraceSink } from "../trace/contract.ts";
import type { AdmitOptions, Admitted } from "./admit.ts";
import type { Approvals } from "./approvals.ts";
import type { AttachmentPolicy } from "./attachments.ts";
import type { ChildSession } from "./child-turns.ts";
import type { KeptEnvironment } from "./environment.ts";
import type { ResidentSession } from "./resident-session.ts";
import type { RuntimeWork } from "./runtime-work.ts";
import type { LeaseTerms } from "./session-lease.ts";
import type { StoreWatch } from "./store-watch.ts";
import type { Triggers } from "./triggers.ts";
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
  /** Whose sessions these are, where the store has tenants. */
  readonly tenant: string | undefined;
  /** A stable name of this worker. */
  readonly owner: string;
  readonly instructions: string | undefined;
  /** What sessions have the same of. */
  readonly prompts: SharedValues<RenderedPrompt>;
  readonly environments: SharedValues<KeptEnvironment>;
  readonly turnBudget: number | "unbounded";
  /** Tool calls of one response that run at once. */
  readonly toolConcurrency: number;
  /** How long an attempt of a tool may take that does not say so itself. */
  readonly toolTimeoutMs: number | undefined;
  readonly attachmentPolicy: AttachmentPolicy | undefined;
  /** What one answer of a model may have. */
  readonly answerLimits: AnswerLimits;
  /** What one turn may add to its session. */
  readonly commitBytes: number;
  /** How long writes that the store refuses are tried again. */
  readonly retry: RetryTerms;
  readonly probe: PhaseProbe | undefined;
  /** Plugins that sessions no longer need, and why. */
  readonly retired: ReadonlyMap<string, string>;
  /** Builds sessions without plugins, to be read only. */
  readonly readers: PluginHost;
  readonly sessions: SessionDirectory;
  /** What goes on beside turns, in all sessions. */
  readonly work: RuntimeWork;
  readonly triggers: Triggers;
}

/** The sessions that are open in this runtime. */
export interface SessionDirectory {
  find(sessionId: string): ResidentSession | undefined;
  /** Keeps an id for a session that is being made, until the function is called; nothing when it is taken. */
  reserve(sessionId: string): (() => void) | undefined;
  /** Inside an effect, the session that an earlier run of the effect made is the one that is asked for. */
  create(request: SessionCreateRequest, from: ResidentSession, scope?: TurnRun): Promise<SessionCreated>;
  /** Gives a session an input from outside; one that is not open is opened for as long as that takes. */
  submit(sessionId: SessionId, input: unknown, options: AdmitOptions): Promise<Admitted>;
  /** A session below another, opened if it is not open. */
  openBelow(sessionId: string, from: ResidentSession): Promise<ChildSession>;
  /** Lets sessions go that nobody asked for but the turn that is over, and in which nothing goes on. */
  leave(sessionIds: Iterable<string>): Promise<void>;
  /** What a session below was created with, once. */
  takeFirstTurnInput(sessionId: string, from: ResidentSession): Promise<MessageInput | undefined>;
  /** Asks the turns of an open session to end. */
  cancelTurns(sessionId: string): Promise<void>;
  close(sessionId: string, from: ResidentSession): Promise<void>;
  /** Whether the runtime closes, or is closed. */
  isClosing(): boolean;
}

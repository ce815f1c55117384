// The public face of a session: every method is a sentence about one file of the kernel.

import { MarlingError } from "../base/errors.ts";
import type { Json, JsonObject } from "../model/json.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { ToolOutput } from "../model/tool-output.ts";
import type { TurnInput, TurnReport } from "../model/turn.ts";
import type { UsageEntry } from "../model/usage.ts";
import { limitsOf } from "../plugin/fork.ts";
import type { AppendNodesResult } from "../plugin/host-services.ts";
import type { OperationDef } from "../plugin/operation.ts";
import type { PluginDefinition } from "../plugin/plugin.ts";
import type { AuthorityChange, AuthorityLimits } from "../session/frame.ts";
import type { AppendNode } from "../session/node.ts";
import type { HistoryNode, SessionView } from "../session/view.ts";
import type { CancelStatus, WithdrawOutcome } from "../store/contract.ts";
import type { InferSchema, Schema } from "../tool/contract.ts";
import { appendNodes } from "./append-nodes.ts";
import { type AuthorizeOptions, authorizeSession } from "./authorize.ts";
import { drivable, requireBindings } from "./bindings.ts";
import { compactSession } from "./compact.ts";
import { reconfigureSession } from "./configure.ts";
import type { ObserveOptions, SessionObservation } from "./observation.ts";
import { observeSession } from "./observe-session.ts";
import {
  type CommandReceipt,
  invokeAction,
  type OperationOptions,
  queryPlugin,
  runCommand,
  runTask,
  type TaskReceipt,
} from "./operations.ts";
import { type PendingInput, pendingInputs, withdrawInputs } from "./pending-inputs.ts";
import { type PluginHandle, pluginHandle } from "./plugin-handle.ts";
import type { ResidentSession } from "./resident-session.ts";
import { type SessionTools, sessionTools } from "./session-tools.ts";
import { outputReader } from "./structured-output.ts";
import { type Turn, TurnHandle } from "./turn-handle.ts";
import type { OnParked, TurnQueue } from "./turn-queue.ts";
import { type MonitorAdmin, monitorAdmin, type TaskAdmin, taskAdmin } from "./work-admin.ts";

export interface TurnOptions {
  /** The turn's id; by default derived. Asking again with the same id and content is the same turn. */
  readonly id?: string;
  /** An idempotency key: the same key and content is the same turn, other content is a conflict. */
  readonly key?: string;
  /** Aborting it cancels the turn. */
  readonly signal?: AbortSignal;
  /** What the turn carries for plugins, by plugin id. */
  readonly pluginInputs?: Readonly<Record<string, unknown>>;
  /** A live extension for the protocol of the session. */
  readonly extension?: unknown;
  /** What to do when a turn of the session waits for somebody: queue behind it (default), cancel it, or reject this one. */
  readonly onParked?: OnParked;
}

export interface EnqueueOptions {
  readonly key?: string;
  /** Join the turn that runs at its next checkpoint (default), or be a turn of its own after it. */
  readonly deliver?: "active_turn" | "next_turn";
}

export type CancelOutcome = WithdrawOutcome;

export interface UsageReport {
  readonly entries: readonly UsageEntry[];
}

export interface RunResult<T> {
  readonly text: string;
  readonly value: T;
  readonly report: TurnReport;
}

export class Session implements AsyncDisposable {
  readonly id: string;
  readonly tools: SessionTools;
  readonly tasks: TaskAdmin;
  readonly monitors: MonitorAdmin;
  readonly #resident: ResidentSession;
  readonly #queue: TurnQueue;
  readonly #close: () => Promise<void>;

  constructor(
    resident: ResidentSession,
    { queue, close }: { readonly queue: TurnQueue; readonly close: () => Promise<void> },
  ) {
    this.id = resident.id;
    this.#resident = resident;
    this.#queue = queue;
    this.#close = close;
    this.tools = sessionTools(resident);
    this.tasks = taskAdmin(resident);
    this.monitors = monitorAdmin(resident);
  }

  /**
   * Whether this runtime lacks a plugin, the model or a tool source of the session. Then `read`, `history`, `observe`,
   * `pending`, `usage`, `cancel`, `cancelPending` and the approvals work; everything else is `needs_binding`.
   */
  get isReadOnly(): boolean {
    const { isReader, bindings } = this.#resident;
    return isReader || bindings.missing.length > 0;
  }

  /** Accepts an input and runs a turn with it; a turn that runs already goes first. */
  turn(input: string | TurnInput, options: TurnOptions = {}): Turn {
    return this.#submit(input, options, undefined);
  }

  /** Runs a turn and returns its answer, checked against `output`. Throws when the turn stopped. */
  async run<S extends Schema | undefined = undefined>(
    input: string | TurnInput,
    options: TurnOptions & { readonly output?: S } = {},
  ): Promise<RunResult<S extends Schema ? InferSchema<S> : Json | undefined>> {
    const reader = outputReader(options.output);
    const report = await this.#submit(input, options, reader.jsonSchema).result;
    const { outcome } = report;
    if (outcome.kind === "stopped") {
      throw new MarlingError(
        "turn_stopped",
        `turn ${report.turnId} stopped: ${outcome.reason}${outcome.message === undefined ? "" : `: ${outcome.message}`}`,
        {
          details: { report },
        },
      );
    }
    return { text: report.text, value: (await reader.read(outcome)) as never, report };
  }

  /** The operations of one plugin, by name and with their types. */
  plugin<P extends PluginDefinition>(plugin: P): PluginHandle<P> {
    return pluginHandle(this, plugin);
  }

  /** Asks a turn to end, whichever process it runs in. The transcript so far is kept. */
  async cancel(turnId: string, reason = "cancelled by the host"): Promise<CancelStatus> {
    return this.#queue.cancel(turnId, reason);
  }

  /** Accepts an input without waiting for its turn: it joins the turn that runs, or becomes the next one. */
  async enqueue(
    input: string | TurnInput,
    options: EnqueueOptions = {},
  ): Promise<{ readonly inputId: string; readonly status: "accepted" | "duplicate" }> {
    const { key, deliver = "active_turn" } = options;
    if (deliver !== "active_turn" && deliver !== "next_turn") {
      const message = `option deliver: expected active_turn or next_turn, found ${String(deliver)}`;
      throw new MarlingError("invalid_options", message, { details: { option: "deliver" } });
    }
    const { row, status } = await this.#queue.submit(input, {
      key,
      ...(deliver === "active_turn" ? { deliver } : {}),
    });
    return { inputId: row.inputId, status };
  }

  /** Inputs that were accepted and not settled yet, in order. */
  async pending(): Promise<readonly PendingInput[]> {
    return pendingInputs(this.#resident);
  }

  /** Takes inputs back that no turn has yet; says of each what became of it. */
  async cancelPending(ids: readonly string[]): Promise<readonly CancelOutcome[]> {
    return withdrawInputs(this.#resident, ids);
  }

  /**
   * What happens in the session from now on, or since a cursor: events of turns, commits, and a gap with the view of now
   * where something was missed. Leaving the loop costs nothing.
   */
  observe(options: ObserveOptions = {}): AsyncIterable<SessionObservation> {
    return observeSession(this.#resident, options);
  }

  /** The settled state, as plain JSON. */
  read(): SessionView {
    return this.#resident.readView().toJSON();
  }

  /** The whole path, all frames, oldest first. */
  async history(): Promise<readonly HistoryNode[]> {
    return this.#resident.state.graph.path.toArray();
  }

  /** What was spent, by source and model; failed and retried attempts included. */
  usage(): UsageReport {
    return { entries: this.#resident.state.ledger };
  }

  /** Changes what the session runs with, after the turn that runs. Resolves after its handlers. */
  async configure(patch: Partial<SessionPolicy>): Promise<void> {
    this.#refuseClosed();
    await reconfigureSession(this.#resident, patch);
  }

  /** What the session may do now; what is left out is not restricted. */
  get authority(): AuthorityLimits {
    return limitsOf(this.#resident.frame.assignment.authority);
  }

  /**
   * Changes what the session may do, even beyond its parent, after a turn that runs or sleeps, in whichever process. Members that are given
   * stand in the place of what holds; `undefined` lifts a restriction. The reason is kept with the change, as a node of the
   * history that no model sees. Sessions below it that are there already keep what they have. Throws `invalid_options`.
   */
  async authorize(change: AuthorityChange, options: AuthorizeOptions): Promise<void> {
    const refuseClosed = (): void => this.#refuseClosed();
    refuseClosed();
    await authorizeSession(this.#resident, { change, options, refuseClosed });
  }

  /** Asks the compactors for a shorter beginning of a new frame; false when none had one. */
  async compact(instructions?: string): Promise<boolean> {
    this.#refuseClosed();
    return this.#resident.writer.run(() => compactSession(this.#resident, instructions));
  }

  /** Appends nodes beside any turn; a required ancestor that is not on the active path writes nothing. */
  async appendNodes(
    nodes: readonly AppendNode[],
    options: { readonly requiresAncestor?: string } = {},
  ): Promise<AppendNodesResult> {
    this.#refuseClosed();
    return appendNodes(this.#resident, { nodes, ...options });
  }

  async query(name: string, args?: unknown, options?: OperationOptions): Promise<Json> {
    this.#refuseClosed();
    return queryPlugin(this.#resident, { name, args, ...(options === undefined ? {} : { options }) });
  }

  async command(name: string, args?: unknown, options?: OperationOptions): Promise<CommandReceipt> {
    this.#refuseClosed();
    return runCommand(this.#resident, this.#queue, {
      name,
      args,
      ...(options === undefined ? {} : { options }),
    });
  }

  async task(name: string, args?: unknown, options?: OperationOptions): Promise<TaskReceipt> {
    this.#refuseClosed();
    return runTask(this.#resident, this.#queue, {
      name,
      args,
      ...(options === undefined ? {} : { options }),
    });
  }

  /** The older form of an operation: a failure is in the result. */
  async action(name: string, args?: unknown, options?: OperationOptions): Promise<ToolOutput> {
    this.#refuseClosed();
    return invokeAction(this.#resident, { name, args, ...(options === undefined ? {} : { options }) });
  }

  /** Queries, commands, tasks and actions, each by name. */
  operations(): readonly OperationDef[] {
    return drivable(this.#resident).plugins.operations();
  }

  /** Hands an extension to the protocol of the session, which refuses it unless it knows it. */
  async applyExtension(extension: unknown): Promise<void> {
    this.#refuseClosed();
    requireBindings(this.#resident);
    const { protocolSession } = this.#resident.plugins;
    if (protocolSession.applySessionExtension === undefined) {
      throw new MarlingError(
        "protocol_failed",
        `session ${this.id}: expected a protocol that accepts session extensions, found one that does not`,
      );
    }
    await protocolSession.applySessionExtension(extension);
  }

  /** Waits for accepted turns and lets the session go; its stored state stays. */
  close(): Promise<void> {
    return this.#close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#close();
  }

  #submit(input: string | TurnInput, options: TurnOptions, outputSchema: JsonObject | undefined): Turn {
    const { id, key, signal, pluginInputs, extension, onParked } = options;
    const expectedId = id ?? this.#queue.expectedId();
    const submitted = this.#queue.submit(input, {
      id,
      key,
      pluginInputs,
      extension,
      outputSchema,
      onParked: readOnParked(onParked),
    });
    if (signal !== undefined) this.#cancelOn(signal, submitted);
    return new TurnHandle(submitted, expectedId);
  }

  #cancelOn(signal: AbortSignal, submitted: ReturnType<TurnQueue["submit"]>): void {
    const cancel = (turn: Awaited<typeof submitted>["turn"]): void => {
      const reason = signal.reason instanceof Error ? signal.reason.message : String(signal.reason);
      turn.control.request(reason); // Nothing begins any more while the store is told.
      // Whoever awaits the turn is told when the store cannot take the request.
      this.#queue.cancel(turn.row.turnId, reason).catch(() => turn.control.cancel(reason));
    };
    submitted.then(
      ({ turn }) => {
        if (signal.aborted) return cancel(turn);
        const onAbort = (): void => cancel(turn);
        signal.addEventListener("abort", onAbort, { once: true });
        const forget = (): void => signal.removeEventListener("abort", onAbort);
        turn.done.promise.then(forget, forget);
      },
      () => undefined,
    );
  }

  #refuseClosed(): void {
    this.#queue.closing.refuse();
  }
}

function readOnParked(onParked: OnParked = "queue"): OnParked {
  if (onParked === "queue" || onParked === "cancel" || onParked === "reject") return onParked;
  const message = `option onParked: expected queue, cancel or reject, found ${String(onParked)}`;
  throw new MarlingError("invalid_options", message, { details: { option: "onParked" } });
}

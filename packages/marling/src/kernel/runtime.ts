// The runtime: which sessions are open, and how they come and go.

import { MarlingError } from "../base/errors.ts";
import { type NodeId, nodeId, type SessionId, sessionId } from "../model/ids.ts";
import { decodeJsonObject, type JsonObject } from "../model/json.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { PluginHost } from "../plugin/plugin-host.ts";
import type { SessionCreated, SessionCreateRequest } from "../plugin/session-create.ts";
import type { SessionAuthority } from "../session/frame.ts";
import { currentFrame } from "../session/graph.ts";
import type { InboxRow, ResolveStatus, SessionFilter, SessionPage, VacuumReport } from "../store/contract.ts";
import { announceAgain } from "./announce.ts";
import { requireBindings } from "./bindings.ts";
import { configureSession } from "./configure.ts";
import { createSession } from "./create-session.ts";
import { type OpenedSession, openSession } from "./open-session.ts";
import type { KernelParts, SessionDirectory } from "./parts.ts";
import { Recovery, type RecoveryReport } from "./recovery.ts";
import type { ResidentSession } from "./resident-session.ts";
import { reachable } from "./services.ts";
import { Session } from "./session.ts";
import { decodeState } from "./session-state.ts";
import { type QueuedTurn, TurnQueue } from "./turn-queue.ts";

export interface SessionOptions {
  /** Options of plugins for this session, by plugin id. */
  readonly plugins?: Readonly<Record<string, unknown>>;
  readonly instructions?: string;
  /** The name of one of the runtime's models. */
  readonly model?: string;
  /** The id that the model must have; another model under the name is a `provider_mismatch`. */
  readonly modelId?: string;
  readonly maxTurns?: number | "unbounded";
  readonly prompt?: SessionPolicy["prompt"];
  /** The session that this one belongs to. */
  readonly parent?: string;
}

export interface VacuumOptions {
  /** How long what is over stays, so that whoever comes late is told so; seven days by default. */
  readonly keepMs?: number;
}

const KEEP_MS = 7 * 24 * 60 * 60 * 1000;

const SESSION_OPTIONS: readonly (keyof SessionOptions)[] = [
  "plugins",
  "instructions",
  "model",
  "modelId",
  "maxTurns",
  "prompt",
  "parent",
];

export interface SessionAdmin {
  list(filter?: SessionFilter): Promise<SessionPage>;
  exists(id: string): Promise<boolean>;
  /** Deletes a session; its id is retired for ever. */
  delete(id: string): Promise<void>;
  /** A new session that shares the history up to a commit of another; no node is copied. */
  fork(id: string, to: { readonly as: string; readonly at?: string }): Promise<Session>;
}

/** How a runtime came to have a session open. */
interface Open {
  readonly resident: ResidentSession;
  readonly queue: TurnQueue;
  /** Turns that an earlier process accepted and did not finish. */
  readonly recovered: readonly QueuedTurn[];
  readonly handle: Session;
  /** Nobody asked for it but the work that was left in it: it goes when that is done. */
  isForRecovery: boolean;
  /** Set while it is let go: whoever wants it then waits, and opens it anew. */
  closing: Promise<void> | undefined;
}

export class Runtime implements AsyncDisposable {
  /** Resolves when the store is open and recovery has begun. Methods await it by themselves. */
  readonly ready: Promise<void>;
  readonly sessions: SessionAdmin;
  readonly #parts: KernelParts;
  readonly #open = new Map<string, Promise<Open>>();
  readonly #resident = new Map<string, ResidentSession>();
  /** Ids of sessions that are being made. */
  readonly #reserved = new Set<string>();
  readonly #recovery: Recovery;
  #isClosed = false;

  constructor(parts: Omit<KernelParts, "sessions">) {
    const directory: SessionDirectory = {
      find: (id) => this.#resident.get(id),
      reserve: (id) => this.#reserve(id),
      create: (request, from) => this.#create(request, from),
      close: (id, from) => this.#closeFor(id, from),
    };
    this.#parts = { ...parts, sessions: directory };
    this.sessions = Object.freeze({
      list: async (filter = {}) => parts.store.list(filter),
      exists: async (id: string) => parts.store.exists(sessionId(id)),
      delete: (id: string) => this.#delete(sessionId(id)),
      fork: (id: string, to: { readonly as: string; readonly at?: string }) => this.#fork(sessionId(id), to),
    });
    this.#recovery = new Recovery(this.#parts, (id) => this.#openForRecovery(id));
    this.ready = this.#recovery.start();
    this.ready.catch(() => undefined); // Every method says what is wrong with the store.
  }

  get plugins(): PluginHost {
    return this.#parts.plugins;
  }

  /** Opens a session, or begins one. An open session is the same object; options given then configure it. */
  async session(id: string, options: SessionOptions = {}): Promise<Session> {
    this.#refuseClosed();
    const wanted = sessionId(id);
    const { policy, pluginOptions, parent } = readOptions(options, this.#parts);
    const isNew = pluginOptions !== undefined || parent !== undefined;
    for (let known = this.#open.get(wanted); known !== undefined; known = this.#open.get(wanted)) {
      const open = await known;
      if (isNew || open.closing !== undefined) {
        await this.#makeWay(open);
        continue;
      }
      open.isForRecovery = false;
      const { handle, resident } = open;
      if (Object.keys(policy).length > 0) await resident.writer.run(() => configureSession(resident, policy));
      return handle;
    }
    const { handle } = await this.#track(wanted, async () => {
      const parentAuthority = parent === undefined ? undefined : await this.#authorityOf(parent);
      return openSession(this.#parts, wanted, { policy, pluginOptions, parent, parentAuthority });
    });
    return handle;
  }

  /**
   * Finishes turns that were accepted and not finished, in whichever sessions they are. Resolves when each is committed or
   * sleeps; joins what the beginning of the runtime or the opening of a session has begun.
   */
  async recover(): Promise<RecoveryReport> {
    this.#refuseClosed();
    await this.ready;
    await this.#recovery.sweep();
    const open = await Promise.allSettled(this.#open.values());
    await Promise.all(
      open.map((one) =>
        one.status === "fulfilled" ? one.value.queue.quiet(one.value.recovered) : undefined,
      ),
    );
    return this.#recovery.report();
  }

  /** Completes a tool call that waits, in whichever process; its turn goes on by itself. */
  async resolve(
    waitKey: string,
    value: { readonly ok: unknown } | { readonly error: { readonly code: string; readonly message: string } },
  ): Promise<ResolveStatus> {
    this.#refuseClosed();
    return this.#parts.waits.resolve(waitKey, "completion", value);
  }

  /** Removes what nothing needs any more, and says what it removed. Nobody has to wait for it. */
  async vacuum(options: VacuumOptions = {}): Promise<VacuumReport> {
    this.#refuseClosed();
    const { keepMs = KEEP_MS } = options;
    if (!(keepMs >= 0)) {
      const message = `option keepMs: expected a number of milliseconds from 0 on, found ${String(keepMs)}`;
      throw new MarlingError("invalid_options", message, { details: { option: "keepMs" } });
    }
    return this.#parts.store.vacuum({ now: this.#parts.clock.now(), keepMs });
  }

  /** Takes no more work, waits for what was accepted, and lets everything go. Turns that sleep are left to the store. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#recovery.stop();
    const open = await Promise.allSettled(this.#open.values());
    await Promise.all(
      open.map(async (settled) =>
        settled.status === "fulfilled" ? this.#release(settled.value, "runtime_closed") : undefined,
      ),
    );
    this.#parts.watch.close();
    await this.#parts.store.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Registers an opening at once, so that two callers of one id get one session. */
  #track(
    id: SessionId,
    open: () => Promise<OpenedSession>,
    { isForRecovery = false }: { readonly isForRecovery?: boolean } = {},
  ): Promise<Open> {
    const opening = open().then(async ({ session, inputs, unannounced }) => {
      const queue = new TurnQueue(session, inputs);
      if (unannounced.length > 0)
        session.writer.run(() => announceAgain(session, unannounced)).catch(() => undefined); // The next opening tries again.
      const recovered = queue.enqueue(await this.#unfinished(id), { isRecovery: true });
      const entry: { -readonly [K in keyof Open]: Open[K] } = {
        resident: session,
        queue,
        recovered,
        handle: undefined as never,
        isForRecovery,
        closing: undefined,
      };
      entry.handle = new Session(session, { queue, close: () => this.#release(entry, "session_closed") });
      this.#resident.set(id, session);
      for (const turn of recovered) this.#recovery.note(turn);
      return entry;
    });
    this.#open.set(id, opening);
    opening.catch(() => this.#open.delete(id));
    return opening;
  }

  /** A session that is open for recovery only makes way for options that need it opened anew; another is refused. */
  async #makeWay(open: Open): Promise<void> {
    if (open.closing === undefined && !open.isForRecovery) throw openAlready(open.resident.id);
    if (open.closing === undefined) await open.queue.quiet(open.recovered).catch(() => undefined); // Whoever waits is told.
    await this.#release(open, "session_closed");
  }

  /** Opens a session for the work that was left in it. */
  async #openForRecovery(id: SessionId): Promise<void> {
    if (this.#isClosed || this.#open.has(id) || this.#reserved.has(id)) return;
    const opening = this.#track(id, () => this.#openBound(id), { isForRecovery: true });
    this.#letGoWhenDone(await opening).catch(() => undefined); // What it cannot let go goes with the runtime.
  }

  async #openBound(id: SessionId): Promise<OpenedSession> {
    await requireBindings(this.#parts, id);
    return openSession(this.#parts, id, { policy: {}, pluginOptions: undefined, parent: undefined });
  }

  async #letGoWhenDone(open: Open): Promise<void> {
    await open.queue.quiet(open.recovered).catch(() => undefined); // Whoever waits for the turn is told.
    if (open.isForRecovery && open.queue.isAsleep) await this.#release(open, "session_closed");
  }

  /** Inputs without a committed turn. Without a journal nothing outlives the process that accepted them. */
  async #unfinished(id: SessionId): Promise<readonly InboxRow[]> {
    const { store, effects } = this.#parts;
    return effects.remembers === true ? store.pending(id) : [];
  }

  #reserve(id: string): (() => void) | undefined {
    if (this.#open.has(id) || this.#reserved.has(id)) return undefined;
    this.#reserved.add(id);
    return () => void this.#reserved.delete(id);
  }

  /** What a session may do, open or stored. */
  async #authorityOf(id: SessionId): Promise<SessionAuthority> {
    const open = this.#resident.get(id);
    if (open !== undefined) return open.frame.assignment.authority;
    const stored = await this.#parts.store.load(id);
    if (stored === undefined)
      throw new MarlingError(
        "unknown_session",
        `option parent: expected a session that exists, found ${id}`,
        { details: { sessionId: id } },
      );
    return currentFrame(decodeState(stored).graph).assignment.authority;
  }

  async #create(request: SessionCreateRequest, from: ResidentSession): Promise<SessionCreated> {
    this.#refuseClosed();
    const session = await createSession(from, request);
    await this.#track(session.id, async () => ({ session, inputs: 0, unannounced: [] }));
    return { sessionId: session.id };
  }

  async #closeFor(id: string, from: ResidentSession): Promise<void> {
    if (id === from.id)
      throw new MarlingError(
        "session_busy",
        `session ${id}: expected another session to close, found the current one`,
      );
    const open = await this.#open.get(id);
    if (open === undefined) return;
    reachable(from, id);
    if (open.queue.isBusy)
      throw new MarlingError(
        "session_busy",
        `session ${id}: expected an idle session to close, found one with a running turn`,
      );
    await this.#release(open, "session_closed");
  }

  #release(open: Open, code: "session_closed" | "runtime_closed"): Promise<void> {
    open.closing ??= this.#letGo(open, code);
    return open.closing;
  }

  async #letGo({ resident, queue }: Open, code: "session_closed" | "runtime_closed"): Promise<void> {
    await queue.close(code);
    if (this.#resident.get(resident.id) !== resident) return;
    this.#open.delete(resident.id);
    this.#resident.delete(resident.id);
    this.#parts.plugins.unregisterSession(resident.id);
    resident.observation.close();
    await resident.plugins.dispose();
  }

  async #delete(id: SessionId): Promise<void> {
    this.#refuseClosed();
    const open = await this.#open.get(id);
    if (open !== undefined) await this.#release(open, "session_closed");
    await this.#parts.store.delete(id);
  }

  async #fork(id: SessionId, { as, at }: { readonly as: string; readonly at?: string }): Promise<Session> {
    this.#refuseClosed();
    const to = sessionId(as);
    const point: { readonly at?: NodeId } = at === undefined ? {} : { at: nodeId(at) };
    await this.#parts.store.fork({ from: id, as: to, ...point });
    const { handle, resident } = await this.#track(to, async () =>
      openSession(this.#parts, to, { policy: {}, pluginOptions: undefined, parent: undefined, isFork: true }),
    );
    if (resident.plugins.hasRuntimeEventHooks)
      await resident.plugins.emitRuntimeEvent({ kind: "session_forked", sessionId: to, from: id });
    return handle;
  }

  #refuseClosed(): void {
    if (this.#isClosed)
      throw new MarlingError("runtime_closed", "expected an open runtime, found a closed one");
  }
}

function readOptions(
  options: SessionOptions,
  parts: KernelParts,
): {
  readonly policy: Partial<SessionPolicy>;
  readonly pluginOptions: JsonObject | undefined;
  readonly parent: SessionId | undefined;
} {
  const unknown = Object.keys(options).find((name) => !(SESSION_OPTIONS as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new MarlingError(
      "invalid_options",
      `option ${unknown}: expected one of ${SESSION_OPTIONS.join(", ")}`,
      { details: { option: unknown } },
    );
  const { plugins, parent, ...policy } = options;
  if (policy.model !== undefined && !parts.models.has(policy.model)) {
    throw new MarlingError(
      "provider_unavailable",
      `option model: expected one of ${[...parts.models.keys()].join(", ")}, found ${String(policy.model)}`,
      { details: { providerId: policy.model } },
    );
  }
  const defined = Object.fromEntries(
    Object.entries(policy).filter(([, value]) => value !== undefined),
  ) as Partial<SessionPolicy>;
  const pluginOptions = plugins === undefined ? undefined : decodeJsonObject(plugins, "option plugins");
  const stranger = Object.keys(pluginOptions ?? {}).find(
    (pluginId) => !parts.plugins.plugins.some(({ id }) => id === pluginId),
  );
  if (stranger !== undefined)
    throw new MarlingError(
      "unknown_plugin",
      `option plugins: expected ids of the runtime's plugins, found ${stranger}`,
      { details: { pluginId: stranger } },
    );
  return { policy: defined, pluginOptions, parent: parent === undefined ? undefined : sessionId(parent) };
}

function openAlready(id: SessionId): MarlingError {
  return new MarlingError(
    "session_busy",
    `session ${id}: expected a closed session to give it plugin options or a parent, found an open one`,
  );
}

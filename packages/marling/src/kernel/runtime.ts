// The runtime: which sessions are open, and how they come and go.

import { MarlingError } from "../base/errors.ts";
import { type NodeId, nodeId, type SessionId, sessionId } from "../model/ids.ts";
import { decodeJsonObject, type JsonObject } from "../model/json.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { PluginHost } from "../plugin/plugin-host.ts";
import type { SessionCreated, SessionCreateRequest } from "../plugin/session-create.ts";
import type { SessionAuthority } from "../session/frame.ts";
import { currentFrame } from "../session/graph.ts";
import type { InboxRow, SessionFilter, SessionPage } from "../store/contract.ts";
import { configureSession } from "./configure.ts";
import { createSession } from "./create-session.ts";
import { openSession } from "./open-session.ts";
import type { KernelParts, SessionDirectory } from "./parts.ts";
import type { ResidentSession } from "./resident-session.ts";
import { reachable } from "./services.ts";
import { Session } from "./session.ts";
import { decodeState } from "./session-state.ts";
import { type QueuedTurn, TurnQueue } from "./turn-queue.ts";
import type { ResolveStatus, Waits } from "./waits.ts";

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

interface Open {
  readonly resident: ResidentSession;
  readonly queue: TurnQueue;
  /** Turns that an earlier process accepted and did not finish. */
  readonly recovered: readonly QueuedTurn[];
  readonly handle: Session;
}

export class Runtime implements AsyncDisposable {
  /** Resolves when the store is open. Methods await it by themselves. */
  readonly ready: Promise<void> = Promise.resolve();
  readonly sessions: SessionAdmin;
  readonly #parts: KernelParts;
  readonly #open = new Map<string, Promise<Open>>();
  readonly #resident = new Map<string, ResidentSession>();
  /** Ids of sessions that are being made. */
  readonly #reserved = new Set<string>();
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
  }

  get plugins(): PluginHost {
    return this.#parts.plugins;
  }

  /** Opens a session, or begins one. An open session is the same object; options given then configure it. */
  async session(id: string, options: SessionOptions = {}): Promise<Session> {
    this.#refuseClosed();
    const wanted = sessionId(id);
    const { policy, pluginOptions, parent } = readOptions(options, this.#parts);
    const known = this.#open.get(wanted);
    if (known !== undefined) {
      const { handle, resident } = await known;
      if (pluginOptions !== undefined || parent !== undefined) throw openAlready(wanted);
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
   * Finishes turns that were accepted and not finished, in whichever sessions they are. Resolves when each is committed;
   * joins what the opening of a session has begun.
   */
  async recover(): Promise<{
    readonly resumed: readonly { readonly sessionId: string; readonly turnId: string }[];
  }> {
    this.#refuseClosed();
    if (this.#parts.store.journal !== undefined)
      for (const id of await this.#parts.store.unsettled()) await this.session(id);
    const open = await Promise.all(this.#open.values());
    const turns = open.flatMap(({ recovered }) => recovered);
    await Promise.all(turns.map(({ done }) => done.promise));
    return { resumed: turns.map(({ row }) => ({ sessionId: row.sessionId, turnId: row.turnId })) };
  }

  /** Completes a tool call that waits. */
  async resolve(
    waitKey: string,
    value: { readonly ok: unknown } | { readonly error: { readonly code: string; readonly message: string } },
  ): Promise<ResolveStatus> {
    return this.#waits.resolve(waitKey, value);
  }

  /** Takes no more work, waits for what was accepted, and lets everything go. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const open = await Promise.allSettled(this.#open.values());
    await Promise.all(
      open.map(async (settled) =>
        settled.status === "fulfilled" ? this.#release(settled.value) : undefined,
      ),
    );
    await this.#parts.store.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  get #waits(): Waits {
    return this.#parts.waits;
  }

  /** Registers an opening at once, so that two callers of one id get one session. */
  #track(
    id: SessionId,
    open: () => Promise<{ readonly session: ResidentSession; readonly inputs: number }>,
  ): Promise<Open> {
    const opening = open().then(async ({ session, inputs }) => {
      const queue = new TurnQueue(session, inputs);
      const recovered = queue.enqueue(await this.#unfinished(id), { isRecovery: true });
      const entry: { -readonly [K in keyof Open]: Open[K] } = {
        resident: session,
        queue,
        recovered,
        handle: undefined as never,
      };
      entry.handle = new Session(session, { queue, close: () => this.#release(entry) });
      this.#resident.set(id, session);
      return entry;
    });
    this.#open.set(id, opening);
    opening.catch(() => this.#open.delete(id));
    return opening;
  }

  /** Inputs without a committed turn. Without a journal nothing outlives the process that accepted them. */
  async #unfinished(id: SessionId): Promise<readonly InboxRow[]> {
    const { store } = this.#parts;
    return store.journal === undefined ? [] : store.pending(id);
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
    await this.#track(session.id, async () => ({ session, inputs: 0 }));
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
    await this.#release(open);
  }

  async #release({ resident, queue }: Open): Promise<void> {
    await queue.close();
    if (this.#resident.get(resident.id) !== resident) return;
    this.#open.delete(resident.id);
    this.#resident.delete(resident.id);
    this.#parts.plugins.unregisterSession(resident.id);
    await resident.plugins.dispose();
  }

  async #delete(id: SessionId): Promise<void> {
    this.#refuseClosed();
    const open = await this.#open.get(id);
    if (open !== undefined) await this.#release(open);
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

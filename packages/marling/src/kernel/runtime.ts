// The runtime: which sessions are open, and how they come and go.

import { MarlingError } from "../base/errors.ts";
import { type NodeId, nodeId, type SessionId, sessionId } from "../model/ids.ts";
import { decodeJsonObject, type JsonObject } from "../model/json.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { PluginHost } from "../plugin/plugin-host.ts";
import type { AuthorityChange, AuthorityLimits, SessionAuthority } from "../session/frame.ts";
import type { ResolveStatus, SessionFilter, SessionPage, VacuumReport } from "../store/contract.ts";
import type { ApprovalQuestion } from "./approval.ts";
import type { ApprovalAdmin, ApprovalVerdict } from "./approvals.ts";
import { readLimits } from "./authority-limits.ts";
import { reconfigureSession } from "./configure.ts";
import { openFork, openSession } from "./open-session.ts";
import { OpenSessions } from "./open-sessions.ts";
import type { KernelParts } from "./parts.ts";
import { Recovery, type RecoveryReport } from "./recovery.ts";
import type { Session } from "./session.ts";
import { readFilter } from "./session-filter.ts";
import { storedAssignment } from "./session-state.ts";
import { refuseNested, type Tenancy, Tenants } from "./tenants.ts";
import type { TriggerPump } from "./trigger-pump.ts";
import type { TriggerAdmin } from "./triggers.ts";

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
  /**
   * What a session that begins may do, at most as much as its parent; by default everything, or what its parent may. A
   * session that is there already keeps what is stored with it: see `session.authority` and `session.authorize`.
   */
  readonly authority?: AuthorityLimits;
}

export interface VacuumOptions {
  /** How long what is over stays, so that whoever comes late is told so; seven days by default. */
  readonly keepMs?: number;
}

export interface CloseOptions {
  /**
   * How long turns that run may take to end, five seconds by default. Until then they may do everything that they could
   * before. Those that have not ended are left to the store, as a crash would leave them; where nothing is stored they are
   * cancelled.
   */
  readonly graceMs?: number;
}

const CLOSE_GRACE_MS = 5_000;
const KEEP_MS = 7 * 24 * 60 * 60 * 1000;

const SESSION_OPTIONS: readonly (keyof SessionOptions)[] = [
  "plugins",
  "instructions",
  "model",
  "modelId",
  "maxTurns",
  "prompt",
  "parent",
  "authority",
];

export interface SessionAdmin {
  list(filter?: SessionFilter): Promise<SessionPage>;
  exists(id: string): Promise<boolean>;
  /**
   * Opens a session without driving it: nothing that was left in it is taken up. Never creates one: `unknown_session`. On a
   * runtime that lacks what the session needs the handle is read-only.
   */
  open(id: string): Promise<Session>;
  /** Deletes a session; its id is retired for ever. */
  delete(id: string): Promise<void>;
  /** A new session that shares the history up to a commit of another; no node is copied. */
  fork(id: string, to: { readonly as: string; readonly at?: string }): Promise<Session>;
}

/** Which part of its store a runtime has: all of it, with its tenants, or what one of them has. */
export type RuntimePlace =
  | { readonly kind: "whole"; readonly tenancy: Tenancy }
  | { readonly kind: "tenant"; readonly tenant: string; readonly onClosed: () => void };

export class Runtime implements AsyncDisposable {
  /** Resolves when the store is open and recovery has begun. Methods await it by themselves. */
  readonly ready: Promise<void>;
  readonly sessions: SessionAdmin;
  /** Calls that wait for a decision. */
  readonly approvals: ApprovalAdmin;
  /** What occurs outside, and which sessions hear of it. */
  readonly triggers: TriggerAdmin;
  readonly #parts: KernelParts;
  readonly #open: OpenSessions;
  readonly #recovery: Recovery;
  readonly #place: RuntimePlace;
  readonly #tenants: Tenants | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: Omit<KernelParts, "sessions" | "work" | "triggers">, place: RuntimePlace) {
    this.#place = place;
    this.#tenants = place.kind === "whole" ? new Tenants(place.tenancy) : undefined;
    this.#open = new OpenSessions(parts, (turn) => this.#recovery.note(turn));
    this.#parts = this.#open.parts;
    this.approvals = Object.freeze({
      list: (filter?: { readonly sessionId?: string }) => parts.approvals.list(filter),
      decide: (question: Pick<ApprovalQuestion, "digest">, verdict: ApprovalVerdict) =>
        parts.approvals.decide(question, verdict),
    });
    this.triggers = this.#triggerAdmin();
    this.sessions = Object.freeze({
      list: async (filter?: SessionFilter) => parts.store.list(readFilter(filter)),
      exists: async (id: string) => parts.store.exists(sessionId(id)),
      open: (id: string) => this.#openToRead(sessionId(id)),
      delete: (id: string) => this.#delete(sessionId(id)),
      fork: (id: string, to: { readonly as: string; readonly at?: string }) => this.#fork(sessionId(id), to),
    });
    this.#recovery = new Recovery(this.#parts, {
      takeUpAll: (isStopped) => this.#takeUpAll(isStopped),
      open: (id) => this.#open.openForRecovery(id),
      openForWork: (id) => this.#open.openForWork(id),
      isTimed: place.kind === "whole",
      onTime: () => this.#parts.triggers.pump.wake(),
    });
    this.ready = this.#recovery.start();
    this.ready.catch(() => undefined); // Every method says what is wrong with the store.
    if (place.kind === "whole") {
      const others = (now: number) => this.#triggeredTenants(now);
      this.#parts.triggers.pump.start(others);
    }
  }

  /** The tenant whose runtime it is; nothing for that of the whole store. */
  get tenant(): string | undefined {
    return this.#place.kind === "tenant" ? this.#place.tenant : undefined;
  }

  /**
   * The runtime of a tenant: the same models, tools and plugins, and a part of the store that nobody else reaches.
   * The same one until it is closed; closed with this one.
   */
  scope(tenant: string): Runtime {
    this.#refuseClosed();
    if (this.#tenants === undefined) throw refuseNested(this.tenant ?? "");
    return this.#tenants.scope(tenant);
  }

  get plugins(): PluginHost {
    return this.#parts.plugins;
  }

  /** Opens a session, or begins one. An open session is the same object; options given then configure it. */
  async session(id: string, options: SessionOptions = {}): Promise<Session> {
    this.#refuseClosed();
    const wanted = sessionId(id);
    const { policy, pluginOptions, parent, limits } = readOptions(options, this.#parts);
    const isNew = pluginOptions !== undefined || parent !== undefined;
    const { entry, wasOpen } = await this.#open.open(wanted, { isNew }, async () => {
      const parentAuthority = parent === undefined ? undefined : await this.#authorityOf(parent);
      return openSession(this.#parts, wanted, { policy, pluginOptions, parent, parentAuthority, limits });
    });
    if (wasOpen && Object.keys(policy).length > 0) await reconfigureSession(entry.resident, policy);
    return entry.handle;
  }

  /**
   * Finishes turns that were accepted and not finished, in whichever sessions they are. Resolves when each is committed or
   * sleeps; joins what the beginning of the runtime or the opening of a session has begun. Durable tasks go on as well,
   * and are not waited for.
   */
  async recover(): Promise<RecoveryReport> {
    this.#refuseClosed();
    await this.ready.catch(() => undefined); // The sweep says what is wrong with the store, if it still is.
    await this.#parts.triggers.pump.drain();
    await this.#recovery.sweep();
    if (await this.#open.quiet()) await this.#recovery.sweep(); // It says which sessions are skipped.
    return this.#withTenants(await this.#recoverTenants());
  }

  /** Completes a tool call that waits, in whichever process; its turn goes on by itself. Taken within the grace of a close. */
  async resolve(
    waitKey: string,
    value: { readonly ok: unknown } | { readonly error: { readonly code: string; readonly message: string } },
  ): Promise<ResolveStatus> {
    this.#open.closing.refuse();
    return this.#parts.waits.resolve(waitKey, "completion", value);
  }

  /** Removes what nothing needs any more, and says what it removed. Nobody has to wait for it. */
  async vacuum(options: VacuumOptions = {}): Promise<VacuumReport> {
    this.#refuseClosed();
    const { keepMs = KEEP_MS } = options;
    checkMs("keepMs", keepMs);
    return this.#parts.store.vacuum({ now: this.#parts.clock.now(), keepMs });
  }

  /**
   * Takes no more work, waits for what was accepted within the grace, and lets everything go. Turns that sleep are left to the
   * store, unless a turn that runs waits for them; one in memory that waits for an answer is cancelled, since nobody can give
   * it any more. No refusal of a closing runtime is recorded as the failure of a tool, a hook or a task.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const { graceMs = CLOSE_GRACE_MS } = options;
    checkMs("graceMs", graceMs);
    this.#closing ??= this.#close({ graceMs });
    return this.#closing;
  }

  async #close(grace: Required<CloseOptions>): Promise<void> {
    for (const { 1: runtime } of this.#tenants?.open ?? []) runtime.#open.closing.begin(grace);
    this.#open.closing.begin(grace);
    await this.#parts.triggers.pump.stop();
    await this.#recovery.stop();
    await Promise.all([this.#tenants?.close(grace), this.#open.close(grace)]);
    this.#parts.watch.close();
    await this.#parts.store.close();
    if (this.#place.kind === "tenant") this.#place.onClosed();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #takeUpAll(isStopped: () => boolean): Promise<void> {
    for (const { id, tenant } of await this.#found("workable")) {
      if (isStopped()) return;
      await this.#recoveryOf(tenant).takeUp(id);
    }
    for (const { id, tenant } of await this.#found("resumable")) {
      if (isStopped()) return;
      await this.#recoveryOf(tenant).takeUpWork(id);
    }
  }

  async #found(what: "workable" | "resumable"): ReturnType<Tenancy["workable"]> {
    const { store, clock } = this.#parts;
    const now = clock.now();
    if (this.#tenants !== undefined) return this.#tenants[what](now);
    return (await store[what](now)).map((id) => ({ id }));
  }

  #recoveryOf(tenant: string | undefined): Recovery {
    return (tenant === undefined ? this : this.scope(tenant)).#recovery;
  }

  async #recoverTenants(): Promise<readonly [string, RecoveryReport][]> {
    const scopes = [...(this.#tenants?.open ?? [])];
    return Promise.all(
      scopes.map(async ([tenant, runtime]) => {
        await runtime.#open.quiet();
        return [tenant, runtime.#report()] as [string, RecoveryReport];
      }),
    );
  }

  #report(): RecoveryReport {
    const report = this.#recovery.report();
    return { ...report, skipped: [...report.skipped, ...this.#parts.triggers.pump.skipped] };
  }

  async #triggeredTenants(now: number): Promise<readonly TriggerPump[]> {
    const runtimes = (await this.#tenants?.triggered(now)) ?? [];
    return runtimes.map((runtime) => runtime.#parts.triggers.pump);
  }

  #triggerAdmin(): TriggerAdmin {
    const { triggers } = this.#parts;
    const open = (): TriggerAdmin => {
      this.#refuseClosed();
      return triggers;
    };
    return Object.freeze<TriggerAdmin>({
      subscribe: async (request) => open().subscribe(request),
      unsubscribe: async (id) => open().unsubscribe(id),
      setEnabled: async (id, isEnabled) => open().setEnabled(id, isEnabled),
      subscriptions: async (filter) => open().subscriptions(filter),
      emit: async (event) => open().emit(event),
    });
  }

  #withTenants(reports: readonly [string, RecoveryReport][]): RecoveryReport {
    const { resumed, resumedWork, skipped } = this.#report();
    const told = <T>(tenant: string, items: readonly T[]): readonly (T & { readonly tenant: string })[] =>
      items.map((item) => ({ ...item, tenant }));
    return {
      resumed: [...resumed, ...reports.flatMap(([tenant, report]) => told(tenant, report.resumed))],
      resumedWork: [
        ...resumedWork,
        ...reports.flatMap(([tenant, report]) => told(tenant, report.resumedWork)),
      ],
      skipped: [...skipped, ...reports.flatMap(([tenant, report]) => told(tenant, report.skipped))],
    };
  }

  /** What a session may do, open or stored. */
  async #authorityOf(id: SessionId): Promise<SessionAuthority> {
    const open = this.#open.find(id);
    if (open !== undefined) return open.frame.assignment.authority;
    const stored = await this.#parts.store.load(id, { isPartial: true });
    if (stored === undefined)
      throw new MarlingError(
        "unknown_session",
        `option parent: expected a session that exists, found ${id}`,
        { details: { sessionId: id } },
      );
    return storedAssignment(stored).authority;
  }

  async #openToRead(id: SessionId): Promise<Session> {
    this.#refuseClosed();
    return this.#open.openToRead(id);
  }

  async #delete(id: SessionId): Promise<void> {
    this.#refuseClosed();
    await this.#open.releaseDeleted(id);
    await this.#parts.store.delete(id);
  }

  async #fork(id: SessionId, { as, at }: { readonly as: string; readonly at?: string }): Promise<Session> {
    this.#refuseClosed();
    const to = sessionId(as);
    const point: { readonly at?: NodeId } = at === undefined ? {} : { at: nodeId(at) };
    const forked = await this.#parts.store.fork({ from: id, as: to, ...point });
    const { handle, resident } = await this.#open.track(to, () =>
      openFork(this.#parts, forked, this.#open.find(id)),
    );
    if (resident.plugins.hasRuntimeEventHooks)
      await resident.plugins.emitRuntimeEvent({ kind: "session_forked", sessionId: to, from: id });
    return handle;
  }

  #refuseClosed(): void {
    if (this.#closing !== undefined)
      throw new MarlingError("runtime_closed", "expected an open runtime, found a closed one");
  }
}

function checkMs(option: string, ms: number): void {
  if (ms >= 0) return;
  const message = `option ${option}: expected a number of milliseconds from 0 on, found ${String(ms)}`;
  throw new MarlingError("invalid_options", message, { details: { option } });
}

function readOptions(
  options: SessionOptions,
  parts: KernelParts,
): {
  readonly policy: Partial<SessionPolicy>;
  readonly pluginOptions: JsonObject | undefined;
  readonly parent: SessionId | undefined;
  readonly limits: AuthorityChange | undefined;
} {
  const unknown = Object.keys(options).find((name) => !(SESSION_OPTIONS as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new MarlingError(
      "invalid_options",
      `option ${unknown}: expected one of ${SESSION_OPTIONS.join(", ")}`,
      { details: { option: unknown } },
    );
  const { plugins, parent, authority, ...policy } = options;
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
  return {
    policy: defined,
    pluginOptions,
    parent: parent === undefined ? undefined : sessionId(parent),
    limits: authority === undefined ? undefined : readLimits(authority, "authority"),
  };
}

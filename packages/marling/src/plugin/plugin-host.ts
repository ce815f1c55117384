// The plugins of an application, and the sessions that were built from them.
//   PH1  plugin ids are unique; builtins come first, and a plugin with the id of a builtin takes its place.
//   PH2  a session that fails to build leaves nothing behind: it is not registered, and what was built is disposed in
//        reverse order.
//   PH3  sessions are known by id as long as somebody holds them; an id has one live session.

import { type Clock, systemClock } from "../base/clock.ts";
import { MarlingError } from "../base/errors.ts";
import type { ToolState } from "../tool/contract.ts";
import { buildPluginSession } from "./build-session.ts";
import { collectExtensions, type PluginExtension, type PluginExtensions } from "./extensions.ts";
import type { AuthorityRequest } from "./fork.ts";
import type { ToolCatalogContribution } from "./hook-context.ts";
import type { HostServices } from "./host-services.ts";
import type { Plugin } from "./plugin.ts";
import type { PluginSession } from "./plugin-session.ts";
import type { PluginSessionSnapshot } from "./snapshot.ts";

export interface PluginHostOptions {
  /** How long a hook may take, waiting for effects aside; 30 seconds by default. */
  readonly hookTimeoutMs?: number;
  readonly clock?: Clock;
  /** Plugins that come before the given ones, and that a given one may replace by its id. */
  readonly builtins?: readonly Plugin[];
  /** Stands in the place of what the plugins contribute. */
  readonly extensions?: readonly PluginExtension[];
}

export interface BuildSessionOptions {
  readonly parent?: string | undefined;
  readonly snapshot?: PluginSessionSnapshot | undefined;
  /** Tools that the session's catalog goes without. */
  readonly overlay?: ToolCatalogContribution | undefined;
  readonly toolState?: ToolState | undefined;
  readonly authority?: AuthorityRequest | undefined;
  /** The snapshot is another session's: declared state follows its fork policy. */
  readonly isFork?: boolean | undefined;
  /** What plugins may ask for from `ready` on; a kernel gives it later, with `bindHost`. */
  readonly services?: Partial<HostServices> | undefined;
}

const HOOK_TIMEOUT_MS = 30_000;
/** What a timer can count. */
const LONGEST_TIMEOUT_MS = 2_147_483_647;

/** Makes a host. Throws `duplicate_plugin`, `invalid_plugin` or `invalid_options`. */
export function createPluginHost(plugins: readonly Plugin[], options: PluginHostOptions = {}): PluginHost {
  return new PluginHost(plugins, options);
}

export class PluginHost {
  /** Builtins that were not replaced, then the given plugins in order. */
  readonly plugins: readonly Plugin[];
  readonly extensions: PluginExtensions;
  readonly hookTimeoutMs: number;
  readonly clock: Clock;
  readonly #given: readonly Plugin[];
  readonly #options: PluginHostOptions;
  readonly #sessions = new Map<string, WeakRef<PluginSession>>();

  constructor(plugins: readonly Plugin[], options: PluginHostOptions = {}) {
    this.#given = checkPlugins(plugins);
    this.#options = options;
    const ids = new Set(this.#given.map(({ id }) => id));
    const builtins = (options.builtins ?? []).filter(({ id }) => !ids.has(id));
    this.plugins = Object.freeze([...builtins, ...this.#given]);
    this.extensions = collectExtensions(
      options.extensions ?? this.plugins.flatMap(({ extensions }) => extensions),
    );
    this.hookTimeoutMs = checkTimeout(options.hookTimeoutMs ?? HOOK_TIMEOUT_MS);
    this.clock = options.clock ?? systemClock;
  }

  /** A live session. Throws `unknown_session`. */
  session(sessionId: string): PluginSession {
    const session = this.#sessions.get(sessionId)?.deref();
    if (session !== undefined) return session;
    this.#sessions.delete(sessionId);
    throw new MarlingError(
      "unknown_session",
      `plugin host: expected a live session ${sessionId}, found none`,
      { details: { sessionId } },
    );
  }

  /** Forgets a session, whether it is known or not; the session itself goes on. */
  unregisterSession(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }

  /**
   * Builds a session from all plugins, in order: build, register, declared state, `ready`, low-level restore.
   * Throws `duplicate_session` while a session with the id is live; an empty id is never registered.
   */
  buildSession(sessionId: string, options: BuildSessionOptions = {}): PluginSession {
    if (typeof sessionId !== "string")
      throw new MarlingError("invalid_id", `session id: expected a string, found ${typeof sessionId}`);
    this.#refuseLive(sessionId);
    return buildPluginSession(this, sessionId, {
      ...options,
      register: (session) => {
        this.#refuseLive(sessionId);
        if (sessionId !== "") this.#sessions.set(sessionId, new WeakRef(session));
      },
    });
  }

  /** Forgets a session if it is the one that is known by its id. */
  release(session: PluginSession): void {
    if (this.#sessions.get(session.sessionId)?.deref() === session) this.#sessions.delete(session.sessionId);
  }

  /** The same plugins, with no sessions. */
  isolatedRegistry(): PluginHost {
    return new PluginHost(this.#given, this.#options);
  }

  #refuseLive(sessionId: string): void {
    if (this.#sessions.get(sessionId)?.deref() === undefined) return;
    throw new MarlingError(
      "duplicate_session",
      `plugin host: session ${sessionId} is live already; expected a new id`,
      { details: { sessionId } },
    );
  }
}

function checkPlugins(plugins: readonly Plugin[]): readonly Plugin[] {
  if (!Array.isArray(plugins))
    throw new MarlingError("invalid_options", `plugins: expected an array, found ${typeof plugins}`);
  const seen = new Set<string>();
  for (const [index, plugin] of plugins.entries()) {
    checkPlugin(plugin, index);
    if (seen.has(plugin.id)) {
      throw new MarlingError(
        "duplicate_plugin",
        `plugins: expected one plugin with the id ${plugin.id}, found two`,
        { details: { pluginId: plugin.id } },
      );
    }
    seen.add(plugin.id);
  }
  return Object.freeze([...plugins]);
}

function checkPlugin(plugin: unknown, index: number): void {
  const refuse = (found: string): MarlingError =>
    new MarlingError("invalid_plugin", `plugins[${index}]: expected a plugin, found ${found}`, {
      details: { member: `plugins[${index}]` },
    });
  if (typeof plugin === "function")
    throw refuse(
      `the definition ${(plugin as { id?: string }).id ?? "of one"}: call it, with options or without`,
    );
  const { id, version, extensions, build, decodeOptions } = (plugin ?? {}) as Partial<Plugin>;
  if (typeof id !== "string" || typeof build !== "function" || typeof decodeOptions !== "function")
    throw refuse("something that definePlugin did not make");
  if (typeof version !== "string" || !Array.isArray(extensions))
    throw refuse(`plugin ${id} without version or extensions`);
}

function checkTimeout(hookTimeoutMs: number): number {
  const isFine =
    hookTimeoutMs === Number.POSITIVE_INFINITY || (hookTimeoutMs > 0 && hookTimeoutMs <= LONGEST_TIMEOUT_MS);
  if (typeof hookTimeoutMs === "number" && isFine) return hookTimeoutMs;
  throw new MarlingError(
    "invalid_options",
    `hookTimeoutMs: expected milliseconds up to ${LONGEST_TIMEOUT_MS} or Infinity, found ${String(hookTimeoutMs)}`,
    {
      details: { option: "hookTimeoutMs" },
    },
  );
}

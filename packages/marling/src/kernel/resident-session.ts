// A session in memory: its committed state, its tools under the overlay, and what is cached of them.
//   RS1  the catalog is cached by (base tools, overlay revision, registry generation, plugin fingerprint); failures are not.
//   RS2  before any overlay the active registry is the plugin session's own object; an overlay is an independent copy.
//   RS3  an overlay or a refresh that fails changes nothing.
//   RS4  state moves only by `adopt`, after a commit.

import { MarlingError, messageOf } from "../base/errors.ts";
import { SerialQueue } from "../base/serial-queue.ts";
import type { SharedList } from "../base/shared-list.ts";
import type { FrameId, SessionId } from "../model/ids.ts";
import type { Message } from "../model/message.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { PromptContribution } from "../model/prompt.ts";
import { NO_USAGE, addUsage } from "../model/usage.ts";
import { type HostServices, type HostView, type HostViewName, hostView } from "../plugin/host-services.ts";
import type { PluginSession } from "../plugin/plugin-session.ts";
import type { TurnPreamble } from "../plugin/protocol.ts";
import { PromptCache } from "../prompt/cache.ts";
import type { Frame } from "../session/frame.ts";
import { createReadView } from "../session/read-view.ts";
import type { SessionReadView } from "../session/view.ts";
import type { ToolCatalog } from "../tool/catalog.ts";
import type { ToolManifest, ToolProvider } from "../tool/contract.ts";
import type { ToolRegistry } from "../tool/registry.ts";
import type { KernelParts } from "./parts.ts";
import type { SessionState } from "./session-state.ts";
import type { TurnControl } from "./turn-control.ts";

interface CatalogEntry {
  readonly catalog: ToolCatalog;
  readonly preamble: TurnPreamble;
  listed: readonly ToolManifest[] | undefined;
}

/** What code that runs in the sandbox says while it runs. */
export type MessageSender = (message: { readonly kind: string; readonly text: string }) => void;

export class ResidentSession {
  readonly id: SessionId;
  readonly plugins: PluginSession;
  readonly parts: KernelParts;
  readonly promptCache: PromptCache = new PromptCache();
  /** Turns, commands and configuration, one after the other. */
  readonly writer: SerialQueue = new SerialQueue();
  /** Appends and commits, which may land during a turn. */
  readonly commits: SerialQueue = new SerialQueue();
  /** The turn that runs, if one does. */
  running: { readonly turnId: string; readonly control: TurnControl } | undefined;
  #state: SessionState;
  #registry: ToolRegistry;
  #includeBaseTools = true;
  #overlayRevision = 0;
  #contextTools: readonly ToolProvider[] = [];
  #contextPrompts: readonly PromptContribution[] = [];
  #messageSender: MessageSender | undefined;
  readonly #catalogs = new Map<string, CatalogEntry>();
  readonly #views = new Map<HostViewName, unknown>();
  readonly #services: HostServices;

  constructor(parts: KernelParts, init: { readonly plugins: PluginSession; readonly state: SessionState; services(session: ResidentSession): HostServices }) {
    this.parts = parts;
    this.plugins = init.plugins;
    this.id = init.state.graph.sessionId;
    this.#state = init.state;
    this.#registry = init.plugins.toolRegistry;
    this.#services = init.services(this);
  }

  get state(): SessionState {
    return this.#state;
  }

  /** Takes over what a commit made true. */
  adopt(state: SessionState): void {
    this.#state = state;
  }

  get frame(): Frame {
    const { frames, currentFrameId } = this.#state.graph;
    const frame = frames.findLast((candidate) => candidate.id === currentFrameId);
    if (frame === undefined) throw new MarlingError("missing_frame", `session ${this.id}: expected frame ${currentFrameId}, found none`);
    return frame;
  }

  get frameId(): FrameId {
    return this.#state.graph.currentFrameId;
  }

  get policy(): SessionPolicy {
    return this.frame.assignment.policy;
  }

  /** The narrow host of a hook; made once. */
  host<Name extends HostViewName>(name: Name): HostView<Name> {
    const known = this.#views.get(name) ?? hostView(this.#services, name);
    this.#views.set(name, known);
    return known as HostView<Name>;
  }

  get services(): HostServices {
    return this.#services;
  }

  /** The session at its last commit; `messages` stand in for those of the frame when a turn is in flight. */
  readView(messages?: SharedList<Message>): SessionReadView {
    const { graph, revision, turnIndex, ledger, lastPromptUsage } = this.#state;
    const usage = ledger.reduce((sum, entry) => addUsage(sum, entry.usage), NO_USAGE);
    return createReadView({ graph, policy: this.policy, revision, turnIndex, usage, lastPromptUsage, messages });
  }

  /** The registry that the session's tools come from now. */
  tools(): ToolRegistry {
    return this.#registry;
  }

  get contextPromptContributions(): readonly PromptContribution[] {
    return this.#contextPrompts;
  }

  get overlayRevision(): number {
    return this.#overlayRevision;
  }

  setContextOverlay(overlay: { readonly providers: readonly ToolProvider[]; readonly prompts: readonly PromptContribution[]; readonly includeBaseTools: boolean }): void {
    const { providers, prompts, includeBaseTools } = overlay;
    const isSame = this.#includeBaseTools === includeBaseTools && sameItems(this.#contextTools, providers) && samePrompts(this.#contextPrompts, prompts);
    if (isSame && this.#overlayRevision === 0) return;
    const registry = this.#compose({ includeBase: includeBaseTools, providers });
    this.#registry = registry;
    if (isSame) return;
    this.#includeBaseTools = includeBaseTools;
    this.#contextTools = [...providers];
    this.#contextPrompts = [...prompts];
    this.#overlayRevision += 1;
    this.#catalogs.clear();
  }

  /** Composes the tools again with the overlay as it is, to pick up what sources changed. */
  refreshToolCatalog(): void {
    const registry = this.#overlayRevision === 0 ? this.#refreshBase() : this.#compose({ includeBase: this.#includeBaseTools, providers: this.#contextTools });
    this.#registry = registry;
    this.#catalogs.clear();
  }

  invalidateRuntimeCaches(): void {
    this.#catalogs.clear();
    this.promptCache.clear();
  }

  resolvedToolCatalog(): ToolCatalog {
    return this.#catalogEntry().catalog;
  }

  turnPreamble(): TurnPreamble {
    return this.#catalogEntry().preamble;
  }

  /** The listed tools, the same array as long as the catalog is the same. */
  sharedToolCatalog(): readonly ToolManifest[] {
    const entry = this.#catalogEntry();
    entry.listed ??= Object.freeze([...entry.catalog.members]);
    return entry.listed;
  }

  /** The listed tools as a copy of one's own. */
  toolCatalog(): ToolManifest[] {
    return [...this.sharedToolCatalog()];
  }

  setMessageSender(sender: MessageSender): void {
    this.#messageSender = sender;
  }

  clearMessageSender(): void {
    this.#messageSender = undefined;
  }

  get messageSender(): MessageSender | undefined {
    return this.#messageSender;
  }

  #refreshBase(): ToolRegistry {
    try {
      this.plugins.toolRegistry.refresh();
      return this.plugins.toolRegistry;
    } catch (cause) {
      throw new MarlingError("tool_catalog_failed", `session ${this.id}: the tools could not be refreshed: ${messageOf(cause)}`, { cause });
    }
  }

  #compose(options: { readonly includeBase: boolean; readonly providers: readonly ToolProvider[] }): ToolRegistry {
    try {
      return this.plugins.toolRegistry.compose(options);
    } catch (cause) {
      throw new MarlingError("tool_catalog_failed", `session ${this.id}: failed to build the session's tool registry: ${messageOf(cause)}`, { cause });
    }
  }

  #catalogEntry(): CatalogEntry {
    const key = `${this.#includeBaseTools}:${this.#overlayRevision}:${this.#registry.generation}:${this.plugins.snapshotRevisionFingerprint()}`;
    const known = this.#catalogs.get(key);
    if (known !== undefined) return known;
    const entry = this.#buildCatalog();
    this.#catalogs.set(key, entry);
    return entry;
  }

  #buildCatalog(): CatalogEntry {
    const registry = this.#registry;
    const { toolAccess, subagentContext, extensions, triggers } = this.plugins;
    const catalog = this.plugins.resolveToolCatalog({
      sessionId: this.id,
      tools: registry.manifests(),
      resolveContract: (name) => registry.contract(name),
      toolAccess,
      subagent: subagentContext,
      extensions,
    });
    const preamble = this.plugins.protocolDriver.buildPreamble({ toolCatalog: catalog, extensions, triggers, extraPromptContributions: [] });
    return { catalog, preamble, listed: undefined };
  }
}

function sameItems<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}

function samePrompts(a: readonly PromptContribution[], b: readonly PromptContribution[]): boolean {
  return a.length === b.length && JSON.stringify(a) === JSON.stringify(b);
}

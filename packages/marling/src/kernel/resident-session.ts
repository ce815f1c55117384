// A session in memory: its committed state, its tools under the overlay, and what is cached of them.
//   RS1  the catalog is cached by (base tools, overlay revision, registry generation, plugin fingerprint); failures are
//        not, and only the catalogs used last are kept.
//   RS2  before any overlay the active registry is the plugin session's own object; an overlay is an independent copy.
//   RS3  an overlay or a refresh that fails changes nothing.
//   RS4  state moves only by `adopt`, after a commit, or while the session is being opened.
//   RS6  plugins and tools are held to the authority of the current frame, here and wherever it was changed.
//   RS5  sources are read again at every overlay, changed or not; what they changed is seen, and nothing else moves.

import { type ErrorCode, MarlingError, messageOf } from "../base/errors.ts";
import { keepNewest } from "../base/keep-newest.ts";
import { SerialQueue } from "../base/serial-queue.ts";
import type { SharedList } from "../base/shared-list.ts";
import type { FrameId, SessionId } from "../model/ids.ts";
import { type Json, jsonEqual } from "../model/json.ts";
import type { Message } from "../model/message.ts";
import type { SessionPolicy } from "../model/policy.ts";
import type { PromptContribution } from "../model/prompt.ts";
import { addUsage, NO_USAGE, type TokenUsage } from "../model/usage.ts";
import { type HostServices, type HostView, type HostViewName, hostView } from "../plugin/host-services.ts";
import type { PluginSession } from "../plugin/plugin-session.ts";
import type { TurnPreamble } from "../plugin/protocol.ts";
import { PromptCache } from "../prompt/cache.ts";
import type { Frame, SessionAuthority } from "../session/frame.ts";
import { currentFrame } from "../session/graph.ts";
import { createReadView } from "../session/read-view.ts";
import type { SessionReadView } from "../session/view.ts";
import type { Store } from "../store/contract.ts";
import type { ToolCatalog } from "../tool/catalog.ts";
import type { ToolManifest, ToolProvider } from "../tool/contract.ts";
import type { ToolRegistry } from "../tool/registry.ts";
import { type Bindings, BOUND } from "./bindings.ts";
import type { StartedChildTurn } from "./child-turns.ts";
import type { MadeEnvironment } from "./environment.ts";
import { ObservationLog } from "./observation-log.ts";
import type { KernelParts } from "./parts.ts";
import { ProjectedHistory } from "./projected-history.ts";
import { SessionLease } from "./session-lease.ts";
import type { SessionState } from "./session-state.ts";
import { SessionTrace } from "./session-trace.ts";
import type { SessionWork } from "./session-work.ts";
import { callSlotNow } from "./slot-call.ts";
import type { Payer } from "./spending.ts";
import type { TurnControl } from "./turn-control.ts";

interface CatalogEntry {
  readonly catalog: ToolCatalog;
  readonly preamble: TurnPreamble;
  listed: readonly ToolManifest[] | undefined;
}

/** What catalogs are kept by, as a text and as the revisions that it is made from. */
interface CatalogKey {
  readonly text: string;
  readonly overlay: number;
  readonly generation: number;
  readonly composition: number;
  readonly fingerprint: bigint;
}

/** What code that runs in the sandbox says while it runs. */
export interface SandboxMessage {
  readonly kind: string;
  readonly text: string;
}

/** Where such messages go; closing it ends whoever receives them. */
export interface MessageSender {
  push(message: SandboxMessage): void;
  close(): void;
}

/** Tools and prompt text that one context brings beside the plugins, or instead of the tools. */
export interface ContextOverlay {
  readonly providers: readonly ToolProvider[];
  readonly prompts: readonly PromptContribution[];
  readonly includeBaseTools: boolean;
}

/** Catalogs kept at once: enough to go back and forth between a few states of the plugins. */
const KEPT_CATALOGS = 8;
const NO_OVERLAY: ContextOverlay = Object.freeze({ providers: [], prompts: [], includeBaseTools: true });

export class ResidentSession {
  readonly id: SessionId;
  readonly plugins: PluginSession;
  readonly parts: KernelParts;
  readonly promptCache: PromptCache;
  readonly projectedHistory: ProjectedHistory;
  /** Turns, commands and configuration, one after the other. */
  readonly writer: SerialQueue = new SerialQueue();
  /** Appends and commits, which may land during a turn. */
  readonly commits: SerialQueue = new SerialQueue();
  /** Aborted when the session is released: commits that the store refuses are not tried again for long. */
  readonly ending: AbortController = new AbortController();
  /** Tool calls that apply their state, one after the other. */
  readonly conclusions: SerialQueue = new SerialQueue();
  /** What observers are told. */
  readonly observation: ObservationLog;
  /** The right to write to the session, where several runtimes may. */
  readonly lease: SessionLease;
  /** What is told to the trace; nothing where there is none. */
  readonly trace: SessionTrace | undefined;
  /** Set when others may have committed to the session, or a turn of it ended half-way: looked at before the next one. */
  isDoubtful = false;
  /** How this runtime stands to the newest commit that it has read. */
  bindings: Bindings = BOUND;
  /** It has no plugins and is only read: see session-readers.ts. */
  readonly isReader: boolean;
  /** The environment that was made last: the next turn begins with it if nothing moves. */
  madeEnvironment: MadeEnvironment | undefined;
  /** The plugins that the turn began with that is taken up; see limit-turn.ts. */
  turnPlugins: ReadonlySet<string> | undefined;
  /** The turn that runs, if one does. */
  running: { readonly turnId: string; readonly control: TurnControl } | undefined;
  /** Turns of sessions below that plugins started here and have not awaited. */
  readonly startedTurns: Map<string, StartedChildTurn> = new Map();
  /** What goes on beside its turns. */
  readonly work: SessionWork;
  /** Tokens that were used and are in no ledger yet; see spending.ts. */
  inFlight = 0;
  /** Who waits for the turn that runs, and pays for it. */
  payer: Payer | undefined;
  /** Cells of code that run; the executor's state is not stored in the middle of one. */
  runningCells = 0;
  #state: SessionState;
  /** That of the state, once it was asked for. */
  #frame: Frame | undefined;
  #usage: TokenUsage;
  #registry: ToolRegistry;
  #overlay: ContextOverlay = NO_OVERLAY;
  #overlayRevision = 0;
  /** What plugins and tools are held to. */
  #authority: SessionAuthority;
  /** Moves when the tools did without their generation. */
  #composition = 0;
  #messageSender: MessageSender | undefined;
  readonly #catalogs = new Map<string, CatalogEntry>();
  /** What was asked for last: the key, what it was made from, and its entry. */
  #keyed: CatalogKey | undefined;
  #newest: CatalogEntry | undefined;
  readonly #views = new Map<HostViewName, unknown>();
  readonly #makeServices: (session: ResidentSession) => HostServices;
  #services: HostServices | undefined;

  constructor(
    parts: KernelParts,
    init: {
      readonly plugins: PluginSession;
      readonly state: SessionState;
      /** The session whose history it begins with, where that is open. */
      readonly source?: ResidentSession | undefined;
      readonly isReader?: boolean;
      services(session: ResidentSession): HostServices;
      work(session: ResidentSession): SessionWork;
    },
  ) {
    this.parts = parts;
    this.isReader = init.isReader ?? false;
    this.plugins = init.plugins;
    this.id = init.state.graph.sessionId;
    this.#state = init.state;
    this.#usage = totalOf(init.state);
    this.#authority = currentFrame(init.state.graph).assignment.authority;
    this.projectedHistory = new ProjectedHistory(init.source?.projectedHistory);
    this.promptCache = new PromptCache(parts.prompts);
    this.#registry = init.plugins.toolRegistry;
    this.#makeServices = init.services;
    const { trace, clock, owner } = parts;
    this.trace = trace === undefined ? undefined : new SessionTrace({ trace, clock, owner }, this);
    if (this.trace !== undefined) init.plugins.runner.watch(this.trace);
    this.lease = new SessionLease(this.id, parts.leases);
    this.work = init.work(this);
    this.observation = new ObservationLog({
      sessionId: this.id,
      clock: parts.clock,
      revision: () => this.#state.revision,
      view: () => this.readView().toJSON(),
    });
  }

  get state(): SessionState {
    return this.#state;
  }

  /** Takes over what a commit made true. */
  adopt(state: SessionState): void {
    if (state.ledger !== this.#state.ledger) this.#usage = totalOf(state);
    this.#state = state;
    this.#frame = undefined;
    this.#holdTo(this.frame.assignment.authority);
  }

  get frame(): Frame {
    this.#frame ??= currentFrame(this.#state.graph);
    return this.#frame;
  }

  get frameId(): FrameId {
    return this.#state.graph.currentFrameId;
  }

  get policy(): SessionPolicy {
    return this.frame.assignment.policy;
  }

  /** The narrow host of a hook; made once. */
  host<Name extends HostViewName>(name: Name): HostView<Name> {
    const known = this.#views.get(name) ?? hostView(this.services, name);
    this.#views.set(name, known);
    return known as HostView<Name>;
  }

  /** Made when the first is asked for. */
  get services(): HostServices {
    this.#services ??= this.#makeServices(this);
    return this.#services;
  }

  /** The session at its last commit; `messages` stand in for those of the frame when a turn is in flight. */
  readView(messages?: SharedList<Message>): SessionReadView {
    const { graph, revision, turnIndex, lastPromptUsage } = this.#state;
    return createReadView({
      graph,
      policy: this.policy,
      revision,
      turnIndex,
      usage: this.#usage,
      lastPromptUsage,
      messages,
    });
  }

  /** The registry that the session's tools come from now. */
  tools(): ToolRegistry {
    return this.#registry;
  }

  /** Where the history outlives the process; nothing when it does not. */
  get historyStore(): Store | undefined {
    return this.parts.store.isDurable ? this.parts.store : undefined;
  }

  get contextPromptContributions(): readonly PromptContribution[] {
    return this.#overlay.prompts;
  }

  get overlayRevision(): number {
    return this.#overlayRevision;
  }

  /** Moves whenever the catalog may have: with base tools, overlay, registry and plugin revisions, in this order. */
  get catalogKey(): string {
    const { generation } = this.#registry;
    const overlay = this.#overlayRevision;
    const composition = this.#composition;
    const fingerprint = this.plugins.snapshotRevisionFingerprint();
    const known = this.#keyed;
    if (
      known?.overlay === overlay &&
      known.generation === generation &&
      known.composition === composition &&
      known.fingerprint === fingerprint
    )
      return known.text;
    const text = `${this.#overlay.includeBaseTools}:${overlay}:${generation}.${composition}:${fingerprint}`;
    this.#keyed = { text, overlay, generation, composition, fingerprint };
    return text;
  }

  /** Puts an overlay in place. The same one again only reads the sources again; providers are the same by identity. */
  setContextOverlay(overlay: ContextOverlay): void {
    if (isSameOverlay(this.#overlay, overlay)) {
      this.#readSourcesAgain("tool_catalog_failed");
      return;
    }
    this.#registry = this.#compose(overlay, "tool_catalog_failed");
    this.#overlay = { ...overlay, providers: [...overlay.providers], prompts: [...overlay.prompts] };
    this.#overlayRevision += 1;
    this.#catalogs.clear();
  }

  /** Composes the tools again with the overlay as it is, to pick up what sources changed. */
  refreshToolCatalog(): void {
    this.#readSourcesAgain("protocol_failed");
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

  /** Listens to what code says while it runs, in the place of whoever listened before. */
  setMessageSender(sender: MessageSender): void {
    if (sender !== this.#messageSender) this.clearMessageSender();
    this.#messageSender = sender;
  }

  /** Ends listening, and the receivers with it. */
  clearMessageSender(): void {
    this.#messageSender?.close();
    this.#messageSender = undefined;
  }

  get messageSender(): MessageSender | undefined {
    return this.#messageSender;
  }

  #holdTo(authority: SessionAuthority): void {
    const before = this.#authority;
    this.#authority = authority;
    if (authority === before || jsonEqual(authority as unknown as Json, before as unknown as Json)) return;
    this.plugins.holdTo(authority);
    this.#registry.hide(authority.toolAccess.hiddenTools);
    this.#composition += 1;
  }

  #readSourcesAgain(code: ErrorCode): void {
    const { toolRegistry } = this.plugins;
    const isBase = this.#registry === toolRegistry;
    if (isBase) this.#readTools(() => toolRegistry.refresh(), code);
    const registry = isBase ? toolRegistry : this.#compose(this.#overlay, code);
    if (registry === this.#registry || jsonEqual(stateOf(registry), stateOf(this.#registry))) return;
    this.#registry = registry;
    this.#composition += 1;
  }

  #compose({ includeBaseTools: includeBase, providers }: ContextOverlay, code: ErrorCode): ToolRegistry {
    return this.#readTools(() => this.plugins.toolRegistry.compose({ includeBase, providers }), code);
  }

  #readTools<T>(read: () => T, code: ErrorCode): T {
    try {
      return read();
    } catch (cause) {
      const message = `session ${this.id}: failed to build the session's tool registry: ${messageOf(cause)}`;
      throw new MarlingError(code, message, { cause, details: { sessionId: this.id } });
    }
  }

  #catalogEntry(): CatalogEntry {
    const key = this.catalogKey;
    const known = this.#catalogs.get(key);
    if (known !== undefined && known === this.#newest) return known;
    const entry = known ?? this.#buildCatalog();
    keepNewest(this.#catalogs, [key, entry], KEPT_CATALOGS);
    this.#newest = entry;
    return entry;
  }

  #buildCatalog(): CatalogEntry {
    const registry = this.#registry;
    const { toolAccess, subagentContext, extensions, triggers } = this.plugins;
    const toolCatalog = this.plugins.resolveToolCatalog({
      sessionId: this.id,
      tools: registry.manifests(),
      resolveContract: (name) => registry.contract(name),
      toolAccess,
      subagent: subagentContext,
      extensions,
    });
    const input = { toolCatalog, extensions, triggers, extraPromptContributions: [] };
    const site = { slot: "protocol.driver", callback: "buildPreamble" } as const;
    const preamble = callSlotNow(this, site, () => this.plugins.protocolDriver.buildPreamble(input));
    return { catalog: toolCatalog, preamble, listed: undefined };
  }
}

function totalOf({ ledger }: SessionState): TokenUsage {
  return ledger.reduce((sum, entry) => addUsage(sum, entry.usage), NO_USAGE);
}

function stateOf(registry: ToolRegistry): Json {
  return registry.exportState() as unknown as Json;
}

function isSameOverlay(a: ContextOverlay, b: ContextOverlay): boolean {
  if (a.includeBaseTools !== b.includeBaseTools || a.providers.length !== b.providers.length) return false;
  if (!a.providers.every((provider, index) => provider === b.providers[index])) return false;
  return jsonEqual(a.prompts as unknown as Json, b.prompts as unknown as Json);
}
